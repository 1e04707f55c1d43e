"""Names, times, waits and offsets as callers write them."""

import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from goqueue.model import times
from goqueue.model.durations import DURATION_PATTERN, parse_duration_ms
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import Offset, Timestamp

INT64_MAX: Final = 2**63 - 1
NAME_PATTERN: Final = "^[a-zA-Z0-9._-]{1,249}$"
TIME_PATTERN: Final = r"^(\d{1,19}|\d{4}-\d{2}-\d{2}[Tt ].{5,30})$"
OFFSET_TIME_PATTERN: Final = r"^(earliest|latest|newest|\d{1,19}|\d{4}-\d{2}-\d{2}[Tt ].{5,30})$"
WAIT_PATTERN: Final = DURATION_PATTERN
OFFSET_PATTERN: Final = r"^(earliest|latest|\d{1,19})$"
START_PATTERN: Final = r"^(earliest|latest|-?\d{1,19})$"

_DIGITS: Final = re.compile(r"\d{1,19}", re.ASCII)

if TYPE_CHECKING:  # as handlers see it: `TakesDurations` has turned texts into numbers
    DurationMs = int
    PositiveDurationMs = int
else:
    _DurationText = Annotated[str, msgspec.Meta(pattern=DURATION_PATTERN)]
    DurationMs = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | _DurationText
    PositiveDurationMs = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)] | _DurationText


def parse_time(text: str, name: str) -> Timestamp:
    """RFC 3339, or milliseconds since 1970."""
    try:
        # An unescaped + of an offset arrives as a space.
        found = times.parse_time(re.sub(r" (\d\d:\d\d)$", r"+\1", text))
    except ValueError as error:
        raise InvalidRequest(f"{name}: {error}") from error
    if found < 0:
        raise InvalidRequest(f"{name}: {text!r} is before 1970")
    return found


def parse_wait(text: str, name: str = "wait", *, plain: Literal["ms", "s"] = "ms") -> int:
    """`500ms`, `30s`, `1h30m`, `7d`, or a plain number; gives milliseconds."""
    try:
        return parse_duration_ms(text, plain=plain)
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
    if int(text) > INT64_MAX:
        raise InvalidRequest(f"{name}: {text} is more than {INT64_MAX}")
    return Offset(int(text))
