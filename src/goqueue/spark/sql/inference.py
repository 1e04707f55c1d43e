"""Columns for JSON values, from a look at some of them.

Whole numbers are `bigint`, others `double`; objects are structs, lists arrays.  What is now this
and now that is text, which Spark fills with the JSON itself.  Times stay text: `cast(at as
timestamp)`, or a schema of your own, says otherwise.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from goqueue.spark.sql.tables import RESERVED

DEPTH_MAX: Final = 8
COLUMNS_MAX: Final = 500
OBJECTS_PERCENT_MIN: Final = 50  # fewer among the values: they are taken for text
BIGINT_MAX: Final = 2**63 - 1

TEXT: Final = "string"

# A type is the text of Spark's, or the columns of a struct, or a list with the type of its entries;
# None is the type of a null, which goes with every other.
Kind = str | dict[str, "Kind"] | list["Kind"] | None


def columns_of(values: Iterable[bytes | None]) -> str | None:
    """As `create table` has them; None for values that are not JSON objects."""
    given = [value for value in values if value is not None]
    objects = [found for found in map(_object, given) if found is not None]
    if not objects or len(objects) * 100 < len(given) * OBJECTS_PERCENT_MIN:
        return None
    merged: Kind = None
    for each in objects:
        merged = merge(merged, kind_of(each))
    assert isinstance(merged, dict)
    columns = _drop_same_names(
        {name: kind for name, kind in merged.items() if name not in RESERVED}
    )
    return ", ".join(f"{_quote(name)} {type_text(kind)}" for name, kind in columns) or None


def _object(value: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def kind_of(value: Any, depth: int = 0) -> Kind:
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            return "bigint" if abs(value) <= BIGINT_MAX else "decimal(38,0)"
        case float():
            return "double"
        case dict() if depth < DEPTH_MAX:
            return {name: kind_of(each, depth + 1) for name, each in value.items()}
        case list() if depth < DEPTH_MAX:
            entries: Kind = None
            for each in value:
                entries = merge(entries, kind_of(each, depth + 1))
            return [entries]
        case _:
            return TEXT


NUMBERS: Final = ("bigint", "decimal(38,0)", "double")  # each holds the ones before it, about


def merge(one: Kind, other: Kind) -> Kind:
    """A type for the values of both."""
    if one is None or one == other:
        return other
    if other is None:
        return one
    match one, other:
        case dict(), dict():
            names = [*one, *(each for each in other if each not in one)]
            return {each: merge(one.get(each), other.get(each)) for each in names}
        case list(), list():
            return [merge(one[0], other[0])]
        case str(), str() if one in NUMBERS and other in NUMBERS:
            return max(one, other, key=NUMBERS.index)
        case _:
            return TEXT


def type_text(kind: Kind) -> str:
    """As Spark reads it."""
    match kind:
        case dict() if kind:
            columns = _drop_same_names(kind)
            return f"struct<{', '.join(f'{_quote(n)}: {type_text(k)}' for n, k in columns)}>"
        case list():
            return f"array<{type_text(kind[0])}>"
        case str():
            return kind
        case _:  # nothing but nulls, or an empty object
            return TEXT


def _drop_same_names(columns: Mapping[str, Kind]) -> list[tuple[str, Kind]]:
    """Spark does not tell `id` from `Id`: the first stays."""
    found: dict[str, tuple[str, Kind]] = {}
    for name, kind in columns.items():
        found.setdefault(name.lower(), (name, kind))
    return list(found.values())[:COLUMNS_MAX]


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
