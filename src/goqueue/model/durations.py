"""Lengths of time as people write them: one grammar for HTTP, the CLI, settings and Spark.

500ms  30s  1m30s  1.5h  7d  2w
10 seconds    1 hour 30 minutes
30000         a plain number, in the unit that the field documents: mostly milliseconds
"""

import re
from typing import Final, Literal

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
    "w": 604_800_000,
    "week": 604_800_000,
}
DURATION_MS_MAX: Final = 2**63 - 1

_NUMBER: Final = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_UNIT: Final = r"(?:(?:millisecond|second|minute|hour|day|week)s?|ms|[smhdw])"
DURATION_PATTERN: Final = rf"^\s*([0-9]{{1,19}}\s*|({_NUMBER}\s*{_UNIT}\s*)+)$"
DURATION_EXAMPLES: Final = "500ms, 30s, 1m30s, 7d, 10 seconds"

_WHOLE: Final = re.compile(DURATION_PATTERN)
_PART: Final = re.compile(rf"({_NUMBER})\s*({_UNIT})")
_LONG_UNITS: Final = {"ms": "milliseconds", "s": "seconds"}


def parse_duration_ms(text: str, *, plain: Literal["ms", "s"] | None = "ms") -> int:
    """Milliseconds; raises `ValueError` that says what is accepted.

    `plain` is the unit of a number that has none; with None such a number is refused.
    """
    found = _WHOLE.fullmatch(text)
    parts = _PART.findall(text)
    if found is None or not (parts or plain):
        raise ValueError(
            f"{text[:60]!r} is not a duration: write {DURATION_EXAMPLES}"
            + (f", or a number of {_LONG_UNITS[plain]}" if plain else "")
        )
    total = sum(_part_ms(*part) for part in parts) if parts else int(text) * UNIT_MS[plain or "ms"]
    if total > DURATION_MS_MAX:
        raise ValueError(f"{text[:60]!r} is more than {DURATION_MS_MAX} milliseconds")
    return total


def duration_text(milliseconds: int) -> str:
    """`7d`, `1h30m`, `0ms`"""
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, milliseconds = divmod(milliseconds, UNIT_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0ms"


def _part_ms(number: str, unit: str) -> int:
    unit_ms = UNIT_MS.get(unit) or UNIT_MS[unit.removesuffix("s")]
    return round(float(number) * unit_ms) if "." in number else int(number) * unit_ms
