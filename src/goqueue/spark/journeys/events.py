"""The history of events, as a DataFrame: executors ask the broker for slices of time.

The broker reads `__traces` wherever it is, a topic in a cluster and a log on a single server.  An
answer has the newest events of a slice; a slice that holds more is asked for in two halves.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.api.traces import TraceEventBody
from goqueue.client import Client

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SLICES_MAX: Final = 64
SLICE_MS_MIN: Final = 10_000
SCHEMA: Final = (
    "time_us bigint, event string, topic string, partition int, first bigint, last bigint,"
    " space string, node int, `group` string, member string, client string, address string,"
    " duration_us bigint, attempt int, error string, detail string"
)


def read_events(
    session: "SparkSession",
    connect: Mapping[str, Any],
    topics: Sequence[str],
    from_ms: int,
    to_ms: int,
) -> "DataFrame":
    """`connect` are the arguments of a `Client`: executors make their own."""
    slices = make_slices(from_ms, to_ms)
    asked = [(start, end, topic) for start, end in slices for topic in topics or ("",)]
    frame = session.createDataFrame(asked, "start_ms bigint, end_ms bigint, topic string")
    return frame.repartition(max(1, len(slices))).mapInArrow(_reader(dict(connect)), SCHEMA)


def make_slices(from_ms: int, to_ms: int) -> list[tuple[int, int]]:
    """From the first on, and before the second."""
    length = max(SLICE_MS_MIN, -(-(to_ms - from_ms) // SLICES_MAX))
    return [(at, min(at + length, to_ms)) for at in range(from_ms, to_ms, length)]


def _reader(
    connect: dict[str, Any],
) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    def read(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        with Client(**connect) as client:
            for batch in batches:
                for row in batch.to_pylist():
                    for events in ask(client, row["start_ms"], row["end_ms"], row["topic"]):
                        yield to_arrow(events)

    return read


def ask(client: Client, start_ms: int, end_ms: int, topic: str) -> Iterator[list[TraceEventBody]]:
    """All events of a slice of time, in the order of time."""
    page = client.trace_events(start=start_ms, end=end_ms - 1, topic=topic or None)
    if page.whole or end_ms - start_ms <= 1:
        yield page.events
        return
    middle = (start_ms + end_ms) // 2
    yield from ask(client, start_ms, middle, topic)
    yield from ask(client, middle, end_ms, topic)


def to_arrow(events: Sequence[TraceEventBody]) -> "pa.RecordBatch":
    import pyarrow as pa

    rows = [msgspec.structs.asdict(each) for each in events]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(SCHEMA))


def arrow_schema(columns: str) -> "pa.Schema":
    """Of columns as Spark writes them; executors have no Spark that would parse them."""
    import pyarrow as pa

    kinds = {
        "bigint": pa.int64(),
        "int": pa.int32(),
        "string": pa.string(),
        "double": pa.float64(),
    }
    pairs = (each.split() for each in columns.split(","))
    return pa.schema([(name.strip("`"), kinds[kind]) for name, kind in pairs])
