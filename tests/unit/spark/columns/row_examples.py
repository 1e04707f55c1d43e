"""Rows for tests, made of records."""

from typing import Any

import pyarrow as pa

from goqueue.model.record import Record
from goqueue.model.records import encode_records
from goqueue.spark.columns import COLUMN_TYPES

ROW_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("headers", COLUMN_TYPES["headers"]),
    ]
)


def rows_from(records: list[Record]) -> Any:
    columns = [
        [record.key for record in records],
        [record.value for record in records],
        pa.array([record.timestamp for record in records], pa.int64()).cast(
            ROW_SCHEMA.field("timestamp").type
        ),
        [[{"key": name, "value": value} for name, value in record.headers] for record in records],
    ]
    arrays = [pa.array(each, kind) for each, kind in zip(columns, ROW_SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)


def limit_above(records: list[Record], limit: int) -> int:
    """A limit on batches that none of the records exceeds by itself."""
    return max(limit, 100 + max(len(encode_records([record])) for record in records))
