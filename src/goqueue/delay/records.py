"""What a partition's timers write to their log.

    Indexed       messages of the delay log, up to `end`, and when they are due
    Delivered     they are in the partition's data, committed
    Cancelled     it will never be
    Rescheduled   it is due at another time
    Expired       it was not delivered, since its time to live had passed
    Moved         messages that wait have a copy at another place of the delay log

A snapshot is `PendingKept` for chunks of what waits, `ReschedulesKept`, `Moved`, and `TimersKept`
at last.
Times and offsets are packed: 8 bytes each, the lowest first.
"""

import sys
from array import array
from collections.abc import Iterable

import msgspec

from goqueue.model.ids import Offset, Timestamp


def pack(numbers: "array[int] | Iterable[int]") -> bytes:
    packed = array("q", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack(data: bytes) -> "array[int]":
    packed = array("q")
    packed.frombytes(data)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed


class Indexed(msgspec.Struct, frozen=True, tag="indexed", array_like=True):
    end: Offset
    dues: bytes = b""
    offsets: bytes = b""


class Delivered(msgspec.Struct, frozen=True, tag="delivered", array_like=True):
    offsets: bytes
    data_end: Offset
    """Behind the last of them in the partition's data."""


class Cancelled(msgspec.Struct, frozen=True, tag="cancelled", array_like=True):
    offset: Offset
    due: Timestamp


class Rescheduled(msgspec.Struct, frozen=True, tag="rescheduled", array_like=True):
    offset: Offset
    former: Timestamp
    due: Timestamp


class Expired(msgspec.Struct, frozen=True, tag="expired", array_like=True):
    offsets: bytes


class Moved(msgspec.Struct, frozen=True, tag="moved", array_like=True):
    offsets: bytes
    places: bytes
    """The offsets of their copies."""


class PendingKept(msgspec.Struct, frozen=True, tag="pending", array_like=True):
    dues: bytes
    offsets: bytes


class ReschedulesKept(msgspec.Struct, frozen=True, tag="reschedules", array_like=True):
    dues: bytes
    offsets: bytes


class TimersKept(msgspec.Struct, frozen=True, tag="timers", array_like=True):
    end: Offset
    data_end: Offset
    cancelled: bytes
    """The offsets of those that were cancelled last."""
    scheduled_total: int
    delivered_total: int
    cancelled_total: int
    expired: bytes = b""
    """The offsets of those that expired last."""
    expired_total: int = 0


DelayRecord = (
    Indexed
    | Delivered
    | Cancelled
    | Rescheduled
    | Expired
    | Moved
    | PendingKept
    | ReschedulesKept
    | TimersKept
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[DelayRecord] = msgspec.msgpack.Decoder(DelayRecord)


def encode(record: DelayRecord) -> bytes:
    return _encoder.encode(record)


def decode(data: bytes) -> DelayRecord:
    return _decoder.decode(data)
