"""One notation of times, wherever they are written."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.ids import Timestamp
from goqueue.model.times import TIMESTAMP_MAX, parse_time, time_text

NOW = Timestamp(1_700_000_000_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("1500", 1500),
        ("-90s", NOW - 90_000),
        ("-1h30m", NOW - 5_400_000),
        ("-1.5d", NOW - 129_600_000),
        ("-250ms", NOW - 250),
        ("-2 hours", NOW - 7_200_000),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01 00:00:01Z", 1000),
        ("1970-01-01T01:00:00.250+01:00", 250),
        ("1969-12-31T23:59:59Z", -1000),
        (str(TIMESTAMP_MAX), TIMESTAMP_MAX),
    ],
)
def test_a_time_is_milliseconds(text: str, expected: int):
    assert parse_time(text, now=NOW) == expected


@pytest.mark.parametrize(
    "text", ["yesterday", "", "-", "-1y", "-5", "1h", "-h", "2026-13-01", "2026-01-31T12:00:00"]
)
def test_what_is_no_time_is_refused_with_examples(text: str):
    with pytest.raises(ValueError, match=r"with an offset, as in 2026.*-1h30m"):
        parse_time(text, now=NOW)


@pytest.mark.parametrize("text", ["now", "-1h"])
def test_a_relative_time_needs_a_now(text: str):
    with pytest.raises(ValueError, match=r"or milliseconds since 1970$"):
        parse_time(text)


def test_a_time_without_an_offset_has_the_zone_of_its_field():
    text = "2026-01-31T12:00:00"
    assert parse_time(text, zone="utc") == parse_time(f"{text}Z")
    assert parse_time(text, zone="local") == datetime.fromisoformat(text).timestamp() * 1000


def test_a_time_beyond_64_bits_is_refused():
    with pytest.raises(ValueError, match="is more than"):
        parse_time("9" * 19)


@given(st.integers(0, 253_402_300_799_999))
def test_a_time_is_read_as_it_was_written(milliseconds: int):
    text = time_text(milliseconds)
    assert isinstance(text, str)
    assert parse_time(text) == milliseconds


def test_a_time_is_written_in_utc():
    assert time_text(1500) == "1970-01-01T00:00:01.500Z"
    assert time_text(-1) is None
    assert time_text(10**18) == 10**18
