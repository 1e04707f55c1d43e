"""A plan's sinks as streaming queries: one for each, with a checkpoint of its own.

Every topic gets its rows exactly once.  In append mode Spark's stream writer does it.  A stream
writer cannot update, so the other modes go through `foreachBatch` (`sink/each_batch.py`).
"""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from goqueue.spark.archive.job import archive
from goqueue.spark.archive.options import ArchiveOptions
from goqueue.spark.pipelines.checks import AVAILABLE_NOW
from goqueue.spark.pipelines.frames import option_texts, spark_interval
from goqueue.spark.pipelines.lineage import lineage_of
from goqueue.spark.pipelines.model import (
    ArchiveSink,
    ConsoleSink,
    FileSink,
    Pipeline,
    TableSink,
    TopicSink,
    TopicSource,
)
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.planning import Plan, PlannedSink
from goqueue.spark.runtime.lineage import lineage_of_session
from goqueue.spark.runtime.query import Query
from goqueue.spark.runtime.restarting_query import RestartingQuery
from goqueue.spark.sink.each_batch import save_to
from goqueue.spark.sql.rows import plain_rows
from goqueue.spark.upserts.job import merge_into
from goqueue.spark.upserts.upserter import UpsertSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# Told the sink's name, the batch's number, and rows as mappings.
Show = Callable[[str, int, list[dict[str, Any]]], None]
BEGIN_SECONDS: Final = 15.0
BEGIN_POLL_SECONDS: Final = 0.05


class Starter:
    """Starts the queries of one pipeline."""

    def __init__(self, spark: Any, pipeline: Pipeline, places: Places, show: Show) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._places = places
        self._show = show

    def start(self, plan: Plan, *, once: bool) -> list[RestartingQuery]:
        """`once`: process what is there and end, whatever the file says."""
        queries: list[RestartingQuery] = []
        self._declare_lineage(plan)
        for each in plan.sinks:
            queries.append(RestartingQuery(partial(self._start, each, once=once)))
            let_begin(queries[-1])
        return queries

    def _start(self, planned: PlannedSink, *, once: bool) -> Query:
        trigger = AVAILABLE_NOW if once else planned.sink.trigger or self._pipeline.trigger
        if isinstance(planned.sink, ArchiveSink):
            return self._archive(planned, planned.sink, trigger)
        writer = self._writer(planned).queryName(self._query_name(planned))
        writer = writer.option("checkpointLocation", self._places.checkpoint(planned.name))
        if trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=spark_interval(trigger))
        return writer.start()

    def _declare_lineage(self, plan: Plan) -> None:
        """Where rows come from and go to, for whoever asked for that."""
        listener = lineage_of_session(self._spark)
        if listener is None:
            return
        for each in plan.sinks:
            frames, output = plan.views, each.output
            lineage = lineage_of(self._pipeline, each.sink, self._places, frames, output)
            listener.declare(self._query_name(each), lineage)

    def _query_name(self, planned: PlannedSink) -> str:
        return f"{self._pipeline.name}.{planned.name}"

    def _archive(self, planned: PlannedSink, sink: ArchiveSink, trigger: str | None) -> Query:
        """A job of its own: it takes the source's messages before anything looks into them."""
        source = self._pipeline.sources[sink.from_]
        assert isinstance(source, TopicSource), "checked when the file was read"
        options = ArchiveOptions(
            bootstrap=self._places.bootstrap,
            topics=() if source.pattern else (*source.topics,) or (source.topic or "",),
            pattern=source.pattern,
            target=self._places.path(sink.archive),
            format=sink.format,
            catalog=sink.catalog,
            decode=_decode(source) if sink.decode else "none",
            fields=source.schema if sink.decode else None,
            start="latest" if source.from_ == "latest" else "earliest",
            checkpoint=self._places.checkpoint(planned.name),
            name=self._query_name(planned),
            source=self._places.broker_options(),
        )
        if trigger is not None:
            chosen = trigger if trigger == AVAILABLE_NOW else spark_interval(trigger)
            options = msgspec.structs.replace(options, trigger=chosen)
        return archive(planned.rows.sparkSession, options)

    def _writer(self, planned: PlannedSink) -> "DataStreamWriter":
        stream: DataStreamWriter = planned.output.writeStream.outputMode(planned.mode)
        match planned.sink:
            case TopicSink() as sink:
                options = self._topic_options(sink)
                if sink.mode == "append":
                    return stream.format("goqueue").options(**options)
                place = {"checkpointLocation": self._places.checkpoint(planned.name)}
                return stream.foreachBatch(save_to(options | place))
            case FileSink() as sink:
                writer = stream.format(sink.format).options(**option_texts(sink.options))
                return writer.option("path", self._places.path(sink.files)).partitionBy(
                    *sink.partition_by
                )
            case TableSink() as sink:
                return stream.foreachBatch(merge_into(self._upserts(planned, sink)))
            case ConsoleSink() as sink:
                return stream.foreachBatch(_show_batch(planned.name, sink.console, self._show))
            case ArchiveSink():
                raise AssertionError("has a job of its own")

    def _upserts(self, planned: PlannedSink, sink: TableSink) -> UpsertSettings:
        return UpsertSettings(
            target=self._places.path(sink.table),
            keys=tuple(sink.keys),
            format=sink.format,
            catalog=sink.catalog,
            history=sink.history,
            has_times=planned.has_times,
        )

    def _topic_options(self, sink: TopicSink) -> dict[str, str]:
        return {
            **self._places.broker_options(),
            "topic": sink.topic,
            **({"value.format": "registry"} if sink.format == "registry" else {}),
            **({"value.subject": sink.subject} if sink.subject is not None else {}),
            **option_texts(sink.options),
        }


def _decode(source: TopicSource) -> Literal["json", "registry"]:
    return "registry" if source.format == "registry" else "json"


def let_begin(query: Query) -> None:
    """Until its sources are there: each begins with a few Python processes, and many at a time
    may not answer Spark as soon as it wants."""
    deadline = time.monotonic() + BEGIN_SECONDS
    while query.isActive and query.status["message"].startswith("Initializing"):
        if time.monotonic() > deadline:
            return
        time.sleep(BEGIN_POLL_SECONDS)


def _show_batch(name: str, rows_max: int, show: Show) -> "Callable[[DataFrame, int], None]":
    def write(rows: "DataFrame", batch: int) -> None:
        show(name, batch, first_rows(rows, rows_max))

    return write


def first_rows(rows: "DataFrame", count: int) -> list[dict[str, Any]]:
    """Some rows of a micro-batch, all of which is read: a limit alone would leave partitions
    unread, and their state unwritten."""
    kept = rows.persist()
    try:
        kept.count()
        return plain_rows(kept.limit(count).collect())
    finally:
        kept.unpersist()
