"""Which columns a writer takes, and what is wrong with those it is given.

    value          string or binary; null is a tombstone
    key?           string or binary; decides the partition, as every Kafka client's does
    topic?         string, where the option `topic` does not say it for all rows
    partition?     an integer; null: by key
    headers?       array<struct<key: string, value: binary>>, as the source gives them
    timestamp?     timestamp; null: now
    priority?      string (critical … background) or an integer (0 … 4)
    deliver_at?    not visible before: timestamp, milliseconds since 1970, or RFC 3339

Other columns are ignored, as Kafka's connector does, so that a job moves over.  A column whose name
is nearly one of these is refused: ignored, a misspelt `headers` would be lost silently.
"""

import difflib
from collections.abc import Callable
from typing import Final

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    StringType,
    StructType,
    TimestampType,
)

Accepts = Callable[[DataType], bool]
SIMILAR: Final = 0.85  # of difflib's ratio
FROM_THE_SOURCE: Final = ("offset", "timestampType")  # of the source: a copy of a topic has them


class Column(msgspec.Struct, frozen=True):
    wanted: str
    accepts: Accepts
    remedy: str


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType)


def _is_integer(kind: DataType) -> bool:
    return isinstance(kind, IntegralType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        [field.name for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )


COLUMNS: Final = {
    "value": Column("string or binary", _is_bytes, "to_json(struct(*)) as value"),
    "key": Column("string or binary", _is_bytes, "cast(key as string) as key"),
    "topic": Column("string", lambda kind: isinstance(kind, StringType), "cast it to string"),
    "partition": Column("an integer", _is_integer, "cast it to int"),
    "headers": Column(
        "array<struct<key: string, value: binary>>",
        _is_headers,
        "array(struct('source' as key, cast('x' as binary) as value)) as headers",
    ),
    "timestamp": Column(
        "timestamp", lambda kind: isinstance(kind, TimestampType), "cast it to timestamp"
    ),
    "priority": Column(
        "string or an integer",
        lambda kind: isinstance(kind, StringType) or _is_integer(kind),
        "cast it to int",
    ),
    "deliver_at": Column(
        "timestamp, an integer or string",
        lambda kind: isinstance(kind, TimestampType | StringType) or _is_integer(kind),
        "cast it to timestamp",
    ),
}


def schema_problems(schema: StructType, *, has_topic: bool, is_typed: bool = False) -> list[str]:
    """Everything that is wrong with the columns; `has_topic`: the option says where rows go;
    `is_typed`: values are written by a schema, which knows what it takes."""
    names = [field.name for field in schema.fields]
    problems = [
        f"column {name!r} is there twice" for name in sorted(set(names)) if names.count(name) > 1
    ]
    if "value" not in names:
        problems.append(
            "there is no column 'value' (string or binary, or a struct with value.format); to write"
            " whole rows as JSON: select to_json(struct(*)) as value"
        )
    if not has_topic and "topic" not in names:
        problems.append("which topic? Give the option 'topic', or a column 'topic'")
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None:
            problems += _slip(field.name)
        elif not column.accepts(field.dataType) and not (is_typed and field.name == "value"):
            problems.append(
                f"column {field.name!r} is {field.dataType.simpleString()}, wanted is"
                f" {column.wanted}: {column.remedy}"
            )
    return problems


def _slip(name: str) -> list[str]:
    """What is wrong with a column that is none of ours: nothing, unless it looks like one."""
    if name in FROM_THE_SOURCE:
        return []
    similar = difflib.get_close_matches(name.lower(), COLUMNS, n=1, cutoff=SIMILAR)
    return [f"column {name!r} is not known: did you mean {similar[0]!r}?"] if similar else []
