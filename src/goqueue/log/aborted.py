"""The abort index: which ranges of a log belong to transactions that were aborted.

    0   2  "GQ"
    2   1  "A"
    3   1  version
    4   8  how many entries were dropped from the front, since the log begins behind them
    12  4  CRC-32C of bytes 0 to 11
    16     entries, 36 bytes each:
       32  producer id, first offset, marker offset, stable offset then; i64 each
       4   CRC-32C of those 32 bytes

One file a log, `aborted`, with entries in the order of their markers, appended in the same step
as the marker.  `stable offset then` is the last stable offset once the marker was written: every
transaction aborted later began at or after it, so a reader's search can stop there.

Entries are numbered from the log's first one ever, so that a checkpoint's count holds whether or
not the front of the file was dropped since.

Every entry is verified when the log is opened; a file with a damaged one, or in the format of
version 1, which had no checksums, is rebuilt from the log (`recovery.py`).  An entry that turns
out to be damaged later is refused: a wrong one would show aborted records, or hide committed ones.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from crc32c import crc32c

from goqueue.model.batch import BatchHeader
from goqueue.model.errors import CorruptData
from goqueue.model.ids import Offset
from goqueue.runtime import Disk, File

FILE: Final = "aborted"
DEAD_ENTRIES_MAX: Final = 1024  # below the log's start before the file is rewritten
BLOCK_ENTRIES: Final = 128  # read at once
VERIFIED_ENTRIES: Final = 16_384  # read at once when the log is opened

_COVERED: Final = struct.Struct(">qqqq")  # by an entry's checksum
_MARK: Final = struct.Struct(">4sq")
_CRC: Final = struct.Struct(">I")
_ENTRY_BYTES: Final = _COVERED.size + _CRC.size
_MAGIC: Final = b"GQA\x02"
HEAD_BYTES: Final = _MARK.size + _CRC.size


class AbortedRange(msgspec.Struct, frozen=True, gc=False):
    producer_id: int
    first_offset: Offset
    marker_offset: Offset
    stable_offset: Offset


def is_aborted(header: BatchHeader, aborted: Iterable[AbortedRange]) -> bool:
    """Whether the batch belongs to one of these transactions."""
    return header.is_transactional and any(
        each.producer_id == header.producer_id
        and each.first_offset <= header.base_offset < each.marker_offset
        for each in aborted
    )


class AbortIndex:
    """Changed by the log's owner alone; others may read while nobody calls `forget_before`."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{FILE}"
        self._file: File = disk.open(self._path)
        self._dropped: int | None = self._read_dropped()  # None when the head is damaged
        self._held = self._entries_in_file()  # every read-committed fetch asks: no system call

    @property
    def file(self) -> File:
        return self._file

    @property
    def is_new(self) -> bool:
        """Whether the next entry makes the file."""
        return self._file.size == 0

    @property
    def is_empty(self) -> bool:
        return self._held == 0

    @property
    def count(self) -> int:
        """Entries there ever were."""
        return (self._dropped or 0) + self._held

    def _entries_in_file(self) -> int:
        return max(0, self._file.size - HEAD_BYTES) // _ENTRY_BYTES

    # --- changing ---------------------------------------------------------------------------------

    def append(self, aborted: AbortedRange) -> None:
        covered = _COVERED.pack(
            aborted.producer_id, aborted.first_offset, aborted.marker_offset, aborted.stable_offset
        )
        entry = covered + _CRC.pack(crc32c(covered))
        self._file.append(entry if self._file.size else _head(0) + entry)
        self._held += 1

    def restore(self, count: int) -> bool:
        """Keep the first `count` entries and no part of another.  Blocking.

        False if they are not there, or one of them is damaged.
        """
        if count == 0:  # whatever is there, even half a head, came later
            self.clear()
            return True
        dropped = self._dropped
        if dropped is None or not dropped <= count <= self.count:
            self.clear()
            return False
        size = HEAD_BYTES + (count - dropped) * _ENTRY_BYTES
        if self._file.size > size:
            self._file.truncate(size)
        self._held = self._entries_in_file()
        if not self._is_sound():
            self.clear()
            return False
        return True

    def cut(self, count: int) -> None:
        """Keep the first `count` entries."""
        if count == 0:
            self.clear()
        elif count < self.count:
            self._file.truncate(HEAD_BYTES + (count - (self._dropped or 0)) * _ENTRY_BYTES)
            self._held = self._entries_in_file()

    def _is_sound(self) -> bool:
        try:
            for index in range(0, self._held, VERIFIED_ENTRIES):
                self._entries(index, VERIFIED_ENTRIES)
        except CorruptData:
            return False
        return True

    def clear(self) -> None:
        if self._file.size:
            self._file.truncate(0)
        self._dropped = self._held = 0

    def forget_before(self, start: Offset) -> None:
        """Blocking.  Drop what lies wholly before the log's start, once it is worth it."""
        try:
            dead = self._first_ending_at(start)
        except CorruptData:
            return  # it is rebuilt when the log is next opened
        if dead < DEAD_ENTRIES_MAX:
            return
        kept = self._file.read(HEAD_BYTES + dead * _ENTRY_BYTES, self._held * _ENTRY_BYTES)
        dropped = (self._dropped or 0) + dead
        self._file.close()
        self._disk.replace_file(self._path, _head(dropped) + kept)
        self._file = self._disk.open(self._path)
        self._dropped = dropped
        self._held = self._entries_in_file()

    # --- asking -----------------------------------------------------------------------------------

    def between(self, first: Offset, end: Offset) -> list[AbortedRange]:
        """Every aborted transaction that has a record in [first, end).  Raises `CorruptData`."""
        found: list[AbortedRange] = []
        if self._dropped is None:
            raise CorruptData(f"{self._path}: damaged, or in an older format")
        if self.is_empty:
            return found
        for aborted in self._entries_from(self._first_ending_at(first)):
            if aborted.first_offset < end:
                found.append(aborted)
            if aborted.stable_offset >= end:
                break
        return found

    def count_before(self, offset: Offset) -> int:
        """How many entries there were before the record at `offset`.  Raises `CorruptData`."""
        return (self._dropped or 0) + self._first_ending_at(offset)

    def _entries_from(self, index: int) -> Iterator[AbortedRange]:
        while index < self._held:
            block = self._entries(index, BLOCK_ENTRIES)
            yield from block
            index += len(block)

    def _first_ending_at(self, offset: Offset) -> int:
        low, high = 0, self._held
        while low < high:
            middle = (low + high) // 2
            if self._entries(middle, 1)[0].marker_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _entries(self, index: int, count: int) -> list[AbortedRange]:
        size = min(count, self._held - index) * _ENTRY_BYTES
        data = self._file.read(HEAD_BYTES + index * _ENTRY_BYTES, size)
        found = []
        for at in range(0, size, _ENTRY_BYTES):
            covered_end = at + _COVERED.size
            if (
                len(data) < size
                or crc32c(data[at:covered_end]) != _CRC.unpack_from(data, covered_end)[0]
            ):
                raise CorruptData(
                    f"{self._path}: entry {index + at // _ENTRY_BYTES} is damaged; restart the"
                    " server, which rebuilds the file from the log"
                )
            producer_id, first, marker, stable = _COVERED.unpack_from(data, at)
            found.append(AbortedRange(producer_id, Offset(first), Offset(marker), Offset(stable)))
        return found

    def _read_dropped(self) -> int | None:
        if self._file.size == 0:
            return 0
        head = self._file.read(0, HEAD_BYTES)
        if len(head) < HEAD_BYTES or _CRC.unpack_from(head, _MARK.size)[0] != crc32c(
            head[: _MARK.size]
        ):
            return None
        magic, dropped = _MARK.unpack_from(head)
        return int(dropped) if magic == _MAGIC else None


def _head(dropped: int) -> bytes:
    mark = _MARK.pack(_MAGIC, dropped)
    return mark + _CRC.pack(crc32c(mark))
