"""Snapshots as files: blocks of records, written and read one at a time.

     0  2  "GQ"
     2  1  "S"
     3  1  version     2
     4  4  CRC-32C     of the offset
     8  8  offset      the first one of the log that is not in it
    16     blocks      4 length, 4 CRC-32C of the content, content: a MessagePack array of records
           last block  its content is the number of records instead

A file is written beside its place and renamed when it is whole: who finds one finds all of it.
Version 1 was one block, small enough to be read at once (`goqueue.log.framed`).

Blocking.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from crc32c import crc32c

from goqueue.log import framed
from goqueue.model.errors import CorruptData
from goqueue.model.ids import Offset
from goqueue.runtime import Disk

KIND: Final = b"S"
VERSION: Final = 2
WHOLE_VERSION: Final = 1
SUFFIX: Final = ".snapshot"
UNFINISHED: Final = ".new"

_HEAD: Final = struct.Struct(">2scBIQ")
_BLOCK: Final = struct.Struct(">II")
_content: msgspec.msgpack.Decoder[list[bytes] | int] = msgspec.msgpack.Decoder(list[bytes] | int)


class WholeSnapshot(msgspec.Struct, frozen=True):
    """The content of a file of version 1."""

    offset: Offset
    records: list[bytes]


def path_of(directory: str, offset: Offset) -> str:
    return f"{directory}/{offset:020d}{SUFFIX}"


def stored_offsets(disk: Disk, directory: str) -> list[Offset]:
    """Of the snapshots in a directory, the newest first."""
    names = disk.list_directory(directory)
    found = [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
    return sorted((Offset(int(name)) for name in found if name.isdigit()), reverse=True)


def remove_unfinished(disk: Disk, directory: str) -> None:
    """What a crash left."""
    for name in disk.list_directory(directory):
        if name.endswith(SUFFIX + UNFINISHED):
            disk.remove(f"{directory}/{name}")


class SnapshotWriter:
    """Nobody sees the file before `finish`."""

    def __init__(self, disk: Disk, path: str, offset: Offset) -> None:
        self._disk = disk
        self._path = path
        self._file = disk.open(path + UNFINISHED)
        self._file.truncate(0)
        offset_bytes = offset.to_bytes(8, "big")
        self._file.append(_HEAD.pack(b"GQ", KIND, VERSION, crc32c(offset_bytes), offset))
        self._count = 0

    def add(self, records: Sequence[bytes]) -> None:
        self._count += len(records)
        self._append(records)

    def finish(self) -> int:
        """Gives the file's size."""
        self._append(self._count)
        self._file.sync()
        size = self._file.size
        self._file.close()
        self._disk.rename(self._path + UNFINISHED, self._path)
        self._disk.sync_directory(self._path.rpartition("/")[0])
        return size

    def give_up(self) -> None:
        """Its bytes are wanted on a full disk."""
        self._file.close()
        self._disk.remove(self._path + UNFINISHED)

    def _append(self, content: Sequence[bytes] | int) -> None:
        data = msgspec.msgpack.encode(content)
        self._file.append(_BLOCK.pack(len(data), crc32c(data)) + data)


def read_blocks(disk: Disk, path: str) -> Iterator[list[bytes]]:
    """The records, some at a time; raises `CorruptData`, also when the end is missing."""
    file = disk.open(path)
    try:
        head = file.read(0, _HEAD.size)
        if len(head) == _HEAD.size and head[3] == WHOLE_VERSION:
            yield _whole(disk, path)
            return
        _check_head(head, path)
        position, count = _HEAD.size, 0
        while True:
            lead = file.read(position, _BLOCK.size)
            if len(lead) < _BLOCK.size:
                raise CorruptData(f"{path}: its end is missing")
            length, checksum = _BLOCK.unpack(lead)
            if position + _BLOCK.size + length > file.size:
                raise CorruptData(f"{path}: a block of {length} bytes, and the file is shorter")
            data = file.read(position + _BLOCK.size, length)
            if crc32c(data) != checksum:
                raise CorruptData(f"{path}: wrong checksum at byte {position}")
            content = _decode(data, path)
            if isinstance(content, int):
                break
            count += len(content)
            position += _BLOCK.size + length
            yield content
        if content != count:
            raise CorruptData(f"{path}: {count} records, {content} were written")
    finally:
        file.close()


def check(disk: Disk, path: str) -> None:
    """Raise `CorruptData` unless all of it is there."""
    for _ in read_blocks(disk, path):
        pass


def _check_head(head: bytes, path: str) -> None:
    if len(head) < _HEAD.size:
        raise CorruptData(f"{path}: {len(head)} bytes, too short")
    magic, kind, version, checksum, offset = _HEAD.unpack(head)
    if magic != b"GQ" or kind != KIND:
        raise CorruptData(f"{path}: not a GoQueue file of kind {KIND.decode()}")
    if version != VERSION:
        raise CorruptData(f"{path}: format version {version}, this release reads 1 and {VERSION}")
    if crc32c(head[8:]) != checksum:
        raise CorruptData(f"{path}: wrong checksum of offset {offset}")


def _decode(data: bytes, path: str) -> list[bytes] | int:
    try:
        return _content.decode(data)
    except msgspec.MsgspecError as error:
        raise CorruptData(f"{path}: {error}") from error


def _whole(disk: Disk, path: str) -> list[bytes]:
    found = framed.load(disk, path, KIND, WHOLE_VERSION, WholeSnapshot)
    return [] if found is None else found.records
