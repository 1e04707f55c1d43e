"""The snapshots of a log as files of this node.

So the metadata keeps them, whose log is not copied by others.  Logs of other machines have their
snapshots inside (`log_snapshot.py`); formerly they had files, too, which are read until the first
snapshot is in the log.
"""

import functools
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from goqueue.broker.journal import StoredSnapshot
from goqueue.broker.storage import snapshot_file
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.snapshot_file import SnapshotWriter
from goqueue.model.errors import CorruptData, GoQueueError
from goqueue.model.ids import Offset
from goqueue.runtime import Disk

SNAPSHOTS_KEPT: Final = 3


class SnapshotDirectory:
    def __init__(self, partition: Partition, disk: Disk, path: str) -> None:
        self._partition = partition
        self._disk = disk
        self.path = path
        self.has_files = False  # as of the last look

    async def newest(self) -> StoredSnapshot | None:
        """A damaged one is passed over: an older one and the log are still there."""
        return await self._disk.in_background(self._newest)

    def _newest(self) -> StoredSnapshot | None:
        """Blocking."""
        offsets = snapshot_file.stored_offsets(self._disk, self.path)
        self.has_files = bool(offsets)
        for offset in offsets:
            path = snapshot_file.path_of(self.path, offset)
            try:
                snapshot_file.check(self._disk, path)
            except CorruptData:
                continue
            return StoredSnapshot(offset, self._disk.size(path), is_file=True)
        return None

    def check_continued(self, found: StoredSnapshot | None) -> None:
        """Raise `CorruptData` unless the log goes on from this snapshot, or has everything."""
        log = self._partition.log
        first = 0 if found is None else found.offset
        if not log.start_offset <= first <= log.end_offset:
            raise CorruptData(
                f"{self._partition}: the newest readable snapshot goes up to offset {first}, and"
                f" the log has {log.start_offset} to {log.end_offset}: restore both from a copy"
            )

    async def read(self, snapshot: StoredSnapshot) -> AsyncIterator[Sequence[bytes]]:
        """Its records, some at a time."""
        path = snapshot_file.path_of(self.path, snapshot.offset)
        blocks = snapshot_file.read_blocks(self._disk, path)
        while (block := await self._disk.in_background(lambda: next(blocks, None))) is not None:
            yield block

    async def store(self, offset: Offset, slices: Iterable[Sequence[bytes]]) -> StoredSnapshot:
        """Write one, and let the log forget what the oldest kept one stands for."""
        writer = await self._disk.in_background(lambda: self._begin(offset))
        try:
            for records in slices:
                await self._disk.in_background(functools.partial(writer.add, records))
            await self._wait_committed(offset)
            size = await self._disk.in_background(writer.finish)
        except GoQueueError:
            await self._disk.in_background(writer.give_up)
            raise
        oldest = await self._disk.in_background(self._remove_old)
        if oldest > self._partition.log.start_offset:
            await self._partition.remove_before(oldest)
        return StoredSnapshot(offset, size, is_file=True)

    async def _wait_committed(self, offset: Offset) -> None:
        """A snapshot is never ahead of its log: neither of the disk, nor of what all agree on."""
        if offset > self._partition.log.high_watermark:
            await self._partition.wait_committed(Offset(offset - 1))

    def _begin(self, offset: Offset) -> SnapshotWriter:
        """Blocking."""
        self._disk.make_directory(self.path)
        snapshot_file.remove_unfinished(self._disk, self.path)
        path = snapshot_file.path_of(self.path, offset)
        return SnapshotWriter(self._disk, path, offset)

    def _remove_old(self) -> Offset:
        """Blocking.  Gives the offset before which the log is not needed any more."""
        offsets = snapshot_file.stored_offsets(self._disk, self.path)
        for offset in offsets[SNAPSHOTS_KEPT:]:
            self._disk.remove(snapshot_file.path_of(self.path, offset))
        kept = offsets[:SNAPSHOTS_KEPT]
        return kept[-1] if len(kept) == SNAPSHOTS_KEPT else Offset(0)

    async def remove(self) -> None:
        """The log has a newer one inside."""
        if self.has_files:
            await self._disk.in_background(lambda: self._disk.remove_tree(self.path))
            self.has_files = False
