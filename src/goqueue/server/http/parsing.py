"""Names, times, waits and offsets as callers write them."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from goqueue.model.durations import DURATION_PATTERN, duration_ms
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import Offset, Timestamp

INT64_MAX: Final = 2**63 - 1
NAME_PATTERN: Final = "^[a-zA-Z0-9._-]{1,249}$"
TIME_PATTERN: Final = r"^(\d{1,19}|\d{4}-\d{2}-\d{2}[Tt ].{5,30})$"
OFFSET_TIME_PATTERN: Final = r"^(earliest|latest|newest|\d{1,19}|\d{4}-\d{2}-\d{2}[Tt ].{5,30})$"
WAIT_PATTERN: Final = DURATION_PATTERN
OFFSET_PATTERN: Final = r"^(earliest|latest|\d{1,19})$"
START_PATTERN: Final = r"^(earliest|latest|-?\d{1,19})$"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CALENDAR_END_MS: Final = 253_402_300_800_000  # the year 10000
_DIGITS: Final = re.compile(r"\d{1,19}", re.ASCII)

TimeText = str | int | None

if TYPE_CHECKING:  # as handlers see it: `TakesDurations` has turned texts into numbers
    DurationMs = int
    PositiveDurationMs = int
else:
    _DurationText = Annotated[str, msgspec.Meta(pattern=DURATION_PATTERN)]
    DurationMs = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | _DurationText
    PositiveDurationMs = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)] | _DurationText


def parse_time(text: str, name: str) -> Timestamp:
    """RFC 3339, or milliseconds since 1970."""
    if _DIGITS.fullmatch(text):
        return Timestamp(_bounded(int(text), name))
    try:
        # An unescaped + of an offset arrives as a space.
        moment = datetime.fromisoformat(re.sub(r" (\d\d:\d\d)$", r"+\1", text))
    except ValueError as error:
        raise _bad_time(text, name) from error
    if moment.tzinfo is None:
        raise _bad_time(text, name)
    milliseconds = (moment - _EPOCH) // timedelta(milliseconds=1)
    if milliseconds < 0:
        raise InvalidRequest(f"{name}: {text!r} is before 1970")
    return Timestamp(milliseconds)


def _bad_time(text: str, name: str) -> InvalidRequest:
    return InvalidRequest(
        f"{name}: {text[:60]!r} is not a time: write RFC 3339 with an offset, as in"
        " 2026-01-31T12:00:00Z, or milliseconds since 1970"
    )


def _bounded(number: int, name: str) -> int:
    if number > INT64_MAX:
        raise InvalidRequest(f"{name}: {number} is more than {INT64_MAX}")
    return number


def parse_wait(text: str, name: str = "wait") -> int:
    """`500ms`, `30s`, `1h30m`, `7d`, or plain milliseconds; gives milliseconds."""
    try:
        return duration_ms(text)
    except ValueError as error:
        raise InvalidRequest(f"{name}: {error}") from error


class TakesDurations(msgspec.Struct, frozen=True):
    """A body whose fields that end in `_ms` may also be written as `30s`."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name.endswith("_ms") and isinstance(value, str):
                msgspec.structs.force_setattr(self, name, parse_wait(value, name))


def parse_offset(text: str, name: str) -> Offset:
    if not _DIGITS.fullmatch(text):
        raise InvalidRequest(f"{name}: {text[:60]!r} is not an offset")
    return Offset(_bounded(int(text), name))


@lru_cache(maxsize=4096)
def time_text(milliseconds: int) -> TimeText:
    """RFC 3339 in UTC; None for no time; a bare number for what no calendar has.

    Remembered, because the messages of a batch mostly share their time.
    """
    if milliseconds < 0:
        return None
    if milliseconds >= _CALENDAR_END_MS:
        return milliseconds
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
