"""The columns of a topic, named and typed as Spark's Kafka source has them."""

from collections.abc import Sequence
from enum import IntEnum

import pyarrow as pa

from goqueue.model.errors import InvalidSetting

HEADER_TYPE = pa.struct([("key", pa.string()), ("value", pa.binary())])

COLUMN_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),  # 0: the producer's time, 1: the broker's at append
    "headers": pa.list_(HEADER_TYPE),  # null, not empty, when a record has none
}

# One row for each record batch, with its bytes as they were fetched.
BATCH_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("baseOffset", pa.int64()),
        ("lastOffset", pa.int64()),
        ("maxTimestamp", pa.timestamp("us", tz="UTC")),
        ("records", pa.int32()),
        ("batch", pa.binary()),
    ]
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
