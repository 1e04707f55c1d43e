"""Times and durations as arguments and in tables; the notation itself is the model's."""

import pytest

from goqueue.cli.failures import UsageFailure
from goqueue.cli.moments import as_text, duration_ms, milliseconds

NOW = 1_700_000_000_000


def test_a_time_may_be_relative_to_now():
    assert milliseconds("-1h30m", NOW) == NOW - 5_400_000


def test_what_is_no_time_is_a_usage_failure():
    with pytest.raises(UsageFailure, match="-1h30m"):
        milliseconds("yesterday", NOW)


def test_what_is_no_duration_is_a_usage_failure_that_names_the_flag():
    assert duration_ms("1m30s", "--wait") == 90_000
    with pytest.raises(UsageFailure, match="--wait: 'soon' is not a duration"):
        duration_ms("soon", "--wait")


def test_a_time_is_shown_in_utc():
    assert as_text(1500) == "1970-01-01T00:00:01.500Z"
    assert as_text(-1) == "-"
    assert as_text(10**18) == str(10**18)
