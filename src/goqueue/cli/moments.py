"""Points in time as people write them: RFC 3339, epoch milliseconds, or relative to now."""

import re
from datetime import UTC, datetime
from typing import Final

from goqueue.cli.failures import UsageFailure

UNIT_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
}
PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
RELATIVE: Final = re.compile(rf"-(?:{PART.pattern})+")


def milliseconds(text: str, now_ms: int) -> int:
    """Epoch milliseconds of `text`; raises `UsageFailure`."""
    if text == "now":
        return now_ms
    if text.isascii() and text.isdigit():
        return int(text)
    if RELATIVE.fullmatch(text):
        return now_ms - sum(round(float(n) * UNIT_MS[unit]) for n, unit in PART.findall(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageFailure(
            f"{text!r} is not a time: write 2026-01-31T12:00:00Z, epoch milliseconds,"
            " or how long ago, as -90s, -1h30m or -7d"
        ) from None
    return round(moment.timestamp() * 1000)  # without an offset it is local time


def as_text(timestamp_ms: int) -> str:
    """RFC 3339 in UTC, to the millisecond; `-` for a message that has none."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)
    except (OverflowError, ValueError, OSError):  # a year that no calendar has
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
