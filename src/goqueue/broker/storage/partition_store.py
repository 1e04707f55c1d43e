"""All partitions of this node: opened when first used, kept in good order, closed at the end.

A log that nobody uses costs nothing at start-up and no handles.  What is open is checkpointed,
its old segments are removed and compacted in the background, one log at a time.

    logs/{topic}/topic              which topic the directory belongs to, by its id
    logs/{topic}/{partition}/…      see `goqueue.log`
    logs/{topic}/{partition}/ledger/…   the partition's queue ledger, a log of its own; with a topic
                                    that no queue group consumes there is none
    deleted/{topic id}/             on its way out; removed in the background and at start-up
    orphaned/{topic}.{topic id}/    see `orphans.py`; never removed

A topic may be deleted while its partitions are being opened, and its name be taken by another one
before its files are gone.  So a partition is found by its topic's id as well, and a directory is
opened or moved away only for the id that is written in it.
"""

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator
from typing import Any, Final

import msgspec
import structlog

from goqueue.broker.storage.bundle import DATA, KINDS, LEDGER, Bundle, log_id
from goqueue.broker.storage.disk_room import DiskRoom
from goqueue.broker.storage.file_hold import FileHold
from goqueue.broker.storage.orphans import (
    TOPIC_FILE,
    TOPIC_KIND,
    TOPIC_VERSION,
    Orphan,
    find_orphans,
    read_owner,
)
from goqueue.broker.storage.partition import Partition
from goqueue.cluster import Topic
from goqueue.cluster.replication import Leader, Offline, Role
from goqueue.log import Log, Recovery, Replica, framed, open_log
from goqueue.log import checkpoint as checkpoints
from goqueue.model.config import StorageConfig
from goqueue.model.errors import (
    CorruptData,
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
from goqueue.model.names import is_internal
from goqueue.model.settings import TopicSettings, topic_settings
from goqueue.runtime import Clock, Disk, Environment

FLUSH_CHECK_SECONDS: Final = 0.1
WATERMARK_SECONDS: Final = 1.0
FIRST_EPOCH: Final = Epoch(0)  # of a partition's first leader
INTERNAL_SETTINGS: Final = {"retention.ms": "-1", "max.message.bytes": "100000000"}
LEADING_AT_ONCE: Final = 64  # partitions that are made ready to be led

Key = tuple[str, int]  # a TopicPartition; the plain pair, as each request looks it up
OnRecovered = Callable[[TopicName, int, TopicId, Offset], Awaitable[None]]
OnOpened = Callable[[Partition], Awaitable[None]]
OnLed = Callable[[Topic, Bundle], Awaitable[None]]
ReplicaOf = Callable[[TopicId | None, int], Replica | None]
RoleOf = Callable[[TopicId | None, int], Role | None]
FlushObserver = Callable[[Partition, float, GoQueueError | None], None]

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
        self._config = config
        self._node_id = node_id
        self._data_dir = data_dir
        self._logs = f"{data_dir}/logs"
        self._deleted = f"{data_dir}/deleted"
        self._orphaned = f"{data_dir}/orphaned"
        self._open: dict[Key, Partition] = {}  # the data of the bundles, which each request wants
        self._bundles: dict[Key, Bundle] = {}
        self._by_log: dict[TopicIdPartition, tuple[Bundle, str]] = {}
        self._opening: dict[tuple[Key, TopicId | None, str], asyncio.Future[Partition]] = {}
        self._leading: dict[asyncio.Future[None], None] = {}
        self._turns_to_lead = asyncio.Semaphore(LEADING_AT_ONCE)
        self._abandoned: dict[TopicId, list[Partition]] = {}  # of topics that are being deleted
        self._directories = threading.Lock()  # held while a topic's directory changes hands
        self._removing = threading.Lock()
        self._dirty: dict[Partition, float] = {}  # written and not synced, since when
        self._waited_for: dict[Partition, None] = {}  # with time-outs; in order, as it is a seed's
        self.room = DiskRoom(self._disk, self._clock, self._logs, config)
        self.files = FileHold()
        self.recovery = Recovery()  # of all logs opened so far, together
        self.closed_cleanly = True  # False once a log could not be checkpointed at the end
        self.observe_flush: FlushObserver = lambda _partition, _seconds, _error: None
        self.on_recovered: OnRecovered = _nobody_minds  # before anybody reads it or writes to it
        self._on_opened = on_opened  # before anybody reads it or writes to it
        self.topic_exists: Callable[[TopicId], bool] = lambda _topic_id: True
        self.topic_was_deleted: Callable[[TopicId], bool] = lambda _topic_id: False
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
        """Those that are open, and the ledgers beside them."""
        return [log for bundle in self._bundles.values() for log in bundle]

    def opened(self, topic: str, index: int) -> Partition | None:
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
            lambda: {index: self._stored_bytes(topic, index) for index in sorted(unopened)}
        )

    def _stored_bytes(self, topic: Topic, index: int) -> int:
        """Blocking."""
        directory = f"{self._logs}/{topic.name}/{index}"
        names = [name for name in self._disk.list_directory(directory) if name.endswith(".log")]
        try:
            return sum(self._disk.size(f"{directory}/{name}") for name in names)
        except FileNotFoundError:  # the topic is being deleted
            return 0

    async def internal(self, name: str, settings: TopicSettings) -> Partition:
        """The one partition of a log that must be there before there is any metadata."""
        bundle = self._bundle_of(name, None, 0)
        work = functools.partial(self._open_partition, bundle, settings)
        return await self._open_once(bundle, DATA, work)

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
        leading.add_done_callback(self._led)
        return leading

    async def _lead(self, topic: Topic, bundle: Bundle, epoch: Epoch) -> None:
        index = bundle.index
        try:
            async with self._turns_to_lead:
                await self.open_log(topic, index, DATA)
                directory = self.ledger_directory(topic.name, index)
                if await self._disk.in_background(lambda: self._disk.exists(directory)):
                    await self.open_log(topic, index, LEDGER)
                await self._begin_replicas(bundle)
                await bundle.lead()
            if bundle.leads:
                await self.on_led(topic, bundle)
            data = bundle.find(DATA)
            if data is not None and data.leads:
                await self._on_opened(data)
        except GoQueueError as error:
            role = bundle.role
            if isinstance(role, Leader) and role.epoch == epoch and not bundle.leads:
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

    def _led(self, leading: asyncio.Future[None]) -> None:
        del self._leading[leading]
        error = None if leading.cancelled() else leading.exception()
        if error is not None:
            _log.error("partition not led", problem=str(error))

    def _bundle_of(self, topic: str, topic_id: TopicId | None, index: int) -> Bundle:
        bundle = self._bundles.get((topic, index))
        if bundle is None or bundle.topic_id != topic_id:
            if topic_id is not None and not self.topic_exists(topic_id):
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

        For who copies it: others ask for the partition, or its ledger.
        """
        bundle = self.bundle(topic, index)
        found = bundle.find(kind)
        if found is not None:
            return found
        open_log = self._open_partition if kind == DATA else self._open_ledger
        return await self._open_once(
            bundle, kind, functools.partial(open_log, bundle, topic.settings)
        )

    # --- ledgers ----------------------------------------------------------------------------------

    async def ledger(self, topic: Topic, index: int) -> Partition:
        """The log of the partition's queue ledger; it begins when it is first asked for."""
        ledger = await self.open_log(topic, index, LEDGER)
        await self.bundle(topic, index).lead()
        return ledger

    def ledger_directory(self, topic: str, index: int) -> str:
        return f"{self._logs}/{topic}/{index}/{LEDGER}"

    def make_ledger_directory(self, topic: Topic, index: int) -> str:
        """Blocking.  In the topic's own directory, whatever was there before."""
        with self._directories:
            self._claim_directory(topic.name, topic.topic_id)
        directory = self.ledger_directory(topic.name, index)
        self._disk.make_directory(directory)
        return directory

    def stored_ledgers(self, topics: Iterable[Topic]) -> list[tuple[Topic, int]]:
        """Blocking.  The partitions that have one."""
        return [
            (topic, index)
            for topic in topics
            for index in self._stored_indexes(topic)
            if self._disk.exists(self.ledger_directory(topic.name, index))
        ]

    def _stored_indexes(self, topic: Topic) -> list[int]:
        names = self._disk.list_directory(f"{self._logs}/{topic.name}")
        found = sorted(int(name) for name in names if name.isdigit())
        try:
            is_mine = bool(found) and self._owner(topic.name) == topic.topic_id
        except CorruptData:  # whoever opens a partition of it is told
            is_mine = False
        if not is_mine:
            return []
        return [index for index in found if topic.has_partition(index)]

    async def _open_ledger(self, bundle: Bundle, settings: TopicSettings) -> Partition:
        topic, index = bundle.topic, bundle.index
        own = _ledger_settings(settings)
        log, recovery = await self._disk.in_background(lambda: self._open_log(bundle, own, LEDGER))
        if recovery.lost is not None:
            bundle.lost_below[LEDGER] = recovery.lost.next_offset
        self._tell_recovery(topic, index, recovery)
        log.close()
        ledger = self._make_partition(bundle, log, LEDGER)
        await self._refuse_deleted(ledger)
        bundle.add(ledger)
        return ledger

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
        return Partition(
            bundle.topic,
            bundle.topic_id,
            bundle.index,
            log,
            Leader.alone(self._node_id, epoch),
            self._disk,
            self._note_dirty,
            self._note_flush,
            self._note_wait,
            self.files,
            kind,
        )

    async def _refuse_deleted(self, partition: Partition) -> None:
        """The topic may have been deleted while its log was opened."""
        topic_id = partition.topic_id
        if topic_id is not None and not self.topic_exists(topic_id):
            self._dirty.pop(partition, None)
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
            with self._directories:
                self._claim_directory(topic, topic_id)
            if replica is not None:
                replica = msgspec.structs.replace(replica, topic_id=log_id(topic_id, kind))
        directory = f"{self._logs}/{topic}/{bundle.index}"
        return open_log(self._disk, f"{directory}/{kind}".rstrip("/"), settings, replica)

    def _claim_directory(self, topic: str, topic_id: TopicId) -> None:
        """Blocking.  A directory left by another topic of the same name is moved away first.

        One that has partitions and does not say whose they are is left to the operator: they may
        well be this topic's.  So are those of an internal topic: before there was a cluster its
        directory had no such file.
        """
        if not self.topic_exists(topic_id):
            raise TopicNotFound(f"topic {topic!r} was deleted")
        directory = f"{self._logs}/{topic}"
        owner = self._owner(topic)
        if owner == topic_id:
            return
        if owner is not None and self.topic_was_deleted(owner):
            self._move_to_deleted(topic, owner)
        elif owner is not None:
            self._set_aside(topic, owner)
        elif not is_internal(topic) and self._has_partitions(directory):
            raise CorruptData(
                f"{directory} has data, and the file {TOPIC_FILE!r} that says whose is missing:"
                f" restore it (the topic's id is {topic_id}), or move the directory away"
            )
        self._disk.make_directory(directory)
        framed.store(self._disk, f"{directory}/{TOPIC_FILE}", TOPIC_KIND, TOPIC_VERSION, topic_id)

    def _has_partitions(self, directory: str) -> bool:
        return any(name.isdigit() for name in self._disk.list_directory(directory))

    def _owner(self, topic: str) -> TopicId | None:
        """Blocking.  None when there is no file that says; raises `CorruptData`."""
        return read_owner(self._disk, f"{self._logs}/{topic}")

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
                log.apply_settings(topic.settings if is_data else _ledger_settings(topic.settings))

    def abandon(self, topic: Topic) -> None:
        """Let nobody find or use the topic's partitions any more; `delete` follows."""
        keys = [(topic.name, index) for index in range(topic.partitions)]
        found = [self._bundles[key] for key in keys if key in self._bundles]
        mine = [bundle for bundle in found if bundle.topic_id == topic.topic_id]
        self._abandoned[topic.topic_id] = [log for bundle in mine for log in bundle]
        for bundle in mine:
            self._forget(bundle)
        for log in self._abandoned[topic.topic_id]:
            self._dirty.pop(log, None)
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
                remove = functools.partial(self._remove_topic, topic.name, topic.topic_id)
                await self._disk.in_background(remove)
        except GoQueueError as error:
            _log.error("deleted topic's data left", topic=topic.name, problem=str(error))
            return False
        return True

    def _remove_topic(self, topic: str, topic_id: TopicId) -> None:
        """Blocking."""
        with self._directories:
            if self._owner(topic) == topic_id:
                self._move_to_deleted(topic, topic_id)
        self.remove_deleted()

    def _move_to_deleted(self, topic: str, owner: TopicId) -> None:
        self._move_away(topic, f"{self._deleted}/{owner}")

    def _set_aside(self, topic: str, owner: TopicId) -> None:
        target = self._move_away(topic, f"{self._orphaned}/{topic}.{owner}")
        _log.warning(
            "data of an unknown topic set aside: a new topic has its name",
            topic=topic,
            topic_id=str(owner),
            path=target,
        )

    def _move_away(self, topic: str, target: str) -> str:
        """Blocking; with the directories locked."""
        parent = target.rpartition("/")[0]
        self._disk.make_directory(parent)
        while self._disk.exists(target):
            target += "+"
        self._disk.rename(f"{self._logs}/{topic}", target)
        self._disk.sync_directory(self._logs)
        self._disk.sync_directory(parent)
        return target

    def remove_deleted(self) -> None:
        """Blocking."""
        with self._removing:
            for name in self._disk.list_directory(self._deleted):
                self._disk.remove_tree(f"{self._deleted}/{name}")

    def finish_deletions(self, deleted: Collection[TopicId]) -> bool:
        """Blocking.  Remove the data of topics whose deletion a crash or an error interrupted.

        `deleted` are those of the start: they are durable.  True when all of it is gone.
        """
        is_done = True
        for name in self._disk.list_directory(self._logs) if deleted else ():
            if is_internal(name):
                continue
            try:
                self._finish_deletion(name, deleted)
            except GoQueueError as error:
                is_done = False
                _log.error("directory left alone", path=f"{self._logs}/{name}", problem=str(error))
        self.remove_deleted()
        return is_done

    def _finish_deletion(self, name: str, deleted: Collection[TopicId]) -> None:
        with self._directories:
            owner = self._owner(name)
            if owner is not None and owner in deleted:
                _log.info("removing data of a deleted topic", topic=name)
                self._move_to_deleted(name, owner)

    def orphans(self) -> list[Orphan]:
        """Blocking.  Directories with data that the metadata does not account for."""
        with self._directories:
            return find_orphans(
                self._disk,
                self._data_dir,
                lambda owner: self.topic_exists(owner) or self.topic_was_deleted(owner),
            )

    def report_orphans(self) -> None:
        """Blocking."""
        for orphan in self.orphans():
            _log.warning(
                "data of an unknown topic left alone: the metadata has no record of it",
                path=orphan.path,
                topic=orphan.topic,
                topic_id=str(orphan.topic_id or "unknown"),
                log_bytes=orphan.log_bytes,
            )

    def refuse_unknown_topics(self) -> None:
        """Blocking.  Without metadata every topic would be an orphan."""
        for name in self._disk.list_directory(self._logs):
            if not is_internal(name) and self._disk.exists(f"{self._logs}/{name}/{TOPIC_FILE}"):
                raise CorruptData(
                    f"{self._logs} holds topic {name!r}, and the metadata that should know it is"
                    " missing: restore logs/__metadata and snapshots/, run `goqueue doctor"
                    f" --data-dir {self._data_dir} --repair`, or start with an empty directory"
                )

    # --- upkeep -----------------------------------------------------------------------------------

    async def run_flushes(self) -> None:
        """Sync what nobody waits for, within its topic's `flush.ms`; end waits that are overdue."""
        loop = asyncio.get_running_loop()
        while True:
            await self._clock.sleep(FLUSH_CHECK_SECONDS)
            now = loop.time()
            for partition, since in list(self._dirty.items()):
                settings = partition.log.settings
                if settings.flush != "never" and now - since >= settings.flush_ms / 1000:
                    partition.demand_flush()
            for partition in list(self._waited_for):
                if not partition.end_overdue(now):
                    del self._waited_for[partition]

    async def run_watermarks(self) -> None:
        """Let the logs that have several replicas remember how far they are committed."""
        while True:
            await self._clock.sleep(WATERMARK_SECONDS)
            for log in self.logs():
                log.log.store_watermark()

    async def run_checkpoints(self) -> None:
        while True:
            await self._clock.sleep(self._config.checkpoint_ms / 1000)
            await self.room.look()
            for partition in self.logs():
                if partition.log.needs_checkpoint and partition.log.failed is None:
                    await _guarded("checkpoint", partition, partition.checkpoint)

    async def run_retention(self, topics: Callable[[], Iterable[Topic]]) -> None:
        while True:
            await self._clock.sleep(self._config.retention_check_ms / 1000)
            for topic in list(topics()):
                look = functools.partial(self._to_look_at, topic)
                for index in await self._disk.in_background(look):
                    retain = functools.partial(self._retain_at, topic, index)
                    await _guarded("retention", f"{topic.name}-{index}", retain)

    async def _retain_at(self, topic: Topic, index: int) -> None:
        if self.bundle(topic, index).is_led_here:  # followers do as their leader does
            await self.retain(await self.get(topic, index))

    def _to_look_at(self, topic: Topic) -> list[int]:
        """Blocking.  The partitions that are open, or worth opening for retention's sake."""
        names = self._disk.list_directory(f"{self._logs}/{topic.name}")
        stored = sorted(int(name) for name in names if name.isdigit())
        return [
            index
            for index in stored
            if topic.has_partition(index)
            and ((topic.name, index) in self._open or self._may_have_old(topic, index))
        ]

    def _may_have_old(self, topic: Topic, index: int) -> bool:
        directory = f"{self._logs}/{topic.name}/{index}"
        names = self._disk.list_directory(directory)
        if sum(name.endswith(".log") for name in names) != 1:
            return bool(names)
        try:
            checkpoint = checkpoints.load(self._disk, directory)
        except CorruptData:
            return True
        if checkpoint is None or checkpoint.tail.size == 0:
            return False
        oldest_kept = self._clock.now() - topic.settings.retention_ms
        return topic.settings.retention_ms >= 0 and checkpoint.tail.max_timestamp < oldest_kept

    async def retain(self, partition: Partition) -> None:
        """Roll an old active segment and remove what the topic need not keep."""
        now = self._clock.now()
        log = partition.log
        if log.failed is not None or log.abandoned or not partition.leads:
            return  # followers do as their leader does
        if log.is_old(now):
            log.roll()
        if log.knows_times:
            start = log.retention_start(now)
        else:
            start = await self._disk.in_background(lambda: log.retention_start(now))
        if start > log.start_offset:
            before = log.start_offset
            removed = await partition.remove_before(start)
            _log.info(
                "old records removed",
                topic=partition.topic,
                partition=partition.index,
                from_offset=before,
                to_offset=start,
                segments=removed,
            )

    def _note_dirty(self, partition: Partition) -> None:
        self._dirty[partition] = asyncio.get_running_loop().time()

    def _note_wait(self, partition: Partition) -> None:
        self._waited_for[partition] = None

    def _note_flush(self, partition: Partition, seconds: float, error: GoQueueError | None) -> None:
        if not partition.log.needs_sync:
            self._dirty.pop(partition, None)
        elif partition in self._dirty:
            self._note_dirty(partition)
        if error is not None and not partition.log.abandoned:
            self._dirty.pop(partition, None)
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
            *(_guarded("closing", partition, partition.close) for partition in self.logs())
        )
        self.closed_cleanly = all(closed) and not self.read_only()
        self._open.clear()
        self._bundles.clear()
        self._by_log.clear()

    def reconfigure(self, config: StorageConfig) -> None:
        self._config = config
        self.room.config = config

    def read_only(self) -> list[Partition]:
        """Those open ones whose disk failed: they are read, and take no writes."""
        return [partition for partition in self.logs() if partition.log.failed is not None]


async def _guarded(what: str, where: object, work: Callable[[], Awaitable[None]]) -> bool:
    """One log's trouble must not stop the upkeep of the others; False when there was some."""
    try:
        await work()
    except TopicNotFound:  # deleted meanwhile: nothing is wrong
        _log.debug(f"{what} skipped, the topic was deleted", partition=str(where))
    except GoQueueError as error:
        _log.error(f"{what} failed", partition=str(where), problem=str(error))
        return False
    return True


def _ledger_settings(settings: TopicSettings) -> TopicSettings:
    """A ledger is committed by the same replicas as the messages that it is about."""
    own = topic_settings(INTERNAL_SETTINGS)
    return msgspec.structs.replace(own, min_insync_replicas=settings.min_insync_replicas)


async def _nobody_leads(_topic: Topic, _bundle: Bundle) -> None:
    return


async def _nobody_minds(_topic: TopicName, _index: int, _topic_id: TopicId, _end: Offset) -> None:
    return
