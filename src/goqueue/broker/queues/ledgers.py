"""The queue ledgers of this node: a machine a partition, on a log beside the partition's data.

    logs/{topic}/{partition}/ledger/             the log
    logs/{topic}/{partition}/ledger/snapshots/   its snapshots

A ledger is there once a group began in the partition, or dead letters were taken from it.  Those
that are there are opened at the start: leases run out and dead letters are written although nobody
asks.  A ledger goes with its topic's directory, in one rename.

A ledger is led with its partition: it is dropped when another node leads (`drop`), and replayed
when this one does again.  What it decided and could not commit is nobody's state.

What a request decides over several partitions is a decision for each ledger.  Their syncs run at
the same time: whoever waits asks all of them first.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import structlog

from goqueue.broker.host_upkeep import HostUpkeep
from goqueue.broker.machine_host import Committed, MachineHost, Written
from goqueue.broker.queues.ledger_split import SNAPSHOTS
from goqueue.broker.storage.bundle import LEDGER
from goqueue.broker.storage.partition import not_leader
from goqueue.broker.storage.partition_journal import PartitionJournal
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Topic
from goqueue.cluster.replication import Leader
from goqueue.model.errors import CorruptData, LeadershipLost, NotEnoughReplicas, NotLeader
from goqueue.model.ids import GroupId, Offset, TopicId, TopicName, TopicPartition
from goqueue.model.machine import Decision
from goqueue.queue import Due, GroupTable, QueueMachine, QueueRecord, Where
from goqueue.runtime import Clock, Disk

SNAPSHOT_RECORDS_MIN: Final = 100  # that are worth a snapshot when nothing else asks for one
OPENED_AT_ONCE: Final = 16

_log = structlog.get_logger("goqueue.queues")

Ledger = MachineHost[QueueMachine]
ReplyT = TypeVar("ReplyT")
OnDeadline = Callable[[Due, Committed], None]
OnRecords = Callable[[QueueMachine, Sequence[QueueRecord]], None]


class Ledgers:
    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        partitions: Partitions,
        table: GroupTable,
        on_deadline: OnDeadline,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._partitions = partitions
        self._table = table
        self._on_deadline = on_deadline
        self._upkeep = HostUpkeep(clock, records_min=SNAPSHOT_RECORDS_MIN)
        self._open: dict[TopicPartition, Ledger] = {}
        self._opening: dict[TopicPartition, asyncio.Lock] = {}
        self.version = 0  # counts openings and drops
        self.on_records: OnRecords | None = None  # what ledgers of this node decide

    async def run(self) -> None:
        """Fire deadlines and take snapshots, until cancelled."""
        await self._upkeep.run()

    # --- finding ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Ledger]:
        return iter(list(self._open.values()))

    def find(self, topic: str, partition: int) -> Ledger | None:
        return self._open.get(TopicPartition(TopicName(topic), partition))

    async def get(self, topic: Topic, partition: int) -> Ledger:
        """The ledger of the partition; it begins when it is first asked for."""
        place = TopicPartition(topic.name, partition)
        found = self._open.get(place)
        if found is not None:
            return found
        self._partitions.bundle(topic, partition).check_leader()
        lock = self._opening.setdefault(place, asyncio.Lock())
        async with lock:
            found = self._open.get(place)
            return found or await self._open_ledger(topic, partition)

    def refusal(self, topic: str, partition: int) -> NotLeader | None:
        """Why a ledger is not found that is somewhere; None when there is none."""
        bundle = self._partitions.used_bundle(topic, partition)
        if bundle is None or bundle.role is None:
            return None
        if not bundle.is_led_here:
            return not_leader(str(bundle), bundle.role)
        if not bundle.leads or bundle.find(LEDGER) is not None:
            return NotLeader(f"the queue ledger of {bundle} is being loaded")
        return None

    async def open_all(self, topics: Iterable[Topic]) -> None:
        """Those that are stored, and only here.

        One that has replicas is opened when its partition is led.  It may have to wait for them,
        and they cannot reach a node that has not started.
        """
        every = list(topics)
        stored = await self._disk.in_background(
            lambda: self._partitions.directories.stored_ledgers(every)
        )
        stored = [place for place in stored if not self._has_replicas(*place)]
        for first in range(0, len(stored), OPENED_AT_ONCE):
            some = stored[first : first + OPENED_AT_ONCE]
            await asyncio.gather(*(self._try_open(topic, index) for topic, index in some))

    def _has_replicas(self, topic: Topic, index: int) -> bool:
        role = self._partitions.bundle(topic, index).role
        return isinstance(role, Leader) and len(role.replicas) > 1

    async def _try_open(self, topic: Topic, index: int) -> None:
        """One that is damaged is left to whoever asks for it: the others go on."""
        try:
            await self.get(topic, index)
        except NotLeader:
            return
        except (CorruptData, NotEnoughReplicas) as error:
            _log.error("queue ledger not opened", problem=str(error))

    async def _open_ledger(self, topic: Topic, index: int) -> Ledger:
        partition = await self._partitions.ledger(topic, index)
        partition.check_leader()
        epoch = partition.leader_epoch
        directory = f"{partition.log.directory}/{SNAPSHOTS}"
        journal = PartitionJournal(partition, self._disk, self._clock, directory)
        machine = QueueMachine(topic.name, index, self._table)
        host = MachineHost(machine, journal, self._clock, self._on_deadline, self._upkeep)
        try:
            await self._replay(host, topic, index)
            if partition.leader_epoch != epoch:
                partition.check_leader()
                raise NotLeader(f"{partition} has a new epoch: its ledger is read once more")
        except BaseException:
            self._close(host)
            raise
        host.on_records = self.on_records
        self._open[TopicPartition(topic.name, index)] = host
        self.version += 1
        return host

    async def _replay(self, host: Ledger, topic: Topic, index: int) -> None:
        host.ahead.counts = False
        try:
            await host.open()
        except CorruptData as error:
            raise CorruptData(
                f"the queue ledger of {topic.name}-{index} is damaged: {error}. Stop the server and"
                " run `goqueue doctor --repair`, which says what is lost and keeps the files"
            ) from error
        host.ahead.counts = True
        data = self._partitions.find_open(topic.name, index)
        if data is not None:  # its end was not told to this ledger when it was opened
            end = data.log.end_offset
            await shorten_log(host, topic.topic_id, end)

    def drop(self, topic: str, partition: int | None = None) -> frozenset[GroupId]:
        """This node has no ledgers of the topic, or of the partition, any more; gives whose.

        The topic is deleted, or another node leads.
        """
        gone = [place for place in self._open if place.topic == topic]
        if partition is not None:
            gone = [place for place in gone if place.partition == partition]
        else:
            for place in [place for place in self._opening if place.topic == topic]:
                del self._opening[place]
        hosts = [self._open.pop(place) for place in gone]
        groups = frozenset(group_id for host in hosts for group_id in host.ahead.states)
        for host in hosts:
            self._close(host)
        self.version += 1
        return groups

    def _close(self, host: Ledger) -> None:
        machine = host.ahead
        text = f"the queue ledger of {machine.topic}-{machine.partition} is not led here any more"
        host.resign(lambda: NotLeader(text), lambda: LeadershipLost(text))
        machine.close()


async def shorten_log(
    ledger: Ledger, topic_id: TopicId, end: Offset
) -> Sequence[tuple[Where, Offset]]:
    """Forget, durably, what groups did behind the log's end; gives the floors that this moved.

    Mostly nothing is written, and then nothing is waited for: other replicas may be in sync only
    once this log is open.
    """
    floors, written = ledger.write(lambda machine: machine.shorten_log(topic_id, end))
    if written is not None:
        await ledger.durable(written)
    return floors


# --- waiting for several --------------------------------------------------------------------------


class Waiting(NamedTuple):
    """What a ledger wrote, for who wants it durable."""

    ledger: Ledger
    written: Written


def demand_sync(waiting: Iterable[Waiting]) -> None:
    """Somebody is going to `wait_durable` for these."""
    for ledger, _ in waiting:
        ledger.demand_sync()


async def wait_durable(waiting: Sequence[Waiting]) -> None:
    """Return when all of it is durable; the ledgers sync at the same time."""
    if len(waiting) > 1:
        demand_sync(waiting)
    for ledger, written in waiting:
        await ledger.durable(written)


async def submit_all(
    ledgers: Iterable[Ledger],
    decide: Callable[[QueueMachine], Decision[QueueRecord, ReplyT]],
) -> list[ReplyT]:
    """Let each decide, all in one step, and answer when all of it is durable."""
    decided = [ledger.submit_now(decide) for ledger in ledgers]
    for _, committed in decided:
        if committed is not None:
            await committed
    return [reply for reply, _ in decided]


async def settle_all(ledgers: Iterable[Ledger]) -> None:
    """Return when everything that these decided so far is durable."""
    every = list(ledgers)
    for ledger in every:
        ledger.demand_sync()
    for ledger in every:
        await ledger.wait_settled()
