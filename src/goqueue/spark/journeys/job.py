"""Makes a report of journeys: times between steps, what became of deliveries, the slowest."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.spark.journeys import measures
from goqueue.spark.journeys.events import read_events
from goqueue.spark.journeys.options import DAY_MS, JourneyOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Row = dict[str, Any]


class JourneyFigures(msgspec.Struct, frozen=True):
    latencies: list[Row]
    """By step, topic and group: messages, percentiles and the longest, in milliseconds."""
    steps: list[Row]
    """By topic, group and event: how many messages."""
    slowest: list[Row]
    """End to end: where the messages are, for `goqueue trace`."""


def make_journeys(
    session: "SparkSession", connect: Mapping[str, Any], options: JourneyOptions
) -> JourneyFigures:
    """`connect` are the arguments of a `Client`."""
    to_ms = options.to_ms or int(time.time() * 1000)
    from_ms = to_ms - DAY_MS if options.from_ms is None else options.from_ms
    events = read_events(session, connect, options.topics, from_ms, to_ms).cache()
    observed = (
        events.groupBy("topic", "partition")
        .applyInArrow(measures.observe_table, measures.SCHEMA)
        .cache()
    )
    try:
        return JourneyFigures(
            _rows(latencies(observed)), _rows(steps(events)), _rows(slowest(observed, options))
        )
    finally:
        observed.unpersist()
        events.unpersist()


def latencies(observed: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as sql

    took, messages = sql.col("took_ms"), sql.col("messages")
    return (
        observed.groupBy("step", "topic", "group")
        .agg(
            sql.sum(messages).alias("messages"),
            *(
                sql.percentile(took, share, messages).alias(f"{name}_ms")
                for name, share in SHARES.items()
            ),
            sql.max(took).alias("max_ms"),
        )
        .orderBy("topic", "group", "step")
    )


def steps(events: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as sql

    count = sql.when(sql.col("first") < 0, 1).otherwise(sql.col("last") - sql.col("first") + 1)
    return (
        events.where("event not in ('leader.changed', 'group.rebalanced', 'trace.linked')")
        .groupBy("topic", "group", "event")
        .agg(sql.sum(count).alias("messages"))
        .orderBy("topic", "group", "event")
    )


def slowest(observed: "DataFrame", options: JourneyOptions) -> "DataFrame":
    from pyspark.sql import functions as sql

    return (
        observed.where("step = 'end_to_end'")
        .orderBy(sql.col("took_ms").desc(), "topic", "partition", "offset")
        .select("topic", "partition", "offset", "group", "messages", "took_ms")
        .limit(options.slowest)
    )


def write_journeys(figures: JourneyFigures, directory: Path) -> list[Path]:
    """A Parquet file a table; none for a table without rows."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, rows in msgspec.structs.asdict(figures).items():
        path = directory / f"{name}.parquet"
        path.unlink(missing_ok=True)
        if rows:
            parquet.write_table(pa.Table.from_pylist(rows), path)
            written.append(path)
    return written


def _rows(frame: "DataFrame") -> list[Row]:
    return [row.asDict() for row in frame.collect()]
