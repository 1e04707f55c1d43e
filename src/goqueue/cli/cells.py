"""Facts in a table, by their kind: for people at a terminal, and plain everywhere else.

at a terminal      elsewhere
31,197             31197                        numbers
5 minutes ago      2026-01-31T12:00:00.000Z     `Moment`
1.2 GB             1200000000                   `Size`
7d                 604800000                    `Span`
Stable, in green   Stable                       `State`
"""

import time
from typing import Final

import msgspec

from goqueue.client.http.messages import milliseconds
from goqueue.model.durations import duration_text
from goqueue.model.times import TimeText

FOREVER_MS: Final = 2**63 - 1
SIZES: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
AGES_S: Final = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
STYLES: Final = {
    "green": ("stable", "running", "done", "complete_commit", "acked", "online", "active"),
    "yellow": (
        *("empty", "starting", "waiting", "ongoing", "preparing", "reconciling", "joining"),
        "paused",
    ),
    "red": ("dead", "failed", "failing", "cancelled", "leaving", "offline"),
}


class Moment(msgspec.Struct, frozen=True):
    at: TimeText


class Size(msgspec.Struct, frozen=True):
    count: int | None


class Span(msgspec.Struct, frozen=True):
    ms: int


class Power(msgspec.Struct, frozen=True):
    """Bytes of a setting: exact, since people compare them."""

    count: int


class State(msgspec.Struct, frozen=True):
    word: str


def text_of(fact: object, *, at_terminal: bool) -> str:
    match fact:
        case None | Moment(at=None) | Size(count=None):
            return "-"
        case bool():
            return "yes" if fact else "no"
        case int():
            return f"{fact:,}" if at_terminal else str(fact)
        case Moment(at=at):
            return _relative(milliseconds(at)) if at_terminal else str(at)
        case Size(count=int(count)):
            return size(count) if at_terminal else str(count)
        case Power(count=count):
            return _power(count) if at_terminal else str(count)
        case Span(ms=ms):
            return span(ms) if at_terminal else str(ms)
        case State(word=word):
            return word
        case _:
            return str(fact)


def is_number(fact: object) -> bool:
    return isinstance(fact, int | float | Size) and not isinstance(fact, bool)


def is_short(fact: object) -> bool:
    """Nothing is left of it when it is cut."""
    return fact is None or is_number(fact) or isinstance(fact, Moment | Span | State | bool)


def style_of(fact: object) -> str:
    if not isinstance(fact, State):
        return ""
    word = fact.word.lower()
    return next((style for style, words in STYLES.items() if word.startswith(words)), "")


def setting(name: str, value: str) -> object:
    """A topic's setting by the unit in its name; -1 stays, for it means that there is no bound."""
    if not value.isdigit():
        return value
    unit = name.rpartition(".")[2]
    if unit == "ms" or int(value) == FOREVER_MS:
        return Span(int(value))
    return Power(int(value)) if unit == "bytes" else value


def size(count: int) -> str:
    """`999 B`, `1.2 GB`"""
    number = float(count)
    for unit in SIZES[:-1]:
        if number < 999.5:
            return (
                f"{number:.0f} {unit}" if unit == "B" or number >= 99.5 else f"{number:.1f} {unit}"
            )
        number /= 1000
    return f"{number:.1f} {SIZES[-1]}"


def _power(count: int) -> str:
    """`64 MiB`, `1,048,588`"""
    for unit, length in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count and count % length == 0:
            return f"{count // length:,} {unit}"
    return f"{count:,}"


def span(ms: int) -> str:
    """`7d`, `1h30m`, `0ms`"""
    if ms >= FOREVER_MS:
        return "unlimited"
    return duration_text(ms)


def _relative(at_ms: int) -> str:
    return relative(at_ms, time.time_ns() // 1_000_000)


def relative(at_ms: int, now_ms: int) -> str:
    """`5 minutes ago`, `in 30 seconds`"""
    seconds = abs(now_ms - at_ms) // 1000
    for unit, length in AGES_S:
        if count := seconds // length:
            words = f"{count:,} {unit}{'s' if count > 1 else ''}"
            return f"{words} ago" if at_ms <= now_ms else f"in {words}"
    return "now"
