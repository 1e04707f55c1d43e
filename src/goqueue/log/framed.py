"""Small files of our own: magic, kind, version, checksum, content.

    0  2  "GQ"
    2  1  kind        one character for each kind of file
    3  1  version
    4  4  CRC-32C     of the content
    8     content     MessagePack

They are always replaced whole (`Disk.replace_file`), so a reader finds the old or the new one.
"""

import struct
from typing import Final, TypeVar

import msgspec
from crc32c import crc32c

from goqueue.model.errors import CorruptData
from goqueue.runtime import Disk

T = TypeVar("T")

_HEAD: Final = struct.Struct(">2scBI")
_MAGIC: Final = b"GQ"


def frame(kind: bytes, version: int, content: object) -> bytes:
    body = msgspec.msgpack.encode(content)
    return _HEAD.pack(_MAGIC, kind, version, crc32c(body)) + body


def unframe(data: bytes, kind: bytes, version: int, content_type: type[T], path: str) -> T:
    """The content; raises `CorruptData` that names the file."""
    if len(data) < _HEAD.size:
        raise CorruptData(f"{path}: {len(data)} bytes, too short")
    magic, found_kind, found_version, checksum = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if magic != _MAGIC or found_kind != kind:
        raise CorruptData(f"{path}: not a GoQueue file of kind {kind.decode()}")
    if found_version != version:
        raise CorruptData(f"{path}: format version {found_version}, this release reads {version}")
    if crc32c(body) != checksum:
        raise CorruptData(f"{path}: wrong checksum")
    try:
        return msgspec.msgpack.decode(body, type=content_type)
    except msgspec.MsgspecError as error:
        raise CorruptData(f"{path}: {error}") from error


def load(disk: Disk, path: str, kind: bytes, version: int, content_type: type[T]) -> T | None:
    """The content of the file at `path`; None when there is none."""
    data = disk.read_file(path)
    return None if data is None else unframe(data, kind, version, content_type, path)


def store(disk: Disk, path: str, kind: bytes, version: int, content: object) -> None:
    disk.replace_file(path, frame(kind, version, content))
