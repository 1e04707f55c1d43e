"""What a command line says of a value: its help, its flags, its bounds, and how it is written.

    class Options(msgspec.Struct, frozen=True):
        window: Annotated[int, option("Offsets per transaction.", min=1)] = 500_000
        from_ms: Annotated[TimeMs | None, option("Start time.", "--since")] = None

The struct is what a job takes; `goqueue.cli.command` makes the options of the command from it.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec


class Notation(enum.Enum):
    """How a value is written that is neither a text nor a number."""

    TIME = "TIME"
    """RFC 3339, epoch milliseconds, or relative to now."""
    FIXED_TIME = "FIXED_TIME"
    """As `TIME`, but the same one whenever the command is run again."""
    DURATION = "DURATION"
    PAIRS = "PAIRS"
    """`NAME=VALUE`, any number of times."""


TimeMs = Annotated[int, Notation.TIME]
FixedTimeMs = Annotated[int, Notation.FIXED_TIME]
DurationMs = Annotated[int, Notation.DURATION]
Pairs = Annotated[Mapping[str, str], Notation.PAIRS]


class Option(msgspec.Struct, frozen=True):
    help: str
    flags: tuple[str, ...] = ()
    """`--name` is made of the field's name unless one is given."""
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    complete: Callable[[Any], list[str]] | None = None
    is_argument: bool = False


def option(
    help: str,
    *flags: str,
    metavar: str | None = None,
    min: float | None = None,
    max: float | None = None,
) -> Option:
    return Option(help, flags, metavar, min, max)


def argument(
    help: str, *, metavar: str, complete: Callable[[Any], list[str]] | None = None
) -> Option:
    return Option(help, metavar=metavar, complete=complete, is_argument=True)
