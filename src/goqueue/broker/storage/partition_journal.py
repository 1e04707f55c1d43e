"""The journal of one node: a partition of an internal topic, and a directory for its snapshots."""

import asyncio
import functools
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Final

from goqueue.broker.journal import ReadValues, StoredSnapshot
from goqueue.broker.storage import snapshot_file
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.snapshot_file import SnapshotWriter
from goqueue.model import batch as batches
from goqueue.model.errors import CorruptData, GoQueueError
from goqueue.model.ids import Epoch, Offset
from goqueue.model.names import is_internal
from goqueue.model.record import Record
from goqueue.runtime import Clock, Disk

SNAPSHOTS_KEPT: Final = 3
BATCH_RECORDS_MAX: Final = 5_000
READ_BYTES: Final = 1024 * 1024


class PartitionJournal:
    """See `Journal`."""

    def __init__(self, partition: Partition, disk: Disk, clock: Clock, directory: str) -> None:
        self._partition = partition
        self._disk = disk
        self._clock = clock
        self._directory = directory  # of the snapshots

    @property
    def name(self) -> str:
        return self._partition.topic if is_internal(self._partition.topic) else str(self._partition)

    @property
    def end_offset(self) -> Offset:
        return self._partition.log.end_offset

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
        for some in _batched(values):
            position = len(data)
            data += batches.encode([Record(0, now, None, value) for value in some])
            headers.append(batches.header_at(data, position))
        return self._partition.append(data, headers, now).last_offset

    def is_committed(self, offset: Offset) -> bool:
        return offset < self._partition.log.high_watermark

    @property
    def has_uncommitted(self) -> bool:
        log = self._partition.log
        return log.high_watermark < log.end_offset

    def committed(self, offset: Offset) -> asyncio.Future[None]:
        return self._partition.committed(offset)

    async def settled(self) -> None:
        await self._partition.committed(Offset(self.end_offset - 1))

    def demand_sync(self) -> None:
        self._partition.demand_flush()

    # --- reading ----------------------------------------------------------------------------------

    async def read(self, offset: Offset, end: Offset | None = None) -> AsyncIterator[ReadValues]:
        end = self.end_offset if end is None else end
        while offset < end:
            chunk = await self._partition.read(offset, READ_BYTES, end)
            records = batches.decode_all(chunk.data)
            values = [
                each.value for each in records if each.offset >= offset and each.value is not None
            ]
            yield ReadValues(values, len(chunk.data))
            offset = chunk.next_offset

    # --- snapshots --------------------------------------------------------------------------------

    async def newest_snapshot(self) -> StoredSnapshot | None:
        found = await self._disk.in_background(self._newest)
        start, end = self._partition.log.start_offset, self.end_offset
        first = 0 if found is None else found.offset
        if not start <= first <= end:
            raise CorruptData(
                f"{self._directory}: the newest readable snapshot goes up to offset {first}, and"
                f" {self.name} has {start} to {end}: restore both from a copy"
            )
        return found

    def _newest(self) -> StoredSnapshot | None:
        """Blocking.  A damaged one is passed over: an older one and the log are still there."""
        for offset in snapshot_file.stored_offsets(self._disk, self._directory):
            path = snapshot_file.path_of(self._directory, offset)
            try:
                snapshot_file.check(self._disk, path)
            except CorruptData:
                continue
            return StoredSnapshot(offset, self._disk.size(path))
        return None

    async def read_snapshot(self, snapshot: StoredSnapshot) -> AsyncIterator[Sequence[bytes]]:
        path = snapshot_file.path_of(self._directory, snapshot.offset)
        blocks = snapshot_file.read_blocks(self._disk, path)
        while (block := await self._disk.in_background(lambda: next(blocks, None))) is not None:
            yield block

    async def store_snapshot(
        self, offset: Offset, slices: Iterable[Sequence[bytes]]
    ) -> StoredSnapshot:
        writer = await self._disk.in_background(lambda: self._begin(offset))
        try:
            for records in slices:
                await self._disk.in_background(functools.partial(writer.add, records))
            await self._committed_up_to(offset)
            size = await self._disk.in_background(writer.finish)
        except GoQueueError:
            await self._disk.in_background(writer.give_up)
            raise
        oldest = await self._disk.in_background(self._remove_old)
        if oldest > self._partition.log.start_offset:
            await self._partition.remove_before(oldest)
        return StoredSnapshot(offset, size)

    async def _committed_up_to(self, offset: Offset) -> None:
        """A snapshot is never ahead of its log: neither of the disk, nor of what all agree on."""
        if offset > self._partition.log.high_watermark:
            await self._partition.committed(Offset(offset - 1))

    def _begin(self, offset: Offset) -> SnapshotWriter:
        """Blocking."""
        self._disk.make_directory(self._directory)
        snapshot_file.remove_unfinished(self._disk, self._directory)
        path = snapshot_file.path_of(self._directory, offset)
        return SnapshotWriter(self._disk, path, offset)

    def _remove_old(self) -> Offset:
        """Blocking.  Gives the offset before which the log is not needed any more."""
        offsets = snapshot_file.stored_offsets(self._disk, self._directory)
        for offset in offsets[SNAPSHOTS_KEPT:]:
            self._disk.remove(snapshot_file.path_of(self._directory, offset))
        kept = offsets[:SNAPSHOTS_KEPT]
        return kept[-1] if len(kept) == SNAPSHOTS_KEPT else Offset(0)


def _batched(values: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    if len(values) <= BATCH_RECORDS_MAX:
        return (values,)
    return _pieces(values)


def _pieces(values: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(values), BATCH_RECORDS_MAX):
        yield values[start : start + BATCH_RECORDS_MAX]
