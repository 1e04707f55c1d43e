"""Spark's filters as bounds of what to read.

Filters on topic, partition and offset are applied exactly, so Spark need not check them again.
Of the time only "at least" helps: no record before the first one of that time passes, while later
ones may still be older, since producers set the time.  So Spark checks those again.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

OFFSET_MAX: Final = 2**63 - 1


class Bounds(msgspec.Struct, frozen=True):
    topics: frozenset[str] | None = None
    """None: all."""
    partitions: frozenset[int] | None = None
    start: int = 0
    end: int = OFFSET_MAX
    """Offsets below it."""
    timestamp_ms_min: int | None = None

    def __and__(self, other: "Bounds") -> "Bounds":
        times = [each.timestamp_ms_min for each in (self, other)]
        return Bounds(
            _both(self.topics, other.topics),
            _both(self.partitions, other.partitions),
            max(self.start, other.start),
            min(self.end, other.end),
            max((each for each in times if each is not None), default=None),
        )


EVERYTHING: Final = Bounds()


def bounds_of(filters: Iterable[Any]) -> tuple[Bounds, list[Any]]:
    """The bounds that filters set, and those of them that Spark must check itself."""
    bounds = EVERYTHING
    left = []
    for each in filters:
        found = _bounds(type(each).__name__, each)
        if found is None or found.timestamp_ms_min is not None:
            left.append(each)
        if found is not None:
            bounds &= found
    return bounds, left


def _bounds(kind: str, given: Any) -> Bounds | None:
    """Of one filter of Spark's, told by the name of its class; None: it sets none."""
    column = getattr(given, "attribute", ())
    value = getattr(given, "value", None)
    match column:
        case ("topic" | "partition" | "offset",) if kind == "IsNotNull":
            return EVERYTHING
        case ("topic",):
            names = _values(kind, value, str)
            return None if names is None else Bounds(topics=frozenset(names))
        case ("partition",):
            numbers = _values(kind, value, int)
            if numbers is not None:
                return Bounds(partitions=frozenset(numbers))
            return None
        case ("offset",):
            return _offset_bounds(kind, value)
        case ("timestamp",) if isinstance(value, datetime):
            return _time_bounds(kind, value)
        case _:
            return None


def _values(kind: str, value: Any, of: type[Any]) -> Sequence[Any] | None:
    if kind in ("EqualTo", "EqualNullSafe"):
        return [value] if isinstance(value, of) else None
    if kind == "In" and isinstance(value, list | tuple):
        return [each for each in value if isinstance(each, of)]  # no column here is ever null
    return None


def _offset_bounds(kind: str, value: Any) -> Bounds | None:
    if not isinstance(value, int):
        return None
    match kind:
        case "EqualTo" | "EqualNullSafe":
            return Bounds(start=value, end=value + 1)
        case "GreaterThan":
            return Bounds(start=value + 1)
        case "GreaterThanOrEqual":
            return Bounds(start=value)
        case "LessThan":
            return Bounds(end=value)
        case "LessThanOrEqual":
            return Bounds(end=value + 1)
        case _:
            return None


def _time_bounds(kind: str, value: datetime) -> Bounds | None:
    if kind not in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
        return None
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    return Bounds(timestamp_ms_min=max(0, int(moment.timestamp() * 1000)))


def _both(first: frozenset[Any] | None, second: frozenset[Any] | None) -> frozenset[Any] | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second
