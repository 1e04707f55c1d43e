"""Points in time and lengths of time, in arguments and in tables."""

import time

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


def milliseconds(text: str, now_ms: int | None = None) -> int:
    """Epoch milliseconds of `text`, without an offset in local time; raises `UsageFailure`."""
    now = Timestamp(time.time_ns() // 1_000_000 if now_ms is None else now_ms)
    try:
        return parse_time(text, zone="local", now=now)
    except ValueError as error:
        raise UsageFailure(str(error)) from None


def fixed_milliseconds(text: str, flag: str) -> int:
    """As `milliseconds`, but refuses a time that is another one when the command is run again."""
    moment = milliseconds(text)
    if text == "now" or text.startswith("-"):
        raise UsageFailure(
            f"{flag} {text}: this is another time whenever the command is started again;"
            f" write {as_text(moment)}"
        )
    return moment


def as_text(timestamp_ms: int) -> str:
    """RFC 3339 in UTC, to the millisecond; `-` for a message that has none."""
    text = time_text(timestamp_ms)
    return "-" if text is None else str(text)
