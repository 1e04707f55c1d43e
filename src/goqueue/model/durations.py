"""Lengths of time as people write them: `500ms`, `30s`, `1h30m`, `7d`; else milliseconds."""

import re
from typing import Final

DURATION_PATTERN: Final = r"^(\d{1,12}|(\d{1,9}(ms|s|m|h|d)){1,5})$"
UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_WHOLE: Final = re.compile(DURATION_PATTERN, re.ASCII)
_PART: Final = re.compile(r"(\d+)(ms|s|m|h|d)", re.ASCII)


def duration_ms(text: str) -> int:
    """Milliseconds; raises ValueError for what is no duration."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is not a duration: write 500ms, 30s, 1h30m or 7d")
    if text.isdigit():
        return int(text)
    return sum(int(number) * UNIT_MS[unit] for number, unit in _PART.findall(text))
