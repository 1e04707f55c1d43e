"""How far a log is known to be on the device, besides its checkpoint.

    0   4  "GQY", version 1
    4   8  next offset      every record below is durable
    12  8  base offset      of the segment that was active
    20  8  size             of its `.log` file up to there
    28  4  CRC-32C          of bytes 0 to 27

The file `synced` is written over in place after every successful sync, and is not synced itself: a
write to memory, which costs a disk thread a few microseconds.  So after the death of a process it
says exactly how far the log was synced; after power loss it may be older, never ahead.

Recovery needs it to tell two things apart.  A batch below the mark that is not sound is damage: it
was acknowledged, and so was what lies behind it.  A batch above the mark is the torn end of what
nobody was told of, and is cut.
"""

import contextlib
import struct
from typing import Final

import msgspec
from crc32c import crc32c

from goqueue.log.checkpoint import Checkpoint
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset
from goqueue.runtime import Disk

FILE: Final = "synced"

_MAGIC: Final = b"GQY\x01"
_MARK: Final = struct.Struct(">4sqqq")
_CRC: Final = struct.Struct(">I")


class SyncedMark(msgspec.Struct, frozen=True, gc=False):
    next_offset: Offset
    segment: Offset
    size: int


def durable_marks(saved: Checkpoint | None, mark: SyncedMark | None) -> list[SyncedMark]:
    """How far the log was synced as the checkpoint knows it, then as a later mark does."""
    found = []
    if saved is not None:
        found.append(SyncedMark(saved.tail.next_offset, saved.segment, saved.tail.size))
    if mark is not None and (not found or mark.next_offset > found[0].next_offset):
        found.append(mark)
    return found


class MarkFile:
    """The mark of one log.  Nothing depends on it being written: it is a lower bound."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._file = disk.open(f"{directory}/{FILE}")

    def load(self) -> SyncedMark | None:
        """The mark; None when there is none, or it is damaged.  Blocking."""
        data = self._file.read(0, _MARK.size + _CRC.size)
        if len(data) < _MARK.size + _CRC.size:
            return None
        magic, next_offset, segment, size = _MARK.unpack_from(data)
        if magic != _MAGIC or _CRC.unpack_from(data, _MARK.size)[0] != crc32c(data[: _MARK.size]):
            return None
        return SyncedMark(next_offset, segment, size)

    def store(self, mark: SyncedMark) -> None:
        """Blocking."""
        data = _MARK.pack(_MAGIC, mark.next_offset, mark.segment, mark.size)
        with contextlib.suppress(GoQueueError):
            self._file.overwrite(0, data + _CRC.pack(crc32c(data)))

    def clear(self) -> None:
        """Durably: the log is about to end before the mark.  Blocking."""
        self._file.truncate(0)
        self._file.sync()

    def close(self) -> None:
        self._file.close()
