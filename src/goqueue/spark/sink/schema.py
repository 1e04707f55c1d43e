"""Which columns a writer takes, and what is wrong with those it is given.

    value          string or binary; null is a tombstone
    key?           string or binary; decides the partition, as every Kafka client's does
    topic?         string, where the option `topic` does not say it for all rows
    partition?     an integer; null: by key
    headers?       array<struct<key: string, value: binary>>, as the source gives them
    timestamp?     timestamp; null: now
    priority?      string (critical … background) or an integer (0 … 4)
    deliver_at?    not visible before: timestamp, milliseconds since 1970, or RFC 3339

Kafka's connector writes what it knows and drops the rest; here the rest is refused, since somebody
took the trouble to select it.
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
SIMILAR: Final = 0.6
FROM_THE_SOURCE: Final = ("offset", "timestampType")  # read with a message, and not to be written
SYNONYMS: Final = {"ts": "timestamp", "time": "timestamp", "body": "value", "payload": "value"}


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


def schema_problems(schema: StructType, *, has_topic: bool) -> list[str]:
    """Everything that is wrong with the columns; `has_topic`: the option says where rows go."""
    names = [field.name for field in schema.fields]
    problems = [
        f"column {name!r} is there twice" for name in sorted(set(names)) if names.count(name) > 1
    ]
    if "value" not in names:
        problems.append(
            "there is no column 'value' (string or binary); to write whole rows as JSON:"
            " select to_json(struct(*)) as value"
        )
    if not has_topic and "topic" not in names:
        problems.append("which topic? Give the option 'topic', or a column 'topic'")
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None:
            problems.append(_unknown(field.name))
        elif not column.accepts(field.dataType):
            problems.append(
                f"column {field.name!r} is {field.dataType.simpleString()}, wanted is"
                f" {column.wanted}: {column.remedy}"
            )
    return problems


def _unknown(name: str) -> str:
    if name in FROM_THE_SOURCE:
        return f"column {name!r} is the broker's to give: leave it out, df.drop({name!r})"
    similar = difflib.get_close_matches(name.lower(), COLUMNS, n=1, cutoff=SIMILAR)
    meant = SYNONYMS.get(name.lower()) or (similar[0] if similar else None)
    hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(COLUMNS)}."
    return f"column {name!r} is not known: {hint} What else a message says belongs in its value"
