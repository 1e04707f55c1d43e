"""Payloads against a Protobuf schema: which message it is, then Protobuf's own parser."""

from collections.abc import Sequence

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import DecodeError

from goqueue.schemas.schema import Problem

INDEXES_MAX = 64


def find_message(file: FileDescriptor, indexes: Sequence[int]) -> Descriptor | None:
    """By its place in the file, then in the message around it; the first one without indexes."""
    messages = list(file.message_types_by_name.values())
    found: Descriptor | None = None
    for index in indexes or (0,):
        if not 0 <= index < len(messages):
            return None
        found = messages[index]
        messages = list(found.nested_types)
    return found


def read_indexes(payload: memoryview) -> tuple[list[int], int] | None:
    """The indexes that stand before the message, and where the message begins."""
    count, position = _varint(payload, 0)
    if count == 0:
        return [0], position
    if not 0 < count <= INDEXES_MAX:
        return None
    indexes = []
    for _ in range(count):
        if position < 0:
            return None
        index, position = _varint(payload, position)
        indexes.append(index)
    return None if position < 0 else (indexes, position)


class ProtobufValidator:
    """The payload is what follows the schema id: indexes, then the message."""

    weight = 1

    def __init__(self, file: FileDescriptor, *, has_indexes: bool = True) -> None:
        self._file = file
        self._has_indexes = has_indexes
        self._first = find_message(file, ())  # which most payloads are

    def check(self, payload: memoryview) -> Problem | None:
        indexes: Sequence[int] = ()
        start = 0
        if self._has_indexes:
            found = read_indexes(payload)
            if found is None:
                return Problem("", "the message indexes after the schema id are cut off")
            indexes, start = found
        is_first = not indexes or indexes == [0]
        descriptor = self._first if is_first else find_message(self._file, indexes)
        if descriptor is None:
            return Problem("", f"the schema has no message at {list(indexes)}")
        message = message_factory.GetMessageClass(descriptor)()
        try:
            message.ParseFromString(bytes(payload[start:]))
        except DecodeError as error:
            return Problem("", f"no {descriptor.full_name}: {error}")
        if not message.IsInitialized():
            return Problem("", f"required fields of {descriptor.full_name} are missing")
        return None


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """Zigzag; the position is -1 at the end of the data."""
    result = shift = 0
    while 0 <= position < len(data) and shift <= 63:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), position
        shift += 7
    return -1, -1
