"""One stretch of a log: a `.log` file of batches and its two sparse indexes.

The last segment of a log is active and grows; the others are sealed and only read, replaced by
compaction, or removed.  A sealed segment costs no handle until it is read.
"""

import contextlib
from typing import Final

import msgspec

from goqueue.log.sparse_index import OFFSET_INDEX, TIME_INDEX, SparseIndex
from goqueue.model import batch as batches
from goqueue.model.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.model.errors import (
    CorruptBatch,
    CorruptData,
    DiskFull,
    StorageFailed,
    UnsupportedBatch,
)
from goqueue.model.ids import NO_TIMESTAMP, Offset, Timestamp
from goqueue.runtime import Disk

LOG: Final = ".log"
OFFSETS: Final = ".index"
TIMES: Final = ".timeindex"
SUFFIXES: Final = (LOG, OFFSETS, TIMES)

WALK_BYTES: Final = 8192  # one read of a header walk; an index interval fits
RELATIVE_OFFSET_MAX: Final = 2**31 - 1


def stem(directory: str, base_offset: int) -> str:
    return f"{directory}/{base_offset:020d}"


class SegmentTail(msgspec.Struct, frozen=True):
    """What is known of a segment's content beyond its files' sizes."""

    next_offset: Offset
    size: int
    offset_entries: int
    time_entries: int
    max_timestamp: Timestamp
    max_timestamp_offset: Offset
    first_timestamp: Timestamp


class Segment:
    __slots__ = (
        "_unindexed_bytes",
        "base_offset",
        "first_timestamp",
        "gone",
        "log",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "offsets",
        "times",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: Offset, suffix: str = "") -> None:
        path = stem(directory, base_offset)
        self.base_offset = base_offset
        self.gone = False  # removed or replaced: what a reader in another thread got may be stale
        self.log = disk.open(path + LOG + suffix)
        self.offsets = SparseIndex(disk.open(path + OFFSETS + suffix), OFFSET_INDEX, base_offset)
        self.times = SparseIndex(disk.open(path + TIMES + suffix), TIME_INDEX, base_offset)
        self._forget()

    def _forget(self) -> None:
        self.next_offset = self.base_offset
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self.first_timestamp = NO_TIMESTAMP  # of the first batch; the segment's age counts from it
        self._unindexed_bytes = 0

    @property
    def size(self) -> int:
        return self.log.size

    # --- writing ---------------------------------------------------------------------------------

    def append(self, data: Buffer) -> int:
        """Append whole batches, stamped already; all or nothing.  Gives their position."""
        return self.log.append(data)

    def note(
        self,
        *,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        size: int,
        position: int,
        interval_bytes: int,
    ) -> None:
        """Take a batch that lies at `position` into the segment's state and its indexes."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = Timestamp(max_timestamp)
            self.max_timestamp_offset = Offset(last_offset)
        if self.first_timestamp < 0:
            self.first_timestamp = Timestamp(max_timestamp)
        self.next_offset = Offset(last_offset + 1)
        self._unindexed_bytes += size
        if self._unindexed_bytes >= interval_bytes or position == 0:
            self._unindexed_bytes = 0
            # A sparse index may miss an entry; the log itself has the bytes already.
            with contextlib.suppress(DiskFull, StorageFailed):
                self.offsets.append(base_offset - self.base_offset, position)
                self._note_time()

    def _note_time(self) -> None:
        last = self.times.last()
        if self.max_timestamp >= 0 and (last is None or self.max_timestamp > last[0]):
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def seal(self) -> None:
        """Write down what a reader of a sealed segment needs.  Raises `DiskFull`."""
        self._note_time()

    def tail(self) -> SegmentTail:
        return SegmentTail(
            self.next_offset,
            self.size,
            self.offsets.count,
            self.times.count,
            self.max_timestamp,
            self.max_timestamp_offset,
            self.first_timestamp,
        )

    def restore(self, tail: SegmentTail) -> None:
        self.next_offset = tail.next_offset
        self.max_timestamp = tail.max_timestamp
        self.max_timestamp_offset = tail.max_timestamp_offset
        self.first_timestamp = tail.first_timestamp
        self._unindexed_bytes = 0

    def newest(self) -> Timestamp:
        """The largest timestamp in the segment; a sealed one asks its time index, once."""
        if self.max_timestamp < 0:
            last = self.times.last()
            if last is not None:
                self.max_timestamp = Timestamp(last[0])
                self.max_timestamp_offset = Offset(self.base_offset + last[1])
        return self.max_timestamp

    def clear_indexes(self) -> None:
        self.offsets.cut(0)
        self.times.cut(0)
        self._forget()

    def sync(self) -> None:
        self.log.sync()

    def sync_indexes(self) -> None:
        self.offsets.file.sync()
        self.times.file.sync()

    def close(self) -> None:
        for file in (self.log, self.offsets.file, self.times.file):
            file.close()

    def remove(self, disk: Disk) -> None:
        self.gone = True
        self.close()
        for file in (self.log, self.offsets.file, self.times.file):
            disk.remove(file.path)

    # --- finding ---------------------------------------------------------------------------------

    def position_of(self, offset: Offset) -> int:
        """Position of the batch that holds `offset`, or of the first one after it.

        Gives the file's size when there is none.
        """
        entry = self.offsets.floor(offset - self.base_offset)
        position = entry[1] if entry else 0
        while position < self.size:
            header = self._header(position)
            if header is None:
                position = self.position_after_damage(position)
            elif header.last_offset >= offset:
                return position
            else:
                position = header.end
        return self.size

    def position_after_time(self, timestamp: Timestamp) -> int:
        """A position before which every record is older than `timestamp`."""
        entry = self.times.floor(timestamp - 1)
        return self.position_of(Offset(self.base_offset + entry[1])) if entry else 0

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch at `position`; raises `CorruptData`.  Reads 61 bytes."""
        header = self._header(position)
        if header is None:
            raise CorruptData(f"{self.log.path}: no batch at position {position}")
        return header

    def _header(self, position: int) -> BatchHeader | None:
        head = self.log.read(position, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            return None
        size = batches.batch_size_at(head, 0)
        if size < HEADER_BYTES or position + size > self.size:
            return None
        try:
            found = batches.header_in_part(head, position)
        except (CorruptBatch, UnsupportedBatch):
            return None
        inside = self.base_offset <= found.base_offset and found.next_offset <= self.next_offset
        return found if inside else None

    def position_after_damage(self, position: int) -> int:
        """Where the index says the next sound batch starts."""
        count = self.offsets.count
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if self.offsets.entry(middle)[1] <= position:
                low = middle + 1
            else:
                high = middle
        return self.offsets.entry(low)[1] if low < count else self.size
