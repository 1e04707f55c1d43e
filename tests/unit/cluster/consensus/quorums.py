"""Consensus logs to test: each engine with what it stands on, and ways to disturb it."""

from typing import Protocol

from goqueue.broker.metadata.local_log import LocalLog
from goqueue.cluster.consensus import ConsensusLog, Entries, Index, Snapshot, Term
from goqueue.runtime import Clock
from goqueue.testing.sim import SimDisk
from goqueue.testing.sim.consensus import SimQuorum
from tests.unit.broker.brokers import LonePartition

START = Index(0)


class Quorum(Protocol):
    """What a scenario of the contract stands on."""

    def connect(self) -> ConsensusLog:
        """One more node's way to it."""

    async def restart(self) -> None:
        """Everything that is not durable is gone; those who were connected connect again."""


class LocalQuorum:
    """One voter: whoever connects shares its log."""

    def __init__(self, disk: SimDisk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._log = self._open()

    def _open(self) -> LocalLog:
        return LocalLog(LonePartition(self._disk), self._disk, self._clock, "/snapshots")

    def connect(self) -> LocalLog:
        return self._log

    async def restart(self) -> None:
        self._disk = self._disk.crash()
        self._log = self._open()


class ModelQuorum:
    def __init__(self, seed: int | str = 0, *, lose: float = 0.0) -> None:
        self.quorum = SimQuorum(seed, lose=lose)
        self._nodes = 0

    def connect(self) -> ConsensusLog:
        self._nodes += 1
        return self.quorum.connect(f"node {self._nodes}")

    async def restart(self) -> None:
        pass  # it is as durable as can be


async def append(log: ConsensusLog, term: Term, *values: bytes) -> Index:
    """At the end; gives the index of the first one."""
    at = await log.end()
    await log.append(term, at, values)
    return at


async def read_to(log: ConsensusLog, end: Index, start: Index = START) -> list[bytes]:
    """All entries from `start` to `end`; a snapshot counts as the values in it."""
    found: list[bytes] = []
    position = start
    if position >= end:
        return found
    async for each in log.follow(start):
        if isinstance(each, Snapshot):
            found = list(each.values)
            position = each.index
        else:
            assert each.first == position, f"a gap: {each.first} after {position}"
            found += each.values
            position = each.next
        if position >= end:
            return found
    raise AssertionError("it goes on for ever")


async def read_all(log: ConsensusLog) -> list[bytes]:
    return await read_to(log, await log.end())


async def first_of(log: ConsensusLog, start: Index) -> Snapshot | Entries:
    async for each in log.follow(start):
        return each
    raise AssertionError("it goes on for ever")
