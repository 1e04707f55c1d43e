"""Warm standbys: machines of coordinators that other nodes run, as far as their logs are committed.

    this node follows a shard ── every `LOOK_SECONDS`, what was committed is applied ──> `Standby`
    it is elected ── `take` ──> the machine, and how far it is ── the rest of the log is applied

So a node that takes over applies what came in the last moments, not the whole log.  Only committed
records are applied.  They are never cut, so a machine need not go back; what the log has beyond
them is applied when the node leads, as after every start.

A standby is dropped, and begun anew, when its log does not go on from where it is: the log was
copied anew, or an unclean election exchanged records.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from goqueue.broker.journal import WarmStart
from goqueue.broker.machine_host import replay
from goqueue.broker.storage.bundle import DATA
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_journal import CommittedJournal
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster.replication import Follower
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Instant, Offset
from goqueue.model.machine import Machine
from goqueue.runtime import Clock

LOOK_SECONDS: Final = 0.2
RETRY_NS: Final = 10_000_000_000  # after a log could not be read

MakeMachine = Callable[[], Machine[Any]]
Taken = tuple[Any, WarmStart | None]  # the topic's machine and how far it is; or two Nones
OpenJournal = Callable[[Partition], CommittedJournal]

_log = structlog.get_logger("goqueue.standby")


class Standby:
    """Of one log, while this node follows it."""

    def __init__(self, partition: Partition, journal: CommittedJournal, make: MakeMachine) -> None:
        self.partition = partition
        self.retry_at = Instant(0)
        self._journal = journal
        self._make = make
        self._lock = asyncio.Lock()  # held while records are applied
        self._forget()

    def _forget(self) -> None:
        self._machine: Machine[Any] | None = None
        self._position = Offset(0)  # invariant: not above the high watermark
        self._unclean_cuts = self.partition.unclean_cuts
        self._start = Offset(0)  # of the log: it rises with every snapshot
        self._records = self._bytes = 0  # since the newest snapshot
        self._snapshot_bytes = self._pieces_bytes = 0  # of the newest, and of the next one

    @property
    def is_behind(self) -> bool:
        return self._position < self.partition.log.high_watermark or not self._goes_on()

    def _goes_on(self) -> bool:
        """Whether what was applied is what the log has, or had, before this position."""
        log = self.partition.log
        is_there = log.start_offset <= self._position <= log.high_watermark
        is_same = self._unclean_cuts == self.partition.unclean_cuts
        return self._machine is None or (is_there and is_same)

    async def catch_up(self) -> None:
        """Apply what is committed by now.  Raises what keeps it from that, and begins anew."""
        async with self._lock:
            try:
                await self._apply_committed()
            except GoQueueError:
                self._forget()
                raise

    async def _apply_committed(self) -> None:
        log = self.partition.log
        if not self._goes_on():
            self._forget()
        end = log.high_watermark
        if end <= self._position:
            return
        machine = self._machine or await self._load()
        async for piece in self._journal.read(self._position, end):
            await replay(machine, piece.values)
            self._records += len(piece.values)
            self._bytes += piece.bytes
            self._pieces_bytes += piece.snapshot_bytes
        self._machine, self._position = machine, end
        self._note_snapshot()

    async def _load(self) -> Machine[Any]:
        """A new machine, as the newest snapshot has it."""
        machine, self._start = self._make(), self.partition.log.start_offset
        snapshot = await self._journal.newest_snapshot()
        if snapshot is not None:
            self._position, self._snapshot_bytes = snapshot.offset, snapshot.bytes
            async for records in self._journal.read_snapshot(snapshot):
                await replay(machine, records)
        return machine

    def _note_snapshot(self) -> None:
        """The log is cut when its leader has stored one."""
        if self.partition.log.start_offset > self._start:
            self._start = self.partition.log.start_offset
            self._snapshot_bytes, self._pieces_bytes = self._pieces_bytes, 0
            self._records = self._bytes = 0

    async def take(self) -> Taken:
        async with self._lock:
            machine = self._machine
            if machine is None or not self._goes_on():
                return None, None
            self._machine = None
            return machine, WarmStart(
                self._position, self._records, self._bytes, self._snapshot_bytes
            )


class Standbys:
    """Of all shards that this node follows."""

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        open_journal: OpenJournal,
        makers: Mapping[str, MakeMachine],
        count: Callable[[str], int],
    ) -> None:
        """`makers` have a new machine for each topic, `count` says how many shards that has."""
        self._partitions = partitions
        self._clock = clock
        self._open_journal = open_journal
        self._makers = makers
        self._count = count
        self._standbys: dict[tuple[str, int], Standby] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            for topic in self._makers:
                for shard in range(self._count(topic)):
                    await self._look(topic, shard)

    async def _look(self, topic: str, shard: int) -> None:
        log = self._find_log(topic, shard)
        standby = self._standbys.get((topic, shard))
        if standby is not None and standby.partition is not log:
            del self._standbys[topic, shard]
            standby = None
        if log is None or not isinstance(log.role, Follower):
            return
        if standby is None:
            standby = Standby(log, self._open_journal(log), self._makers[topic])
            self._standbys[topic, shard] = standby
        if standby.is_behind and self._clock.instant() >= standby.retry_at:
            await self._catch_up(standby)

    def _find_log(self, topic: str, shard: int) -> Partition | None:
        bundle = self._partitions.used_bundle(topic, shard)
        return None if bundle is None else bundle.find(DATA)

    async def _catch_up(self, standby: Standby) -> None:
        try:
            await standby.catch_up()
        except GoQueueError as error:  # the node can still coordinate, from the whole log
            standby.retry_at = Instant(self._clock.instant() + RETRY_NS)
            _log.debug("no standby for now", partition=str(standby.partition), problem=str(error))

    async def take(self, topic: str, shard: int) -> Taken:
        """This node leads the shard: the machine and how far it is, if there is one."""
        standby = self._standbys.pop((topic, shard), None)
        if standby is None or standby.partition is not self._find_log(topic, shard):
            return None, None
        machine, warm = await standby.take()
        if warm is not None:
            end = standby.partition.log.end_offset
            _log.info("standby takes over", topic=topic, partition=shard, behind=end - warm.offset)
        return machine, warm
