"""Which replica a partition's directory holds, and the high watermark it knows.

    0   4  "GQR", version 1
    4   16 topic id         zeros when the log is the broker's own
    20  4  partition
    24  16 directory id     of the data directory; zeros when it has none
    40  4  CRC-32C          of bytes 0 to 39
    44  8  high watermark
    52  4  CRC-32C          of bytes 44 to 51

A log with one replica needs no such file: whatever it finds in itself is committed.  One of
several replicas may have records at its end that the others lack, so it must know how far its
records are committed, and may not make readers or a leader believe more.

Who it is gets written once, durably.  The watermark is written over in place when it has risen, at
most once a second, and is not synced: after the death of a process it is a second old, after power
loss older, never ahead.  The checkpoint has it, too.  A watermark that must *fall*, because
records below it are lost or were cut away, replaces the file durably first.
"""

import contextlib
import struct
from typing import Final
from uuid import UUID

import msgspec
from crc32c import crc32c

from goqueue.model.errors import CorruptData, GoQueueError
from goqueue.model.ids import Offset, TopicId
from goqueue.runtime import Disk

FILE: Final = "replica"

_MAGIC: Final = b"GQR\x01"
_IDENTITY: Final = struct.Struct(">4s16si16s")
_WATERMARK: Final = struct.Struct(">q")
_CRC: Final = struct.Struct(">I")
_WATERMARK_AT: Final = _IDENTITY.size + _CRC.size
_NO_ID: Final = UUID(int=0)


class Replica(msgspec.Struct, frozen=True):
    """Who keeps a log that has more than one replica."""

    topic_id: TopicId | None  # None for the broker's own
    partition: int
    directory_id: UUID | None = None  # of the data directory, once it has one

    def __str__(self) -> str:
        where = f" in data directory {self.directory_id}" if self.directory_id else ""
        return f"topic {self.topic_id}, partition {self.partition}{where}"


class ReplicaFile:
    def __init__(self, disk: Disk, directory: str) -> None:
        self.path = f"{directory}/{FILE}"
        self._disk = disk
        self._file = disk.open(self.path)
        self._replica: Replica | None = None
        self._stored: Offset | None = None  # in the file, as far as this process knows

    def load(self) -> Replica | None:
        """None when there is no file.  Raises `CorruptData`.  Blocking."""
        data = self._file.read(0, _WATERMARK_AT)
        if not data:
            return None
        if len(data) < _WATERMARK_AT or not _is_sound(data, _IDENTITY.size):
            raise CorruptData(f"{self.path}: wrong checksum")
        magic, topic_id, partition, directory_id = _IDENTITY.unpack_from(data)
        if magic != _MAGIC:
            raise CorruptData(f"{self.path}: not a GoQueue file of kind R, version 1")
        self._replica = Replica(_id_of(topic_id), partition, _id_of(directory_id))
        return self._replica

    def load_watermark(self) -> Offset | None:
        """None when there is none, or it is damaged.  Blocking."""
        data = self._file.read(_WATERMARK_AT, _WATERMARK.size + _CRC.size)
        if len(data) < _WATERMARK.size + _CRC.size or not _is_sound(data, _WATERMARK.size):
            return None
        self._stored = Offset(_WATERMARK.unpack_from(data)[0])
        return self._stored

    def store(self, replica: Replica, watermark: Offset) -> None:
        """Durably, in one step.  Blocking."""
        identity = _IDENTITY.pack(
            _MAGIC,
            (replica.topic_id or _NO_ID).bytes,
            replica.partition,
            (replica.directory_id or _NO_ID).bytes,
        )
        self._file.close()
        self._disk.replace_file(self.path, _with_checksum(identity) + _checked_watermark(watermark))
        self._file = self._disk.open(self.path)
        self._replica, self._stored = replica, watermark

    def lower_watermark(self, watermark: Offset) -> None:
        """Durably: what is above it is not committed any more.  Blocking."""
        assert self._replica is not None, "it is loaded or stored when its log is opened"
        if self._stored is None or self._stored > watermark:
            self.store(self._replica, watermark)

    def raise_watermark(self, watermark: Offset) -> None:
        """Write it down if it has risen: a few bytes to memory, which may get lost."""
        if self._stored is not None and watermark <= self._stored:
            return
        self._stored = watermark
        with contextlib.suppress(GoQueueError):
            self._file.overwrite(_WATERMARK_AT, _checked_watermark(watermark))

    def close(self) -> None:
        self._file.close()


def _with_checksum(data: bytes) -> bytes:
    return data + _CRC.pack(crc32c(data))


def _checked_watermark(watermark: Offset) -> bytes:
    return _with_checksum(_WATERMARK.pack(watermark))


def _is_sound(data: bytes, covered: int) -> bool:
    return bool(_CRC.unpack_from(data, covered)[0] == crc32c(data[:covered]))


def _id_of(data: bytes) -> TopicId | None:
    found = UUID(bytes=data)
    return None if found == _NO_ID else TopicId(found)
