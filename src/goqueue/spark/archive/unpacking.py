"""Arrow batches from Spark as batches of records.

They may be records, or record batches as they were fetched (`unit=batch` of the source), or only
say where records are (`unit=range`): then nothing but that has gone through Spark, which would
carry the bytes from one of its Python processes to another.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np

from goqueue.spark.archive.columns import RECORD_SCHEMA
from goqueue.spark.columns import Decoder
from goqueue.spark.source.partition_reader import read
from goqueue.spark.source.plan import OffsetRange, Task
from goqueue.spark.source.read_plan import ReadPlan

HUGE: Final = 2**62
STRETCH_BYTES_MAX: Final = 32 << 20


def records_of(rows: Any, read_plan: ReadPlan | None = None) -> Iterator[Any]:
    """Batches of `RECORD_SCHEMA`; ranges are read by `read_plan`, which has all its columns."""
    if "endOffset" in rows.schema.names:
        assert read_plan is not None, "who asks for ranges says how to read them"
        yield from read(read_plan, _task(rows))
        return
    if "batch" not in rows.schema.names:
        yield rows.select(RECORD_SCHEMA.names).cast(RECORD_SCHEMA)
        return
    for topic, partition, raw in _stretches(rows):
        yield from _decode(Decoder(topic, partition, tuple(RECORD_SCHEMA.names)), raw)


def _task(rows: Any) -> Task:
    columns = rows.select(["topic", "partition", "startOffset", "endOffset"]).columns
    places = zip(*(each.to_pylist() for each in columns), strict=True)
    return tuple(OffsetRange(*each) for each in places)


def _decode(decoder: Decoder, raw: memoryview) -> Iterator[Any]:
    start, more = 0, True
    while more:
        # Control batches and aborted ones were left out when they were fetched.
        decoded = decoder.decode(raw, start=start, end=HUGE, read_committed=False)
        start, more = decoded.next_offset, decoded.more
        if decoded.batch.num_rows:
            yield decoded.batch


def _stretches(rows: Any) -> Iterator[tuple[str, int, memoryview]]:
    """The bytes of runs of batches of one partition, which lie together, in bounded pieces."""
    topics, partitions, batches = (rows.column(name) for name in ("topic", "partition", "batch"))
    _, places, content = batches.buffers()
    ends = np.frombuffer(places, np.int32)[batches.offset : batches.offset + len(batches) + 1]
    codes = topics.dictionary_encode().indices.to_numpy()
    numbers = partitions.to_numpy()
    changes = np.flatnonzero((np.diff(codes) != 0) | (np.diff(numbers) != 0)) + 1
    view = memoryview(content).cast("B")  # Arrow's bytes have a sign, which no magic has
    for first, last in pairwise([0, *changes.tolist(), len(batches)]):
        while first < last:
            limit = int(np.searchsorted(ends, ends[first] + STRETCH_BYTES_MAX, side="right")) - 1
            end = min(last, max(limit, first + 1))
            yield topics[first].as_py(), partitions[first].as_py(), view[ends[first] : ends[end]]
            first = end
