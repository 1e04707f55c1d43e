"""Kafka's primitive types: bytes to values, values to bytes.

    type              legacy versions                 flexible versions
    string            i16 length, UTF-8               uvarint (length + 1), UTF-8
    nullable string   length -1 is null               uvarint 0 is null
    bytes, records    i32 length                      uvarint (length + 1)
    array             i32 count, -1 is null           uvarint (count + 1), 0 is null
    tagged fields     -                               uvarint count, then (tag, size, bytes) each

Integers are big-endian.  A uvarint has seven bits a byte, lowest first, at most five bytes.

A reader takes the data and a position and gives the value and the position after it.  Every length
is held against the bytes that are left before anything is sliced or built: a count of two thousand
million in a body of twenty bytes costs nothing.  Readers raise `MalformedRequest`, or, at the very
end of the data, `IndexError` or `struct.error`, which the codecs' entry points turn into it
(`DECODE_ERRORS`): that check is free, since Python makes it anyway.
"""

import struct
from functools import lru_cache
from typing import Final, TypeAlias
from uuid import UUID

from goqueue.wire.errors import MalformedRequest

Buffer: TypeAlias = bytes | bytearray | memoryview
Data: TypeAlias = bytes | memoryview

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")

# What Python raises of itself when a reader walks off the end, or meets text that is not UTF-8 or
# a time that no datetime can hold.  (UnicodeDecodeError is a ValueError.)
DECODE_ERRORS: Final = (IndexError, struct.error, ValueError, OverflowError)

# Entries of all arrays in one request: topics, partitions, groups.  Each takes a few bytes to send,
# and microseconds to read and to answer.  A topic has at most 10,000 partitions by default.
REQUEST_ENTRIES_MAX: Final = 25_000
STRING_BYTES_MAX: Final = 0x7FFF  # Kafka's, also where the length of a string has more room
TAGGED_FIELDS_MAX: Final = 64  # in one block; the protocol knows a handful

_UVARINT_MAX = 0xFFFF_FFFF
_UVARINT_SHIFT_MAX = 28
_ONE_BYTE_UVARINTS: Final = tuple(bytes((value,)) for value in range(128))


# --- reading ----------------------------------------------------------------------------------


def read_uvarint(data: Data, at: int) -> tuple[int, int]:
    value = data[at]
    if value < 0x80:  # nearly all of them
        return value, at + 1
    value &= 0x7F
    for shift in range(7, _UVARINT_SHIFT_MAX + 1, 7):
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _UVARINT_MAX:
                raise MalformedRequest(f"varint {value} does not fit 32 bits")
            return value, at + 1
    raise MalformedRequest("varint of more than 5 bytes")


def read_string(data: Data, at: int, *, flexible: bool) -> tuple[str, int]:
    value, at = read_nullable_string(data, at, flexible=flexible)
    if value is None:
        raise MalformedRequest("null where a string must be")
    return value, at


def read_nullable_string(data: Data, at: int, *, flexible: bool) -> tuple[str | None, int]:
    if flexible:
        size, at = read_uvarint(data, at)
        size -= 1
    else:
        (size,) = INT16.unpack_from(data, at)
        at += 2
    if is_null(size):
        return None, at
    if size > STRING_BYTES_MAX:
        raise MalformedRequest(f"string of {size} bytes, {STRING_BYTES_MAX} allowed")
    end = end_of(data, at, size)
    return str(data[at:end], "utf-8"), end


def read_nullable_bytes(data: Data, at: int, *, flexible: bool) -> tuple[Data | None, int]:
    """A slice of `data`: no copy when that is a memoryview.  Null and empty are different."""
    if flexible:
        size, at = read_uvarint(data, at)
        size -= 1
    else:
        (size,) = INT32.unpack_from(data, at)
        at += 4
    if is_null(size):
        return None, at
    end = end_of(data, at, size)
    return data[at:end], end


def read_count(data: Data, at: int, *, flexible: bool, item_size_min: int = 1) -> tuple[int, int]:
    """An array's count, -1 for null; never more than the bytes that are left could hold."""
    if flexible:
        count, at = read_uvarint(data, at)
        count -= 1
    else:
        (count,) = INT32.unpack_from(data, at)
        at += 4
    if count * item_size_min > len(data) - at:
        raise MalformedRequest(f"array of {count} items in {len(data) - at} bytes")
    is_null(count)
    return count, at


def read_array_count(
    data: Data, at: int, *, flexible: bool, item_size_min: int = 1
) -> tuple[int, int]:
    """An array's count, where the array may not be null."""
    count, at = read_count(data, at, flexible=flexible, item_size_min=item_size_min)
    if count < 0:
        raise MalformedRequest("null where an array must be")
    return count, at


def read_uuid(data: Data, at: int) -> tuple[UUID, int]:
    end = end_of(data, at, 16)
    return _uuid(bytes(data[at:end])), end


def skip_tagged_fields(data: Data, at: int) -> int:
    """The position after a block of tagged fields of which none is of interest."""
    count = data[at]
    if count == 0:  # nearly always
        return at + 1
    count, at = read_tag_count(data, at)
    for _ in range(count):
        _, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        at = end_of(data, at, size)
    return at


def read_tag_count(data: Data, at: int) -> tuple[int, int]:
    """How many tagged fields follow."""
    count, at = read_uvarint(data, at)
    if count > TAGGED_FIELDS_MAX:
        raise MalformedRequest(f"{count} tagged fields in a row, {TAGGED_FIELDS_MAX} allowed")
    return count, at


def check_entries(count: float) -> None:
    """Refuse a request with more entries than one may have."""
    if count > REQUEST_ENTRIES_MAX:
        raise MalformedRequest(
            f"more than {REQUEST_ENTRIES_MAX} entries in one request: send several"
        )


def end_of(data: Data, at: int, size: int) -> int:
    """The position `size` bytes on, which must be within the data."""
    end = at + size
    if end > len(data):
        raise MalformedRequest(f"field of {size} bytes where {len(data) - at} are left")
    return end


def is_null(size: int) -> bool:
    """Whether a length stands for null, which is -1; any other negative one is refused."""
    if size >= 0:
        return False
    if size == -1:
        return True
    raise MalformedRequest(f"negative length {size}")


@lru_cache(maxsize=4096)  # building a UUID costs more than all else in a small produce request
def _uuid(raw: bytes) -> UUID:
    return UUID(bytes=raw)


# --- writing ----------------------------------------------------------------------------------


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE_UVARINTS[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(text: str, *, flexible: bool) -> bytes:
    raw = text.encode()
    return (uvarint(len(raw) + 1) if flexible else INT16.pack(len(raw))) + raw


def nullable_string(text: str | None, *, flexible: bool) -> bytes:
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    return string(text, flexible=flexible)


def count_of(count: int, *, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else INT32.pack(count)


def tagged_fields(fields: list[tuple[int, bytes]]) -> bytes:
    """A block of tagged fields, given in the order of their tags."""
    if not fields:
        return b"\x00"
    out = bytearray(uvarint(len(fields)))
    for tag, value in fields:
        out += uvarint(tag)
        out += uvarint(len(value))
        out += value
    return bytes(out)
