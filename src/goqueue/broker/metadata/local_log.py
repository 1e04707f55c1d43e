"""The consensus log of one voter: this node's own log, synced to its own disk.

Nobody else can append, for the data directory belongs to one process.  Terms are counted all the
same, in a file of their own: whoever is told something by this node can tell an earlier process
from a later one.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final

from goqueue.broker.journal import StoredSnapshot
from goqueue.broker.long_poll import LongPoll
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_journal import PartitionJournal
from goqueue.broker.storage.snapshot_directory import SnapshotDirectory
from goqueue.cluster.consensus import Entries, Index, Leadership, Member, Snapshot, Term
from goqueue.log import framed
from goqueue.model.errors import DiskFull, Fenced
from goqueue.model.ids import Offset
from goqueue.runtime import Clock, Disk

TERM_FILE: Final = "term"
KIND: Final = b"T"
VERSION: Final = 1
LOOK_SECONDS: Final = 60.0  # at the longest; a follower is woken when there is more


class LocalLog:
    """See `ConsensusLog`."""

    def __init__(self, partition: Partition, disk: Disk, clock: Clock, directory: str) -> None:
        """`directory` holds the snapshots and the term."""
        self._partition = partition
        self._disk = disk
        self._clock = clock
        self._journal = PartitionJournal(partition, disk, clock, directory)
        self._snapshots = SnapshotDirectory(partition, disk, directory)
        self._directory = directory
        self._term = Term(0)
        self._leading = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._journal.name

    @property
    def failed(self) -> str | None:
        return self._journal.failed

    async def close(self) -> None:
        """The partition is its owner's to close."""

    async def members(self) -> Sequence[Member]:
        return [Member("this node", "", True, self.failed or "")]

    # --- leading ----------------------------------------------------------------------------------

    async def lead(self, after: Term | None = None) -> Leadership:
        if after is not None and after != self._term:
            raise Fenced(f"term {self._term} has been taken")
        snapshot = await self._load_snapshot()
        async with self._leading:
            term = self._term = await self._disk.in_background(self._take_term)
        end = await self.end()
        return Leadership(term, end, snapshot is not None)

    async def term(self) -> Term:
        return self._term

    def _take_term(self) -> Term:
        """Blocking."""
        path = f"{self._directory}/{TERM_FILE}"
        self._disk.make_directory(self._directory)
        before = framed.load(self._disk, path, KIND, VERSION, int) or 0
        term = Term(max(before, self._term) + 1)
        with contextlib.suppress(DiskFull):  # a start does not fail over it: nobody knows the term
            framed.store(self._disk, path, KIND, VERSION, term)
        return term

    def append(self, term: Term, at: Index, values: Sequence[bytes]) -> asyncio.Future[None]:
        self._check_term(term)
        assert at == Index(self._journal.end_offset), f"append at {at}, not at the end"
        return self._journal.wait_committed(self._journal.append(values))

    async def end(self) -> Index:
        end = self._journal.end_offset
        await self._journal.wait_settled()
        return Index(end)

    def _check_term(self, term: Term) -> None:
        if term != self._term:
            raise Fenced(f"term {term} has ended, it is {self._term}")

    # --- following --------------------------------------------------------------------------------

    async def follow(self, start: Index) -> AsyncGenerator[Snapshot | Entries, None]:
        position, log = start, self._partition.log
        if position == 0 or position < log.start_offset:
            snapshot = await self._newest_snapshot()
            if snapshot is not None:
                position = snapshot.index
                yield snapshot
        with LongPoll(self._clock, None) as poll:
            poll.subscribe([self._partition])
            while True:
                end = Offset(log.high_watermark)
                async for piece in self._journal.read(Offset(position), end):
                    entries = Entries(position, piece.values)
                    position = entries.next
                    yield entries
                if log.high_watermark == end:
                    await poll.wait(LOOK_SECONDS)

    # --- snapshots --------------------------------------------------------------------------------

    async def store_snapshot(self, term: Term, at: Index, slices: Iterable[Sequence[bytes]]) -> int:
        self._check_term(term)
        return (await self._snapshots.store(Offset(at), slices)).bytes

    async def _load_snapshot(self) -> StoredSnapshot | None:
        """The newest; raises `CorruptData` when the log does not go on from it."""
        stored = await self._snapshots.newest()
        self._snapshots.check_continued(stored)
        return stored

    async def _newest_snapshot(self) -> Snapshot | None:
        stored = await self._load_snapshot()
        if stored is None:
            return None
        values = [value async for some in self._snapshots.read(stored) for value in some]
        return Snapshot(Index(stored.offset), values, stored.bytes)
