"""Lengths of time as people write them: 500ms, 30s, 1m30s, 2h; bare numbers are milliseconds."""

import re
from typing import Final

from goqueue.cli.failures import UsageFailure
from goqueue.cli.moments import PART, UNIT_MS

WHOLE: Final = re.compile(rf"(?:{PART.pattern})+")


def duration_ms(text: str, flag: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    if WHOLE.fullmatch(text):
        return sum(round(float(number) * UNIT_MS[unit]) for number, unit in PART.findall(text))
    raise UsageFailure(f"{flag} {text}: not a length of time: write 500ms, 30s, 1m30s or 2h")
