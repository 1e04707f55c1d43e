"""The headers of delayed messages: what clients write, and what is delivered."""

import pytest

from goqueue.delay.headers import (
    DUE_MAX,
    NOT_DELAYED,
    due_of,
    may_hold_delays,
    publish_time,
    source_offset,
    waiting_record,
)
from goqueue.model.errors import InvalidRecord
from goqueue.model.ids import Timestamp
from goqueue.model.record import Record
from goqueue.model.records import encode_records

NOW = Timestamp(1_800_000_000_000)


@pytest.mark.parametrize(
    ("name", "value", "due"),
    [
        ("gq-delay-ms", b"1500", NOW + 1500),
        ("gq-delay-ms", b"0", NOW),
        ("gq-deliver-at", b"1800000005000", NOW + 5000),
        ("gq-deliver-at", b"2027-01-15T08:00:05Z", NOW + 5000),
        ("gq-deliver-at", b"1969-01-01T00:00:00Z", 0),
        ("gq-priority", b"high", NOT_DELAYED),
    ],
)
def test_due_times(name: str, value: bytes, due: int):
    assert due_of(((name, value),), NOW) == due


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ((("gq-delay-ms", b"-1"),), "is not a number of milliseconds"),
        ((("gq-delay-ms", b"30m"),), "is not a number of milliseconds"),
        ((("gq-delay-ms", None),), "is not a number of milliseconds"),
        ((("gq-delay-ms", b"9" * 30),), "behind the year 9999"),
        ((("gq-deliver-at", b"tomorrow"),), "is not a time"),
        ((("gq-deliver-at", b"\xff"),), "is not text"),
        ((("gq-deliver-at", str(DUE_MAX + 1).encode()),), "behind the year 9999"),
        ((("gq-delay-ms", b"1"), ("gq-deliver-at", b"1")), "give one of the headers"),
    ],
)
def test_headers_that_make_no_sense_are_refused(headers, problem: str):
    with pytest.raises(InvalidRecord, match=problem):
        due_of(headers, NOW)


def test_a_waiting_message_names_its_place_and_keeps_its_own_headers():
    headers = (("gq-delay-ms", b"5"), ("trace", b"x"), ("gq-delayed-from", b"9:9"))
    record = waiting_record(Record(0, 77, b"k", b"v", headers), NOW, 3, 42)
    assert record.headers == (
        ("trace", b"x"),
        ("gq-delayed-from", b"3:42"),
        ("gq-published-at", b"77"),
    )
    assert (record.offset, record.timestamp) == (42, NOW)
    assert source_offset(record) == 42
    assert publish_time(record.headers) == 77
    assert source_offset(Record(0, 0, None, None)) is None
    assert publish_time(()) == -1


@pytest.mark.parametrize("others", [0, 5000], ids=["small", "large"])
@pytest.mark.parametrize("name", ["gq-delay-ms", "gq-deliver-at", "gq-ttl-ms", "gq-delayed-from"])
def test_headers_that_delay_are_found_among_other_bytes(name: str, others: int):
    """Also where a value has the name in it, which is no header."""
    records = [
        Record(0, 0, None, b"x" * others + b"a " + name.encode()),
        Record(1, 0, None, b"v", ((name, b"1"),)),
    ]
    is_delay = name in ("gq-delay-ms", "gq-deliver-at")
    assert may_hold_delays(encode_records(records, 0, 0)) == is_delay
    assert not may_hold_delays(encode_records(records[:1], 0, 0))
