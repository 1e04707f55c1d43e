"""All partitions of this node: opened when first used, kept in good order, closed at the end.

A log that nobody uses costs nothing at start-up and no handles.  `PartitionUpkeep` keeps what is
open in good order, `TopicDirectories` knows whose the files are.

A topic may be deleted while its partitions are being opened, and its name be taken by another one
before its files are gone.  So a partition is found by its topic's id as well.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any, Final

import msgspec
import structlog

from goqueue.broker.storage.bundle import DATA, DELAYS, KINDS, LEDGER, Bundle, log_id
from goqueue.broker.storage.disk_room import DiskRoom
from goqueue.broker.storage.file_hold import FileHold
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_upkeep import PartitionUpkeep, try_upkeep
from goqueue.broker.storage.topic_directories import TopicDirectories
from goqueue.broker.traces.recorder import PartitionTracer
from goqueue.cluster import Topic
from goqueue.cluster.replication import Leader, Offline, Role
from goqueue.log import Log, Recovery, Replica, open_log
from goqueue.model.config import StorageConfig
from goqueue.model.errors import (
    GoQueueError,
    TopicNotFound,
)
from goqueue.model.ids import (
    Epoch,
    NodeId,
    Offset,
    PartitionId,
    TopicId,
    TopicIdPartition,
    TopicName,
)
from goqueue.model.settings import TopicSettings, topic_settings
from goqueue.runtime import Clock, Disk, Environment
from goqueue.trace.events import Space

FIRST_EPOCH: Final = Epoch(0)  # of a partition's first leader
INTERNAL_SETTINGS: Final = {"retention.ms": "-1", "max.message.bytes": "100000000"}
LEADING_AT_ONCE: Final = 64  # partitions that are made ready to be led

Key = tuple[str, int]  # a TopicPartition; the plain pair, as each request looks it up
OnRecovered = Callable[[TopicName, int, TopicId, Offset], Awaitable[None]]
OnOpened = Callable[[Partition], Awaitable[None]]
OnLed = Callable[[Topic, Bundle], Awaitable[None]]
ReplicaOf = Callable[[TopicId | None, int], Replica | None]
RoleOf = Callable[[TopicId | None, int], Role | None]
TracerOf = Callable[[str, TopicId | None, int, TopicSettings, Space], PartitionTracer | None]
FlushObserver = Callable[[Partition, float, GoQueueError | None], None]

_SPACES: Final = {DATA: Space.DATA, DELAYS: Space.DELAYS}  # logs that have messages

_log = structlog.get_logger("goqueue.partitions")


class Partitions:
    def __init__(
        self,
        environment: Environment,
        data_dir: str,
        config: StorageConfig,
        *,
        node_id: NodeId,
        on_opened: OnOpened,
    ) -> None:
        self._disk: Disk = environment.disk
        self._clock: Clock = environment.clock
        self._node_id = node_id
        self.directories = TopicDirectories(self._disk, data_dir)
        self._open: dict[Key, Partition] = {}  # the data of the bundles, which each request wants
        self._bundles: dict[Key, Bundle] = {}
        self._by_log: dict[TopicIdPartition, tuple[Bundle, str]] = {}
        self._opening: dict[tuple[Key, TopicId | None, str], asyncio.Future[Partition]] = {}
        self._leading: dict[asyncio.Future[None], None] = {}
        self._turns_to_lead = asyncio.Semaphore(LEADING_AT_ONCE)
        self._abandoned: dict[TopicId, list[Partition]] = {}  # of topics that are being deleted
        self.room = DiskRoom(self._disk, self._clock, self.directories.logs, config)
        self.upkeep = PartitionUpkeep(self, self.directories, self._disk, self._clock, config)
        self.files = FileHold()
        self.recovery = Recovery()  # of all logs opened so far, together
        self.closed_cleanly = True  # False once a log could not be checkpointed at the end
        self.tracer_of: TracerOf = lambda _topic, _topic_id, _index, _settings, _space: None
        self.observe_flush: FlushObserver = lambda _partition, _seconds, _error: None
        self.on_recovered: OnRecovered = _nobody_minds  # before anybody reads it or writes to it
        self._on_opened = on_opened  # before anybody reads it or writes to it
        # Which of several replicas this node keeps; None: it keeps the only one.
        self.replica_of: ReplicaOf = lambda _topic_id, _index: None
        # What this node is to a partition when that is first used; later `change_role` tells.
        # None: its leader, without any followers.
        self.role_of: RoleOf = lambda _topic_id, _index: None
        self.on_led: OnLed = _nobody_leads  # all logs of the partition take writes
        # Leaders whose disk failed, or lacks records: the role is what they had.
        self.on_unfit: Callable[[Bundle, Leader], None] = lambda _bundle, _role: None
        self.on_resigned: Callable[[Bundle], None] = lambda _bundle: None  # none does any more

    # --- finding ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Partition]:
        """Those that are open."""
        return iter(list(self._open.values()))

    def logs(self) -> list[Partition]:
        """Those that are open, and the logs beside them."""
        return [log for bundle in self._bundles.values() for log in bundle]

    def find_open(self, topic: str, index: int) -> Partition | None:
        return self._open.get((topic, index))

    async def get(self, topic: Topic, index: int) -> Partition:
        """The partition, opened and recovered when this is its first use.

        Raises `NotLeader` when it is not open, and another node leads it.
        """
        partition = self._open.get((topic.name, index))
        if partition is not None and partition.topic_id == topic.topic_id:
            return partition
        bundle = self.bundle(topic, index)
        bundle.check_leader()
        partition = await self.open_log(topic, index, DATA)
        await bundle.lead()
        return partition

    @property
    def opening_count(self) -> int:
        return len(self._opening)

    async def log_bytes(self, topic: Topic, indexes: Iterable[int]) -> dict[int, int]:
        """How much each partition's records take on disk; no log is opened for it."""
        opened = {index: self._open.get((topic.name, index)) for index in indexes}
        sizes = {index: each.log.size for index, each in opened.items() if each is not None}
        unopened = opened.keys() - sizes.keys()
        return sizes | await self._disk.in_background(
            lambda: {
                index: self.directories.stored_bytes(topic, index) for index in sorted(unopened)
            }
        )

    async def internal(self, name: str, settings: TopicSettings) -> Partition:
        """The one partition of a log that must be there before there is any metadata."""
        if (opened := self.find_open(name, 0)) is not None:
            return opened
        bundle = self._bundle_of(name, None, 0)
        work = functools.partial(self._open_partition, bundle, settings)
        return await self._open_once(bundle, DATA, work)

    async def has_log(self, name: str) -> bool:
        """Whether there is such an internal log on this disk."""
        directory = f"{self.directories.logs}/{name}/0"
        return await self._disk.in_background(lambda: self._disk.exists(directory))

    # --- bundles ----------------------------------------------------------------------------------

    def bundle(self, topic: Topic, index: int) -> Bundle:
        """The logs of a partition as one; nothing is opened for it."""
        topic.check_partition(index)
        return self._bundle_of(topic.name, topic.topic_id, index)

    def bundles(self) -> list[Bundle]:
        """Those that somebody asked for, or that this node was told of."""
        return list(self._bundles.values())

    def used_bundle(self, topic: str, index: int) -> Bundle | None:
        """The same by the topic's name; None when nobody asked for it yet."""
        return self._bundles.get((topic, index))

    def find_bundle(self, log_id: TopicId, index: int) -> tuple[Bundle, str] | None:
        """The bundle that a log belongs to, and the log's kind, by what other nodes call it.

        None when this node was not told of the partition, or has not used it.
        """
        return self._by_log.get(TopicIdPartition(log_id, index))

    def change_role(self, topic: Topic, index: int, role: Role) -> asyncio.Future[None]:
        """What this node is to the partition from now on, in all its logs.

        What the former role allowed ends before this returns: writes, and waits for commits.  Done
        when it is so; to lead, the logs are opened, and note where the epoch begins.  If that
        fails the partition is offline here, and the error is the future's.
        """
        bundle = self.bundle(topic, index)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        before, is_open = bundle.role, bundle.find(DATA) is not None
        if role == before and (is_open or not isinstance(role, Leader)):
            return done
        bundle.change_role(role)
        if (
            is_open
            and isinstance(role, Leader)
            and isinstance(before, Leader)
            and before.epoch == role.epoch
            and (len(before.replicas) > 1 or len(role.replicas) == 1)
        ):
            return done  # another ISR
        self.on_resigned(bundle)
        if not isinstance(role, Leader):
            return done
        leading = asyncio.ensure_future(self._lead(topic, bundle, role.epoch))  # rule-ok: `close`
        self._leading[leading] = None
        leading.add_done_callback(self._note_led)
        return leading

    async def _lead(self, topic: Topic, bundle: Bundle, epoch: Epoch) -> None:
        index = bundle.index
        try:
            async with self._turns_to_lead:
                await self.open_log(topic, index, DATA)
                for kind in await self._disk.in_background(
                    lambda: self.directories.stored_beside(topic.name, index)
                ):
                    await self.open_log(topic, index, kind)
                await self._begin_replicas(bundle)
                await bundle.lead()
            if bundle.leads:
                await self.on_led(topic, bundle)
            data = bundle.find(DATA)
            if data is not None and data.leads:
                await self._on_opened(data)
        except GoQueueError as error:
            role = bundle.role
            is_leading = bundle.leads and bundle.find(DATA) is not None  # no logs: all of them lead
            if isinstance(role, Leader) and role.epoch == epoch and not is_leading:
                bundle.change_role(Offline(str(error), epoch))
                self.on_unfit(bundle, role)
            raise

    async def _begin_replicas(self, bundle: Bundle) -> None:
        """Logs that were opened as the only replica keep their watermark once there are others."""
        replica, topic_id = self.replica_of(bundle.topic_id, bundle.index), bundle.topic_id
        if replica is None or topic_id is None:
            return
        for each in bundle:
            if each.log.replica is None:
                own = msgspec.structs.replace(replica, topic_id=log_id(topic_id, each.kind))
                await self._disk.in_background(functools.partial(each.log.begin_replica, own))

    def _note_led(self, leading: asyncio.Future[None]) -> None:
        del self._leading[leading]
        error = None if leading.cancelled() else leading.exception()
        if error is not None:
            _log.error("partition not led", problem=str(error))

    def _bundle_of(self, topic: str, topic_id: TopicId | None, index: int) -> Bundle:
        bundle = self._bundles.get((topic, index))
        if bundle is None or bundle.topic_id != topic_id:
            if topic_id is not None and not self.directories.topic_exists(topic_id):
                raise TopicNotFound(f"topic {topic!r} was deleted")
            role = self.role_of(topic_id, index)
            bundle = Bundle(topic, topic_id, PartitionId(index), role)
            self._bundles[topic, index] = bundle
            if topic_id is not None:
                for kind in KINDS:
                    self._by_log[TopicIdPartition(log_id(topic_id, kind), index)] = bundle, kind
        return bundle

    async def open_log(self, topic: Topic, index: int, kind: str) -> Partition:
        """One log of a bundle, opened when it is not, whatever this node is to it.

        For who copies it: others ask for the partition, or a log beside it.
        """
        bundle = self.bundle(topic, index)
        found = bundle.find(kind)
        if found is not None:
            return found
        work = (
            functools.partial(self._open_partition, bundle, topic.settings)
            if kind == DATA
            else functools.partial(self._open_beside, bundle, topic.settings, kind)
        )
        return await self._open_once(bundle, kind, work)

    # --- logs beside the data ---------------------------------------------------------------------

    async def ledger(self, topic: Topic, index: int) -> Partition:
        """The log of the partition's queue ledger; it begins when it is first asked for."""
        return await self.log_beside(topic, index, LEDGER)

    async def log_beside(self, topic: Topic, index: int, kind: str) -> Partition:
        """A log beside the partition's data; it begins when it is first asked for."""
        log = await self.open_log(topic, index, kind)
        await self.bundle(topic, index).lead()
        return log

    async def _open_beside(self, bundle: Bundle, settings: TopicSettings, kind: str) -> Partition:
        topic, index = bundle.topic, bundle.index
        own = _settings_beside(settings)
        log, recovery = await self._disk.in_background(lambda: self._open_log(bundle, own, kind))
        if recovery.lost is not None:
            bundle.lost_below[kind] = recovery.lost.next_offset
        self._tell_recovery(topic, index, recovery)
        log.close()
        beside = self._make_partition(bundle, log, kind)
        await self._refuse_deleted(beside)
        bundle.add(beside)
        return beside

    # --- opening ----------------------------------------------------------------------------------

    async def _open_once(
        self,
        bundle: Bundle,
        kind: str,
        work: Callable[[], Coroutine[Any, Any, Partition]],
    ) -> Partition:
        opening = (bundle.topic, int(bundle.index)), bundle.topic_id, kind
        waiting = self._opening.get(opening)
        if waiting is None:
            waiting = asyncio.ensure_future(work())  # rule-ok: `close` waits for it
            self._opening[opening] = waiting
            waiting.add_done_callback(lambda _: self._opening.pop(opening, None))
        return await asyncio.shield(waiting)

    async def _open_partition(self, bundle: Bundle, settings: TopicSettings) -> Partition:
        topic, index, topic_id = bundle.topic, bundle.index, bundle.topic_id
        log, recovery = await self._disk.in_background(
            lambda: self._open_log(bundle, settings, DATA)
        )
        if recovery.lost is not None:
            bundle.lost_below[DATA] = recovery.lost.next_offset
        self._tell_recovery(topic, index, recovery)
        log.close()  # until it is used: whoever opens ten thousand needs few handles
        if topic_id is not None:
            await self.on_recovered(TopicName(topic), index, topic_id, log.end_offset)
        partition = self._make_partition(bundle, log, DATA)
        if topic_id is not None and bundle.role is None:
            await self._on_opened(partition)
        await self._refuse_deleted(partition)
        bundle.add(partition)
        self._open[topic, index] = partition
        return partition

    def _make_partition(self, bundle: Bundle, log: Log, kind: str) -> Partition:
        # Epochs never fall.  Whoever was told a role takes it when the log is added to the others.
        epoch = max(FIRST_EPOCH, log.epochs.latest)
        partition = Partition(
            bundle.topic,
            bundle.topic_id,
            bundle.index,
            log,
            Leader.alone(self._node_id, epoch),
            self._disk,
            self.upkeep.note_dirty,
            self._note_flush,
            self.upkeep.note_wait,
            self.files,
            kind,
        )
        space = _SPACES.get(kind)
        if space is not None:
            partition.tracer = self.tracer_of(
                bundle.topic, bundle.topic_id, bundle.index, log.settings, space
            )
        return partition

    async def _refuse_deleted(self, partition: Partition) -> None:
        """The topic may have been deleted while its log was opened."""
        topic_id = partition.topic_id
        if topic_id is not None and not self.directories.topic_exists(topic_id):
            self.upkeep.forget(partition)
            partition.abandon()
            await partition.wait_idle()
            raise TopicNotFound(f"topic {partition.topic!r} was deleted")

    def leader_epoch(self, topic: Topic, index: int) -> Epoch:
        """That of its role; the first one, if it is not open."""
        partition = self._open.get((topic.name, index))
        return FIRST_EPOCH if partition is None else partition.leader_epoch

    def _open_log(self, bundle: Bundle, settings: TopicSettings, kind: str) -> tuple[Log, Recovery]:
        """Blocking."""
        topic, topic_id = bundle.topic, bundle.topic_id
        replica = self.replica_of(topic_id, bundle.index)
        if topic_id is not None:
            self.directories.claim(topic, topic_id)
            if replica is not None:
                replica = msgspec.structs.replace(replica, topic_id=log_id(topic_id, kind))
        directory = self.directories.partition_directory(topic, bundle.index)
        return open_log(self._disk, f"{directory}/{kind}".rstrip("/"), settings, replica)

    def _tell_recovery(self, topic: str, index: int, recovery: Recovery) -> None:
        self.recovery.add(recovery)
        if recovery.problems or recovery.cut_bytes:
            _log.warning(
                "log recovered",
                topic=topic,
                partition=index,
                verified_bytes=recovery.verified_bytes,
                cut_bytes=recovery.cut_bytes,
                removed_segments=recovery.removed_segments,
                problems=recovery.problems,
            )

    # --- changing ---------------------------------------------------------------------------------

    def apply_settings(self, topic: Topic) -> None:
        for index in range(topic.partitions):
            bundle = self._bundles.get((topic.name, index))
            for log in bundle or ():
                is_data = log.kind == DATA
                log.apply_settings(topic.settings if is_data else _settings_beside(topic.settings))

    def abandon(self, topic: Topic) -> None:
        """Let nobody find or use the topic's partitions any more; `delete` follows."""
        keys = [(topic.name, index) for index in range(topic.partitions)]
        found = [self._bundles[key] for key in keys if key in self._bundles]
        mine = [bundle for bundle in found if bundle.topic_id == topic.topic_id]
        self._abandoned[topic.topic_id] = [log for bundle in mine for log in bundle]
        for bundle in mine:
            self._forget(bundle)
        for log in self._abandoned[topic.topic_id]:
            self.upkeep.forget(log)
            log.abandon()

    def _forget(self, bundle: Bundle) -> None:
        key = (bundle.topic, int(bundle.index))
        del self._bundles[key]
        self._open.pop(key, None)
        if bundle.topic_id is not None:
            for kind in KINDS:
                del self._by_log[TopicIdPartition(log_id(bundle.topic_id, kind), bundle.index)]

    async def delete(self, topic: Topic) -> bool:
        """Take the topic's data away.  What a crash or an error leaves goes at the next start.

        True when nothing of it is left below its name.
        """
        for partition in self._abandoned.pop(topic.topic_id, ()):
            await partition.wait_idle()
        opening = [work for (_, owner, _), work in self._opening.items() if owner == topic.topic_id]
        if opening:
            await asyncio.wait(opening)
        try:
            async with self.files.removing():
                remove = functools.partial(
                    self.directories.remove_topic, topic.name, topic.topic_id
                )
                await self._disk.in_background(remove)
        except GoQueueError as error:
            _log.error("deleted topic's data left", topic=topic.name, problem=str(error))
            return False
        return True

    async def drop_replica(self, topic: Topic, index: int) -> None:
        """Other nodes have the partition now: its files go, and nobody finds it here any more.

        The metadata has said so, and this node has nothing that the others lack.
        """
        bundle = self._bundles.get((topic.name, index))
        logs: list[Partition] = []
        if bundle is not None and bundle.topic_id == topic.topic_id:
            logs = list(bundle)
            self._forget(bundle)
        for log in logs:
            self.upkeep.forget(log)
            log.abandon()
        for log in logs:
            await log.wait_idle()
        opening = [work for (key, *_), work in self._opening.items() if key == (topic.name, index)]
        if opening:
            await asyncio.wait(opening)
        remove = functools.partial(
            self.directories.remove_replica, topic.name, topic.topic_id, index
        )
        async with self.files.removing():
            await self._disk.in_background(remove)

    async def find_stored_replicas(self) -> list[TopicIdPartition]:
        """The partitions that have files here, whoever has them now."""
        return await self._disk.in_background(self.directories.stored_replicas)

    # --- upkeep -----------------------------------------------------------------------------------

    def _note_flush(self, partition: Partition, seconds: float, error: GoQueueError | None) -> None:
        self.upkeep.note_flush(partition)
        if error is not None and not partition.log.abandoned:
            self.upkeep.forget(partition)
            _log.error(
                "partition is read-only: the disk failed",
                topic=partition.topic,
                partition=partition.index,
                problem=str(error),
            )
            bundle = self._bundles.get((partition.topic, int(partition.index)))
            if bundle is not None and isinstance(bundle.role, Leader):
                self.on_unfit(bundle, bundle.role)
        self.observe_flush(partition, seconds, error)

    async def close(self) -> None:
        """What cannot be brought in good order now is so at the next start."""
        await asyncio.gather(*self._leading, *self._opening.values(), return_exceptions=True)
        closed = await asyncio.gather(
            *(try_upkeep("closing", partition, partition.close) for partition in self.logs())
        )
        self.closed_cleanly = all(closed) and not self.read_only()
        self._open.clear()
        self._bundles.clear()
        self._by_log.clear()

    def reconfigure(self, config: StorageConfig) -> None:
        self.upkeep.config = config
        self.room.config = config

    def read_only(self) -> list[Partition]:
        """Those open ones whose disk failed: they are read, and take no writes."""
        return [partition for partition in self.logs() if partition.log.failed is not None]


def _settings_beside(settings: TopicSettings) -> TopicSettings:
    """A log beside the data is committed by the same replicas as the data."""
    own = topic_settings(INTERNAL_SETTINGS)
    return msgspec.structs.replace(
        own,
        min_insync_replicas=settings.min_insync_replicas,
        goqueue_trace_enable=settings.goqueue_trace_enable,
        goqueue_trace_sample_rate=settings.goqueue_trace_sample_rate,
    )


async def _nobody_leads(_topic: Topic, _bundle: Bundle) -> None:
    return


async def _nobody_minds(_topic: TopicName, _index: int, _topic_id: TopicId, _end: Offset) -> None:
    return
