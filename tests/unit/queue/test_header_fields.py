"""What record headers say to a queue."""

import pytest

from goqueue.model.record import Headers, Record
from goqueue.queue import QueueSettings
from goqueue.queue.header_fields import header_value, is_outdated, ordering_key


def record(headers: Headers = (), *, key: bytes | None = None, timestamp: int = 1_000) -> Record:
    return Record(0, timestamp, key, b"", headers)


@pytest.mark.parametrize(
    ("group_ttl_ms", "header", "now", "expected"),
    [
        (0, None, 10**15, False),
        (500, None, 1_499, False),
        (500, None, 1_500, True),
        (500, b"2000", 1_500, False),
        (0, b"1", 1_001, True),
        (500, b"0", 10**15, False),  # it lives for ever
        (500, b"soon", 1_500, True),
        (500, b"-1", 1_500, True),
        (500, b"", 1_500, True),
        (500, b"9" * 16, 1_500, True),  # too long to be meant
        (0, b"9" * 15, 10**15, False),
    ],
)
def test_a_message_is_outdated_when_its_own_time_to_live_or_the_groups_is_over(
    group_ttl_ms: int, header: bytes | None, now: int, expected: bool
):
    headers = () if header is None else (("gq-ttl-ms", header),)
    settings = QueueSettings(ttl_ms=group_ttl_ms)
    assert is_outdated(record(headers), settings.ttl_ms, now) is expected


def test_a_message_without_a_timestamp_has_no_age():
    assert not is_outdated(record(timestamp=-1), 1, 10**15)
    assert is_outdated(record(timestamp=0), 1, 1)


def test_a_key_of_the_header_stands_before_the_records_own():
    named = (("other", b"x"), ("gq-ordering-key", b"k"))
    assert ordering_key(record(named, key=b"own")) == ordering_key(record(key=b"k"))
    assert ordering_key(record(key=b"k")) != ordering_key(record(key=b"own"))
    assert ordering_key(record((("gq-ordering-key", None),), key=b"own")) is None
    assert ordering_key(record((("other", b"x"),), key=b"own")) == ordering_key(record(key=b"own"))
    assert ordering_key(record()) is None


def test_an_empty_key_is_one():
    assert ordering_key(record(key=b"")) is not None


def test_the_first_header_of_a_name_counts():
    found = record((("tenant", b"a"), ("tenant", b"b")))
    assert header_value(found, "tenant") == b"a"
    assert header_value(found, "Tenant") is None
