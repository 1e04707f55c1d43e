"""Lengths of time as a pipeline's file has them: `500ms`, `10s`, `1m30s`, `10 seconds`."""

import re
from typing import Final

UNIT_MS: Final = {
    "ms": 1,
    "millisecond": 1,
    "s": 1000,
    "second": 1000,
    "m": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}
PART: Final = re.compile(r"\s*(\d{1,12})\s*([a-z]+)")
WHOLE: Final = re.compile(rf"(?:{PART.pattern})+\s*")
NOT_A_DURATION: Final = "not a length of time: write 500ms, 10s, 1m30s or 10 seconds"


def milliseconds(text: str) -> int | None:
    """None for what is no length of time."""
    if not WHOLE.fullmatch(text):
        return None
    total = 0
    for number, unit in PART.findall(text):
        known = UNIT_MS.get(unit) or UNIT_MS.get(unit.removesuffix("s"))
        if known is None:
            return None
        total += int(number) * known
    return total
