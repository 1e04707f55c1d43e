"""Times as people write them."""

import pytest

from goqueue.cli.failures import UsageFailure
from goqueue.cli.moments import as_text, milliseconds

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("1500", 1500),
        ("-90s", NOW - 90_000),
        ("-1h30m", NOW - 5_400_000),
        ("-1.5d", NOW - 129_600_000),
        ("-250ms", NOW - 250),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:00.250+01:00", 250),
    ],
)
def test_a_time_is_milliseconds(text: str, expected: int):
    assert milliseconds(text, NOW) == expected


@pytest.mark.parametrize("text", ["yesterday", "", "-", "-1y", "1h", "-h", "2026-13-01"])
def test_what_is_no_time_is_refused_with_examples(text: str):
    with pytest.raises(UsageFailure, match="-1h30m"):
        milliseconds(text, NOW)


def test_a_time_is_shown_in_utc():
    assert as_text(1500) == "1970-01-01T00:00:01.500Z"
    assert as_text(-1) == "-"
    assert as_text(10**18) == str(10**18)
