"""The abort index: which ranges of a log belong to transactions that were aborted.

    0   2  "GQ"
    2   1  "A"
    3   1  version
    4   4  CRC-32C of bytes 0 to 3
    8      entries: producer id, first offset, marker offset, stable offset then; i64 each

One file a log, `aborted`, with entries in the order of their markers, appended in the same step
as the marker.  `stable offset then` is the last stable offset once the marker was written: every
transaction aborted later began at or after it, so a reader's search can stop there.
"""

import struct
from typing import Final

import msgspec
from crc32c import crc32c

from goqueue.model.ids import Offset
from goqueue.runtime import Disk, File

FILE: Final = "aborted"
_ENTRY: Final = struct.Struct(">qqqq")
_MARK: Final = b"GQA\x01"
_HEAD: Final = _MARK + struct.pack(">I", crc32c(_MARK))
DEAD_ENTRIES_MAX: Final = 1024  # below the log's start before the file is written anew


class AbortedRange(msgspec.Struct, frozen=True, gc=False):
    producer_id: int
    first_offset: Offset
    marker_offset: Offset
    stable_offset: Offset


class AbortIndex:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{FILE}"
        self._file: File = disk.open(self._path)

    @property
    def file(self) -> File:
        return self._file

    @property
    def count(self) -> int:
        return max(0, self._file.size - len(_HEAD)) // _ENTRY.size

    def append(self, aborted: AbortedRange) -> None:
        entry = _ENTRY.pack(
            aborted.producer_id, aborted.first_offset, aborted.marker_offset, aborted.stable_offset
        )
        self._file.append(entry if self._file.size else _HEAD + entry)

    def cut(self, count: int) -> None:
        """Keep the first `count` entries, and no part of another."""
        size = len(_HEAD) + count * _ENTRY.size if count else 0
        if self._file.size > size:
            self._file.truncate(size)

    def is_sound(self, count: int) -> bool:
        if self._file.size == 0:
            return count == 0
        return self._file.read(0, len(_HEAD)) == _HEAD and self.count >= count

    def between(self, first: Offset, end: Offset) -> list[AbortedRange]:
        """Every aborted transaction that has a record in [first, end)."""
        found = []
        for index in range(self._first_ending_at(first), self.count):
            aborted = self._entry(index)
            if aborted.first_offset < end:
                found.append(aborted)
            if aborted.stable_offset >= end:
                break
        return found

    def forget_before(self, start: Offset) -> None:
        """Blocking.  Drop what lies wholly before the log's start, once it is worth it."""
        dead = self._first_ending_at(start)
        if dead < DEAD_ENTRIES_MAX:
            return
        kept = self._file.read(len(_HEAD) + dead * _ENTRY.size, self.count * _ENTRY.size)
        self._file.close()
        self._disk.replace_file(self._path, _HEAD + kept)
        self._file = self._disk.open(self._path)

    def _first_ending_at(self, offset: Offset) -> int:
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle).marker_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _entry(self, index: int) -> AbortedRange:
        data = self._file.read(len(_HEAD) + index * _ENTRY.size, _ENTRY.size)
        producer_id, first, marker, stable = _ENTRY.unpack(data)
        return AbortedRange(producer_id, Offset(first), Offset(marker), Offset(stable))
