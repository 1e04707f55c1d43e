"""Points in time and lengths of time, in arguments and in tables."""

from goqueue.cli.failures import UsageFailure
from goqueue.model.durations import parse_duration_ms
from goqueue.model.ids import Timestamp
from goqueue.model.times import parse_time, time_text


def duration_ms(text: str, flag: str) -> int:
    """A bare number is milliseconds; raises `UsageFailure`."""
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise UsageFailure(f"{flag}: {error}") from None


def milliseconds(text: str, now_ms: int) -> int:
    """Epoch milliseconds of `text`, without an offset in local time; raises `UsageFailure`."""
    try:
        return parse_time(text, zone="local", now=Timestamp(now_ms))
    except ValueError as error:
        raise UsageFailure(str(error)) from None


def as_text(timestamp_ms: int) -> str:
    """RFC 3339 in UTC, to the millisecond; `-` for a message that has none."""
    text = time_text(timestamp_ms)
    return "-" if text is None else str(text)
