"""The bytes that classic consumers put inside JoinGroup and SyncGroup.

The classic protocol carries them unread.  They are read here when a group has members of both
protocols (the coordinator then divides the partitions for all), and to see whether a restarted
static member still wants the same topics.

    subscription := version:i16 topics:[string] user_data:bytes?
                    v1+ owned:[topic:string partitions:[i32]]  v2+ generation:i32  v3+ rack:string?
    assignment   := version:i16 assigned:[topic:string partitions:[i32]] user_data:bytes?
"""

import struct
from collections.abc import Mapping, Sequence

import msgspec

from goqueue.groups.errors import InconsistentGroupProtocol
from goqueue.model.ids import TopicName

PROTOCOL_TYPE = "consumer"  # the protocol type whose bytes these are
VERSION_MAX = 3

Partitions = dict[TopicName, tuple[int, ...]]


class Subscription(msgspec.Struct, frozen=True):
    version: int
    topics: tuple[TopicName, ...]
    owned: Partitions
    generation: int = -1
    rack_id: str | None = None


def read_subscription(data: bytes) -> Subscription:
    reader = _Reader(data)
    version = min(reader.int16(), VERSION_MAX)
    topics = tuple(TopicName(reader.string()) for _ in range(reader.count()))
    reader.skip_bytes()
    return Subscription(
        version=version,
        topics=topics,
        owned=reader.partitions() if version >= 1 else {},
        generation=reader.int32() if version >= 2 else -1,
        rack_id=reader.nullable_string() if version >= 3 else None,
    )


def read_assignment(data: bytes) -> Partitions:
    if not data:
        return {}
    reader = _Reader(data)
    reader.int16()
    return reader.partitions()


def write_assignment(assigned: Mapping[str, Sequence[int]], version: int = 0) -> bytes:
    return struct.pack(">h", version) + _partitions(assigned) + b"\xff" * 4


def _partitions(partitions: Mapping[str, Sequence[int]]) -> bytes:
    parts = [struct.pack(">i", len(partitions))]
    for topic in sorted(partitions):
        numbers = sorted(partitions[topic])
        parts.append(_string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join(parts)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int16(self) -> int:
        return int.from_bytes(self._take(2), signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), signed=True)

    def count(self) -> int:
        count = self.int32()
        if not 0 <= count <= len(self._data):  # every item takes at least a byte
            raise InconsistentGroupProtocol(f"embedded array of {count} items")
        return count

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise InconsistentGroupProtocol("embedded string is null")
        return text

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise InconsistentGroupProtocol("embedded string is not UTF-8") from error

    def skip_bytes(self) -> None:
        self._take(max(self.int32(), 0))

    def partitions(self) -> Partitions:
        return {
            TopicName(self.string()): tuple(self.int32() for _ in range(self.count()))
            for _ in range(self.count())
        }

    def _take(self, count: int) -> bytes:
        end = self._position + count
        if end > len(self._data):
            raise InconsistentGroupProtocol(
                f"embedded bytes end at {len(self._data)}, {end} expected"
            )
        taken = self._data[self._position : end]
        self._position = end
        return taken
