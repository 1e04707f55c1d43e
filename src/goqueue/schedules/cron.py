"""Cron expressions: 5 fields, 6 with seconds first, or a name such as `@daily`.

    ┌ second (0-59), only with six fields
    │ ┌ minute (0-59)
    │ │ ┌ hour (0-23)
    │ │ │ ┌ day of the month (1-31, L: the last one, LW: the last weekday)
    │ │ │ │ ┌ month (1-12 or JAN-DEC)
    │ │ │ │ │ ┌ day of the week (0-7 or SUN-SAT, 5L: the last Friday, MON#1: the first Monday)
    * * * * * *

`cronsim` evaluates them, as Debian's cron does.  When clocks change, an expression with a fixed
hour and minute (neither begins with `*`) runs exactly once a day: a time in the hour that is
skipped runs right after it, and a time in the hour that comes twice runs the first time.  All
others follow real time: `*/15 * * * *` runs every 15 minutes, in the hour that comes twice as in
any other, and what falls only into the skipped hour (`*/15 2 * * *`) is left out that day.  A fixed
second is added to what the other five fields give, so it does not change any of this.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import msgspec
from cronsim import CronSim, CronSimError

from goqueue.model.ids import Timestamp
from goqueue.model.times import EPOCH, timestamp_of
from goqueue.schedules.errors import Mistake

EXPRESSION_LENGTH_MAX: Final = 200
MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS: Final = (
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31, L or LW"),
    ("month", "1 to 12 or JAN to DEC"),
    ("day of the week", "0 to 7, SUN to SAT, 5L or MON#1"),
)
GRAMMAR: Final = "*, a list 1,2, a range 1-5, or steps */5"

_SOME_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
_YEAR_MAX: Final = 9_900  # the calendar of Python ends in 9999


class Cron(msgspec.Struct, frozen=True):
    """A valid expression; `second` is added to what it gives."""

    expression: str
    second: int = 0

    def next_after(self, after: Timestamp, zone: tzinfo) -> Timestamp | None:
        """The first run later than that; None when there is none in 50 years."""
        shift = timedelta(seconds=self.second)
        # Fractions of a second are cut off by cronsim, which would be late enough, not early.
        begin = (EPOCH + timedelta(milliseconds=after)) - shift
        if begin.year > _YEAR_MAX:
            return None
        for moment in _runs(self.expression, begin.astimezone(zone)):
            # The hour that comes twice has one name: cronsim may give its first turn again.
            found = timestamp_of(moment.astimezone(UTC) + shift)
            if found > after:
                return found
        return None

    def describe(self) -> str:
        """In English."""
        text = CronSim(self.expression, _SOME_DAY).explain()
        return f"{text}, at second {self.second}" if self.second else text


def _runs(expression: str, begin: datetime) -> Iterator[datetime]:
    try:
        yield from CronSim(expression, begin)
    except (OverflowError, ValueError):  # behind the end of the calendar
        return


def parse_cron(text: str) -> Cron:
    """Of an expression without mistakes."""
    parts = MACROS.get(text.strip().lower(), text).split()
    if len(parts) == 6 and parts[0].isdigit():
        return Cron(" ".join(parts[1:]), int(parts[0]))
    return Cron(" ".join(parts))


def find_cron_mistakes(text: str) -> list[Mistake]:
    """All of them, field by field."""
    if len(text) > EXPRESSION_LENGTH_MAX:
        return [_mistake(f"{len(text)} characters, {EXPRESSION_LENGTH_MAX} allowed")]
    given = text.strip()
    if given.startswith("@"):
        return [] if given.lower() in MACROS else [_unknown_name(given)]
    parts = given.split()
    if len(parts) not in (5, 6):
        return [_mistake(_wrong_count(given, len(parts)))]
    offset = 6 - len(parts)
    found = [
        _bad_field(part, place + offset)
        for place, part in enumerate(parts)
        if not _is_valid(part, place + offset)
    ]
    if not found and not _is_whole_valid(parts):
        found.append(_mistake(f"{given!r}: no month that it names has such a day"))
    return found


def _is_valid(part: str, field: int) -> bool:
    """Whether the field is, beside others that are."""
    parts = ["*"] * 6
    parts[field] = part
    if field == 3:
        parts[5] = "1"  # with a day of the week, any day of the month is possible
    return _is_whole_valid(parts)


def _is_whole_valid(parts: list[str]) -> bool:
    try:
        CronSim(" ".join(parts), _SOME_DAY)
    except CronSimError:
        return False
    return True


def _bad_field(part: str, field: int) -> Mistake:
    name, values = FIELDS[field]
    return _mistake(f"{part[:40]!r} is no {name}: {values}; {GRAMMAR}")


def _wrong_count(given: str, count: int) -> str:
    text = f"{given[:60]!r} has {count} fields: write 5 (minute, hour, day, month, weekday)"
    return f"{text}, or 6 with seconds first, or one of {', '.join(MACROS)}"


def _unknown_name(given: str) -> Mistake:
    from difflib import get_close_matches

    near = get_close_matches(given.lower(), list(MACROS), n=1)
    text = f"{given[:40]!r} is none of {', '.join(MACROS)}"
    return _mistake(text, near[0] if near else "")


def _mistake(message: str, suggestion: str = "") -> Mistake:
    return Mistake("cron", message, suggestion)
