"""The journal of a machine on a partition: values, and the snapshots between them.

When a snapshot is whole and committed, the log is cut where it begins, so a log is about as long as
its snapshot and what follows.  It has everything that a replica needs.  Opening reads it up to
three times (which snapshot is whole, its slices, the values), and decodes each record once.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Final

from goqueue.broker.journal import ReadValues, StoredSnapshot
from goqueue.broker.storage import log_snapshot
from goqueue.broker.storage.log_snapshot import Piece, Pieces
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.snapshot_directory import SnapshotDirectory
from goqueue.model import batch as batches
from goqueue.model.batch import BatchHeader, Buffer
from goqueue.model.errors import DiskFull, LeadershipLost
from goqueue.model.ids import Epoch, Offset
from goqueue.model.names import is_internal
from goqueue.model.record import Record
from goqueue.runtime import Clock, Disk

BATCH_RECORDS_MAX: Final = 5_000
READ_BYTES: Final = 1024 * 1024
# So much of a snapshot is written before it is synced: whoever waits for a commit waits for it too.
UNSYNCED_BYTES_MAX: Final = 256 * 1024


class PartitionJournal:
    """See `Journal`."""

    def __init__(self, partition: Partition, disk: Disk, clock: Clock, directory: str) -> None:
        """`directory` has the snapshots of a former release, if there are any."""
        self._partition = partition
        self._disk = disk
        self._clock = clock
        self._end = partition.log.end_offset  # behind the last value; slices may follow
        self._files = SnapshotDirectory(partition, disk, directory)
        self._snapshot_bytes = 0  # of the newest

    @property
    def name(self) -> str:
        is_only_one = is_internal(self._partition.topic) and not self._partition.index
        return self._partition.topic if is_only_one else str(self._partition)

    @property
    def end_offset(self) -> Offset:
        return self._end

    @property
    def epoch(self) -> Epoch:
        return self._partition.leader_epoch

    @property
    def failed(self) -> str | None:
        return self._partition.log.failed

    # --- writing ----------------------------------------------------------------------------------

    def append(self, values: Sequence[bytes]) -> Offset:
        self._partition.check_enough_replicas()
        now = self._clock.now()
        data, headers = bytearray(), []
        for some in _cut_batches(values):
            position = len(data)
            data += batches.encode([Record(0, now, None, value) for value in some])
            headers.append(batches.header_at(data, position))
        last = self._partition.append(data, headers, now).last_offset
        self._end = Offset(last + 1)
        return last

    def is_committed(self, offset: Offset) -> bool:
        return offset < self._partition.log.high_watermark

    @property
    def has_uncommitted(self) -> bool:
        return self._partition.log.high_watermark < self._end

    def wait_committed(self, offset: Offset) -> asyncio.Future[None]:
        return self._partition.wait_committed(offset)

    async def wait_settled(self) -> None:
        await self._partition.wait_committed(Offset(self.end_offset - 1))

    def demand_sync(self) -> None:
        self._partition.demand_flush()

    # --- reading ----------------------------------------------------------------------------------

    async def read(self, offset: Offset, end: Offset | None = None) -> AsyncIterator[ReadValues]:
        async for data in self._read_batches(offset, end):
            values, size, pieces = list[bytes](), 0, 0
            for header in batches.headers(data):
                if log_snapshot.find_piece(data, header) is None:
                    values += _values_from(offset, data, header)
                    size += header.size
                else:
                    pieces += header.size
            yield ReadValues(values, size, pieces)

    async def _read_batches(
        self, offset: Offset, end: Offset | None = None
    ) -> AsyncIterator[Buffer]:
        end = self._find_end() if end is None else end
        while offset < end:
            chunk = await self._partition.read(offset, READ_BYTES, end)
            yield chunk.data
            offset = chunk.next_offset

    def _find_end(self) -> Offset:
        return self._partition.log.end_offset

    # --- snapshots --------------------------------------------------------------------------------

    async def newest_snapshot(self) -> StoredSnapshot | None:
        """In the log it is the first one that is whole: the log was cut where it begins.

        Unless a crash came before the cut; then it is the one before, and the log goes on from it.
        """
        found = await self._files.newest()
        start = self._partition.log.start_offset
        if found is not None and found.offset >= start:
            found = await self._find_in_log(found.offset) or found
        elif start > 0:
            found = await self._find_in_log(start)
        self._files.check_continued(found)
        self._snapshot_bytes = 0 if found is None else found.bytes
        return found

    async def _find_in_log(self, start: Offset) -> StoredSnapshot | None:
        pieces = Pieces()
        async for piece in self._read_pieces(start):
            whole = pieces.note(piece)
            if whole is not None:
                return StoredSnapshot(*whole)
        return None

    async def _read_pieces(self, start: Offset) -> AsyncIterator[Piece]:
        async for data in self._read_batches(start):
            for header in batches.headers(data):
                piece = log_snapshot.find_piece(data, header)
                if piece is not None:
                    yield piece

    async def read_snapshot(self, snapshot: StoredSnapshot) -> AsyncIterator[Sequence[bytes]]:
        if snapshot.is_file:
            async for block in self._files.read(snapshot):
                yield block
            return
        async for piece in self._read_pieces(snapshot.offset):
            if piece.at == snapshot.offset:
                if piece.is_end:
                    return
                yield piece.records

    async def store_snapshot(
        self, offset: Offset, slices: Iterable[Sequence[bytes]]
    ) -> StoredSnapshot:
        """Its slices are committed as they are written, and the log is cut when its end is."""
        log, epoch = self._partition.log, self.epoch
        at, count, size, unsynced = log.end_offset, 0, 0, 0
        assert offset <= at, "it is not ahead of its log"
        for records in slices:
            data = log_snapshot.encode_slice(at, records, self._clock.now())
            last = self._append_piece(data, epoch)
            count, size, unsynced = count + 1, size + len(data), unsynced + len(data)
            if count == 1:
                await self._check_room()
            elif unsynced >= UNSYNCED_BYTES_MAX:
                await self._partition.wait_committed(last)
                unsynced = 0
            else:
                await asyncio.sleep(0)
        end = log_snapshot.encode_end(at, count, self._clock.now())
        await self._partition.wait_committed(self._append_piece(end, epoch))
        await self._partition.remove_before(at)
        await self._files.remove()
        self._snapshot_bytes = size
        return StoredSnapshot(at, size)

    def _append_piece(self, data: bytearray, epoch: Epoch) -> Offset:
        partition = self._partition
        partition.check_enough_replicas()
        if partition.leader_epoch != epoch:  # another leader may have written in between
            raise LeadershipLost(f"{partition} has a new epoch: its snapshot is given up")
        headers = [batches.header_at(data, 0)]
        return partition.append(data, headers, self._clock.now()).last_offset

    async def _check_room(self) -> None:
        """What is in the log stays there: a full disk is not filled with half a snapshot."""
        free = await self._disk.in_background(
            lambda: self._disk.free_bytes(self._partition.log.directory)
        )
        if free < self._snapshot_bytes:
            raise DiskFull(
                f"a snapshot of {self.name} takes {self._snapshot_bytes} bytes, {free} are free"
            )


class CommittedJournal(PartitionJournal):
    """Of a log that another node writes: it ends where it is committed."""

    def _find_end(self) -> Offset:
        return self._partition.log.high_watermark


def _values_from(offset: Offset, data: Buffer, header: BatchHeader) -> Iterator[bytes]:
    for record in batches.decode(data, header):
        if record.offset >= offset and record.value is not None:
            yield record.value


def _cut_batches(values: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    if len(values) <= BATCH_RECORDS_MAX:
        return (values,)
    return _pieces(values)


def _pieces(values: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(values), BATCH_RECORDS_MAX):
        yield values[start : start + BATCH_RECORDS_MAX]
