"""The columns of a topic as Arrow's types."""

from collections.abc import Sequence
from enum import IntEnum

import pyarrow as pa

from goqueue.model.errors import InvalidSetting
from goqueue.spark.topic_columns import BATCH_COLUMNS, HEADERS, RECORD_COLUMNS

HEADER_TYPE = pa.struct([("key", pa.string()), ("value", pa.binary())])

ARROW_TYPES = {
    "binary": pa.binary(),
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    HEADERS: pa.list_(HEADER_TYPE),
}
COLUMN_TYPES = {name: ARROW_TYPES[kind] for name, kind in RECORD_COLUMNS.items()}
BATCH_SCHEMA = pa.schema(
    [(name, ARROW_TYPES[kind]) for name, kind in BATCH_COLUMNS.items() if name != "topic"]
)


class Depth(IntEnum):
    """How far into each record must be read."""

    HEADS = 0
    KEYS = 1
    VALUES = 2
    HEADERS = 3


def depth_for(columns: Sequence[str]) -> Depth:
    depths = {"key": Depth.KEYS, "value": Depth.VALUES, "headers": Depth.HEADERS}
    return max((depths.get(name, Depth.HEADS) for name in columns), default=Depth.HEADS)


def schema_for(columns: Sequence[str]) -> pa.Schema:
    """The columns in the order asked for; raises `InvalidSetting`."""
    unknown = [name for name in columns if name not in COLUMN_TYPES]
    if unknown:
        raise InvalidSetting(
            f"no column {', '.join(map(repr, unknown))}: a topic has {', '.join(COLUMN_TYPES)}"
        )
    if len(set(columns)) < len(columns):
        raise InvalidSetting(f"a column is named twice: {', '.join(columns)}")
    return pa.schema([(name, COLUMN_TYPES[name]) for name in columns])
