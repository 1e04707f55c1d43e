"""A sparse index beside a segment: sorted pairs, one for each few KiB of log.

    0   2  "GQ"
    2   1  kind: "O" offset index, "T" time index
    3   1  version
    4   8  base offset of the segment
    12  4  CRC-32C of bytes 0 to 11
    16     entries, each with the CRC-32C of its own bytes as its last four

An offset index maps (offset - base) to the position of a batch that starts there: u32, u32.
A time index maps the largest timestamp so far to the (offset - base) it was seen at: i64, u32; so
every record with a larger timestamp comes after that offset, whatever the order of stamps.  The
time index of a sealed segment ends with `SEALED` for an offset, and the segment's largest
timestamp: without it nobody could tell that entries are missing.

Entries are looked up in the file by binary search and cost no memory.  A missing entry only makes
a look-up longer, so a failed append to an index never fails the append to the log.  A damaged one
raises `CorruptData`; the segment then makes itself another index from its batches.
"""

import bisect
import struct
from typing import Final

import msgspec
from crc32c import crc32c

from goqueue.model.batch import Buffer
from goqueue.model.errors import CorruptData
from goqueue.runtime import File

_HEAD: Final = struct.Struct(">2scBq")
_CRC: Final = struct.Struct(">I")
HEAD_BYTES: Final = 16
_VERSION: Final = 1
SEALED: Final = 2**32 - 1  # no offset is that far from its segment's base


class IndexKind(msgspec.Struct, frozen=True):
    code: bytes
    entry: struct.Struct


OFFSET_INDEX: Final = IndexKind(b"O", struct.Struct(">II"))
TIME_INDEX: Final = IndexKind(b"T", struct.Struct(">qI"))


class MemoryFile:
    """A `File` of an index that was rebuilt from its segment; never on disk."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._content = bytearray()

    @property
    def size(self) -> int:
        return len(self._content)

    def append(self, data: Buffer) -> int:
        self._content += data
        return len(self._content) - len(data)

    def read(self, position: int, length: int) -> bytes:
        return bytes(self._content[position : position + length])

    def read_cached(self, position: int, length: int) -> Buffer | None:
        return self.read(position, length)

    def overwrite(self, position: int, data: Buffer) -> None:
        self._content[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        del self._content[size:]

    def sync(self) -> None: ...

    def close(self) -> None: ...


class SparseIndex:
    """Keys never fall: `append` is given growing ones."""

    __slots__ = ("_base", "_file", "_kind")

    def __init__(self, file: File, kind: IndexKind, base_offset: int) -> None:
        self._file = file
        self._kind = kind
        self._base = base_offset

    @property
    def file(self) -> File:
        return self._file

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def count(self) -> int:
        return max(0, self._file.size - HEAD_BYTES) // self._entry_bytes

    def append(self, key: int, value: int) -> None:
        entry = self._kind.entry.pack(key, value)
        entry += _CRC.pack(crc32c(entry))
        self._file.append(entry if self._file.size else self._head() + entry)

    def entry(self, index: int) -> tuple[int, int]:
        """Raises `CorruptData`."""
        size = self._entry_bytes
        data = self._file.read(HEAD_BYTES + index * size, size)
        if len(data) < size:
            raise CorruptData(f"{self._file.path}: entry {index} is missing")
        if _CRC.pack(crc32c(data[: -_CRC.size])) != data[-_CRC.size :]:
            raise CorruptData(f"{self._file.path}: entry {index} is damaged")
        key, value = self._kind.entry.unpack_from(data)
        return key, value

    def last(self) -> tuple[int, int] | None:
        count = self.count
        return self.entry(count - 1) if count else None

    def floor(self, key: int) -> tuple[int, int] | None:
        """The last entry whose key is not above `key`."""
        index = self._count_up_to(key)
        return self.entry(index - 1) if index else None

    def above(self, key: int) -> tuple[int, int] | None:
        """The first entry whose key is above `key`."""
        index = self._count_up_to(key)
        return self.entry(index) if index < self.count else None

    def cut(self, count: int) -> None:
        """Keep the first `count` entries, and no part of another."""
        size = HEAD_BYTES + count * self._entry_bytes if count else 0
        if self._file.size > size:
            self._file.truncate(size)

    def count_below(self, place: int, *, value: bool = False) -> int:
        """How many entries have a key below `place`, or a value: both grow.  0 when damaged."""
        try:
            return bisect.bisect_left(
                range(self.count), place, key=lambda at: self.entry(at)[value]
            )
        except CorruptData:
            return 0

    def is_sound(self, count: int) -> bool:
        """Whether the head is right and at least `count` entries are there."""
        if self._file.size == 0:
            return count == 0
        return self._file.read(0, HEAD_BYTES) == self._head() and self.count >= count

    @property
    def _entry_bytes(self) -> int:
        return self._kind.entry.size + _CRC.size

    def _count_up_to(self, key: int) -> int:
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[0] <= key:
                low = middle + 1
            else:
                high = middle
        return low

    def _head(self) -> bytes:
        head = _HEAD.pack(b"GQ", self._kind.code, _VERSION, self._base)
        return head + _CRC.pack(crc32c(head))
