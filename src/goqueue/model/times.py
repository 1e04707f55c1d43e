"""Points in time as people write them, and as GoQueue writes them: one notation for all.

2026-01-31T12:00:00Z      RFC 3339
1769860800000             milliseconds since 1970
now  -90s  -1h30m  -7d    relative to now, where the caller has a now
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Literal

from goqueue.model.durations import parse_duration_ms
from goqueue.model.ids import Timestamp

TIMESTAMP_MAX: Final = 2**63 - 1
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_CALENDAR_END_MS: Final = 253_402_300_800_000  # the year 10000
_DIGITS: Final = re.compile(r"[0-9]{1,19}")

TimeText = str | int | None


def parse_time(
    text: str, *, zone: Literal["given", "local", "utc"] = "given", now: Timestamp | None = None
) -> Timestamp:
    """Milliseconds since 1970; raises `ValueError` that says what is accepted.

    `zone` is that of a time without an offset; with "given" such a time is refused.
    """
    if _DIGITS.fullmatch(text):
        if int(text) > TIMESTAMP_MAX:
            raise ValueError(f"{text} is more than {TIMESTAMP_MAX}")
        return Timestamp(int(text))
    try:
        if now is not None and (text == "now" or text.startswith("-")):
            return Timestamp(now - _ago_ms(text))
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _not_a_time(text, zone, now) from None
    if moment.tzinfo is None:
        if zone == "given":
            raise _not_a_time(text, zone, now)
        moment = moment.replace(tzinfo=UTC) if zone == "utc" else moment.astimezone()
    return timestamp_of(moment)


def _ago_ms(text: str) -> int:
    return 0 if text == "now" else parse_duration_ms(text[1:], plain=None)


def _not_a_time(text: str, zone: str, now: Timestamp | None) -> ValueError:
    with_offset = " with an offset" if zone == "given" else ""
    ago = "" if now is None else ", now, or how long ago, as -90s, -1h30m or -7d"
    return ValueError(
        f"{text[:60]!r} is not a time: write RFC 3339{with_offset}, as in 2026-01-31T12:00:00Z,"
        f" or milliseconds since 1970{ago}"
    )


def timestamp_of(moment: datetime) -> Timestamp:
    return Timestamp((moment - EPOCH) // timedelta(milliseconds=1))


@lru_cache(maxsize=4096)
def time_text(milliseconds: int) -> TimeText:
    """RFC 3339 in UTC; None for no time; a bare number for a year that no calendar has.

    Cached, because the messages of a batch mostly share their time.
    """
    if milliseconds < 0:
        return None
    if milliseconds >= _CALENDAR_END_MS:
        return milliseconds
    moment = EPOCH + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def time_text_us(microseconds: int) -> TimeText:
    """As `time_text`, to the microsecond."""
    if microseconds < 0 or microseconds >= _CALENDAR_END_MS * 1000:
        return time_text(microseconds // 1000)
    moment = EPOCH + timedelta(microseconds=microseconds)
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
