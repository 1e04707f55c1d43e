"""What timers write is read back."""

import pytest

from goqueue.delay.records import (
    Cancelled,
    DelayRecord,
    Delivered,
    Indexed,
    PendingKept,
    Rescheduled,
    ReschedulesKept,
    TimersKept,
    decode,
    encode,
    pack,
    unpack,
)
from goqueue.model.ids import Offset, Timestamp


@pytest.mark.parametrize(
    "record",
    [
        Indexed(Offset(9), pack((5, 6)), pack((7, 8))),
        Delivered(pack((7,)), Offset(3)),
        Cancelled(Offset(1), Timestamp(2)),
        Rescheduled(Offset(1), Timestamp(2), Timestamp(3)),
        PendingKept(pack((1,)), pack((2,))),
        ReschedulesKept(pack((1,)), pack((2,))),
        TimersKept(Offset(1), Offset(2), pack((3,)), 4, 5, 6),
    ],
)
def test_a_record_is_read_back(record: DelayRecord):
    assert decode(encode(record)) == record


def test_numbers_are_packed_lowest_byte_first():
    assert pack((1, 256)) == b"\x01" + bytes(8) + b"\x01" + bytes(6)
    assert list(unpack(pack((-1, 2**62)))) == [-1, 2**62]
