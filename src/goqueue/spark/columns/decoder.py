"""Fetched bytes to Arrow, a decoder a partition."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from goqueue.model.batch import Buffer
from goqueue.spark.columns import engines
from goqueue.spark.columns.arrays import header_lists, plain_array, timestamp_array
from goqueue.spark.columns.blocks import Aborted, Blocks, Walk, collect
from goqueue.spark.columns.fields import Fields
from goqueue.spark.columns.layout import BATCH_SCHEMA, COLUMN_TYPES, depth_for, schema_for


class Decoded(NamedTuple):
    """Rows, and where to go on."""

    batch: pa.RecordBatch
    next_offset: int  # the first that is not dealt with
    more: bool  # the same bytes hold more: decode them again from `next_offset`


class Decoder:
    """Makes rows of one partition's batches, with the columns asked for, in that order.

    What is not asked for is not looked at: two small columns take a fraction of the time.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        columns: tuple[str, ...],
        *,
        engine: engines.Engine | None = None,
    ) -> None:
        """Raises `InvalidSetting` for a column that a topic does not have."""
        self.schema = schema_for(columns)
        self._engine = engine or engines.choose()
        self._depth = depth_for(columns)
        self._with_timestamps = "timestamp" in columns
        self._topic = _Constant(partial(_repeated_text, topic))
        self._partition = _Constant(partial(_repeated_number, partition))

    def decode(
        self,
        raw: Buffer,
        *,
        start: int,
        end: int,
        aborted: Aborted = (),
        read_committed: bool = True,
    ) -> Decoded:
        """The records from offset `start` up to, not with, `end` in the whole batches of `raw`.

        `aborted` has the producer id and first offset of each aborted transaction, as a fetch
        tells them.  Raises `CorruptBatch`, `UnsupportedBatch` or `BatchTooLarge`.
        """
        walk = Walk(raw, start=start, end=end, aborted=aborted, read_committed=read_committed)
        blocks, more = collect(raw, walk)
        if not blocks.rows:
            return Decoded(
                pa.RecordBatch.from_arrays(
                    [pa.nulls(0, kind) for kind in self.schema.types], schema=self.schema
                ),
                walk.next_offset,
                more,
            )
        fields = self._engine.scan(blocks, self._depth, with_timestamps=self._with_timestamps)
        first, last = np.searchsorted(fields.offsets, (start, end)).tolist()
        columns = [self._column(name, blocks, fields) for name in self.schema.names]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Decoded(batch.slice(first, last - first), walk.next_offset, more)

    def _column(self, name: str, blocks: Blocks, fields: Fields) -> Any:
        match name:
            case "key":
                assert fields.keys is not None, "the depth says so"
                return self._engine.gather(blocks.octets, fields.keys)
            case "value":
                assert fields.values is not None, "the depth says so"
                return self._engine.gather(blocks.octets, fields.values)
            case "topic":
                return self._topic.array(blocks.rows)
            case "partition":
                return self._partition.array(blocks.rows)
            case "offset":
                return plain_array(fields.offsets, COLUMN_TYPES["offset"])
            case "timestamp":
                assert fields.timestamps is not None, "it was asked for"
                return timestamp_array(fields.timestamps)
            case "timestampType":
                return plain_array(_timestamp_types(blocks), COLUMN_TYPES["timestampType"])
            case "headers":
                assert fields.headers is not None, "the depth says so"
                names = self._engine.gather(blocks.octets, fields.headers.names)
                values = self._engine.gather(blocks.octets, fields.headers.values)
                return header_lists(fields.headers.lists, names, values)
            case _:
                raise AssertionError(name)


def decode_batches(
    raw: Buffer,
    *,
    partition: int,
    start: int,
    end: int,
    aborted: Aborted = (),
    read_committed: bool = True,
) -> Decoded:
    """A row for each batch whose last offset is in the range, with its bytes as they are.

    A batch is never cut.  Counted by its last offset it falls into one of two ranges that meet
    inside it, and is not lost to a reader that starts there.
    """
    walk = Walk(raw, start=start, end=end, aborted=aborted, read_committed=read_committed)
    headers = [header for header in walk if header.last_offset < end]
    view = memoryview(raw)
    columns = [
        [partition] * len(headers),
        [header.base_offset for header in headers],
        [header.last_offset for header in headers],
        timestamp_array(np.array([header.max_timestamp for header in headers], np.int64)),
        [header.count for header in headers],
        [view[header.position : header.end] for header in headers],
    ]
    arrays = [pa.array(each, kind) for each, kind in zip(columns, BATCH_SCHEMA.types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=BATCH_SCHEMA)
    return Decoded(batch, walk.next_offset, more=False)


class _Constant:
    """A column of one value, made once and cut to length."""

    def __init__(self, repeated: Callable[[int], pa.Array]) -> None:
        self._repeated = repeated
        self._longest = repeated(0)

    def array(self, rows: int) -> Any:
        if rows > len(self._longest):
            self._longest = self._repeated(rows)
        return self._longest.slice(0, rows)


def _repeated_number(value: int, rows: int) -> pa.Array:
    return plain_array(np.full(rows, value, np.int32), pa.int32())


def _repeated_text(text: str, rows: int) -> pa.Array:
    octets = text.encode()
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(octets))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(octets * rows)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def _timestamp_types(blocks: Blocks) -> npt.NDArray[np.int32]:
    block = blocks.columns()
    return np.repeat(block.timestamp_type.astype(np.int32), block.records)
