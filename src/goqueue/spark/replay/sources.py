"""The rows of a window, with the columns of a record, from an archive or from a topic."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from goqueue.client.kafka import EARLIEST, LATEST, KafkaClient
from goqueue.spark.archive.tables import ArchiveTable
from goqueue.spark.lake.roots import is_remote
from goqueue.spark.replay.objects import Reading, read_objects
from goqueue.spark.replay.options import Choice
from goqueue.spark.replay.plans import ReplayRefused
from goqueue.spark.replay.windows import Span, Spans

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession

RECORD: Final = ("key", "value", "partition", "offset", "timestamp", "headers")
PLACE: Final = ("partition", "offset", "timestamp")


class ReplaySource(Protocol):
    def spans(self) -> dict[int, Span]:
        """Where the chosen messages lie, with others between them."""

    def rows(self, spans: Spans) -> "DataFrame":
        """The chosen messages within, as `RECORD`."""

    def times(self, spans: Spans) -> "DataFrame":
        """The column `timestamp` of messages within; `where` does not matter."""


class ArchiveSource:
    """A table of an archive: also what the topic has long lost."""

    def __init__(self, session: "SparkSession", archive: ArchiveTable, choice: Choice) -> None:
        if archive.column("value") not in archive.schema.names:
            raise ReplayRefused(
                f"{archive.table.location} was archived without keeping values as they were:"
                " there is nothing to replay"
            )
        self._session, self._archive, self._choice = session, archive, choice

    def spans(self) -> dict[int, Span]:
        from pyspark.sql import functions as sql

        partition, offset = self._name("partition"), self._name("offset")
        timed = self._table(PLACE).where(_in_time(self._choice, self._name("timestamp")))
        found = timed.groupBy(partition).agg(sql.min(offset), sql.max(offset)).collect()
        spans = {row[0]: Span(row[1], row[2] + 1) for row in found}
        return self._choice.narrow(spans)

    def rows(self, spans: Spans) -> "DataFrame":
        from pyspark.sql import functions as sql

        table = self._within(spans, RECORD if self._choice.where is None else None)
        if self._choice.where is not None:
            table = table.where(self._choice.where)
        return table.select(*(sql.col(self._name(each)).alias(each) for each in RECORD))

    def times(self, spans: Spans) -> "DataFrame":
        from pyspark.sql import functions as sql

        rows = self._within(spans, PLACE)
        return rows.select(sql.col(self._name("timestamp")).alias("timestamp"))

    def _within(self, spans: Spans, columns: Sequence[str] | None) -> "DataFrame":
        table = self._table(columns, spans).where(_in_time(self._choice, self._name("timestamp")))
        return table.where(_within(spans, self._name("partition"), self._name("offset")))

    def _table(self, columns: Sequence[str] | None, spans: Spans | None = None) -> "DataFrame":
        """The files that are in the table now, without those of other days.

        Spark finds out by itself which columns and row groups it needs; of an object store it must
        be said: `columns` of records (None: all), and offsets.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        first, last = _day(self._choice.from_ms), _day(self._choice.until_ms)
        files = self._archive.files_between(first, last)
        root = self._archive.table.location
        schema = from_arrow_schema(self._archive.schema)
        if not files:
            return self._session.createDataFrame([], schema)
        paths = [each.path for each in files]
        if is_remote(root):
            return read_objects(self._session, paths, self._reading(root, columns, spans))
        return self._session.read.schema(schema).parquet(*(f"{root}/{each}" for each in paths))

    def _reading(self, root: str, columns: Sequence[str] | None, spans: Spans | None) -> Reading:
        import pyarrow as pa

        schema = self._archive.schema
        if columns is not None:
            schema = pa.schema([schema.field(self._name(each)) for each in columns])
        return Reading(
            root,
            schema.serialize().to_pybytes(),
            self._name("offset"),
            first=min((each.start for each in spans.values()), default=None) if spans else None,
            last=max((each.end - 1 for each in spans.values()), default=None) if spans else None,
        )

    def _name(self, column: str) -> str:
        return self._archive.column(column)


class TopicSource:
    """A range of a topic."""

    def __init__(self, session: "SparkSession", bootstrap: str, topic: str, choice: Choice) -> None:
        self._session, self._bootstrap, self._topic, self._choice = (
            session,
            bootstrap,
            topic,
            choice,
        )

    def spans(self) -> dict[int, Span]:
        with KafkaClient(self._bootstrap) as client:
            places = client.metadata([self._topic])[self._topic].partitions
            from_ms = EARLIEST if self._choice.from_ms is None else self._choice.from_ms
            starts = client.list_offsets(dict.fromkeys(places, from_ms))
            ends = client.list_offsets(dict.fromkeys(places, LATEST))
        spans = {
            each.partition: Span(starts[each].offset, ends[each].offset)
            for each in places
            if starts[each].offset >= 0
        }
        return self._choice.narrow(spans)

    def rows(self, spans: Spans) -> "DataFrame":
        rows = self._read(spans).load().where(_in_time(self._choice, "timestamp"))
        if self._choice.where is not None:
            rows = rows.where(self._choice.where)
        return rows.select(*RECORD)

    def times(self, spans: Spans) -> "DataFrame":
        rows = self._read(spans).schema("timestamp timestamp").load()
        return rows.where(_in_time(self._choice, "timestamp"))

    def _read(self, spans: Spans) -> "DataFrameReader":
        starts = {str(partition): each.start for partition, each in spans.items()}
        ends = {str(partition): each.end for partition, each in spans.items()}
        reader = self._session.read.format("goqueue").option("bootstrap.servers", self._bootstrap)
        reader = reader.option("assign", _json({self._topic: sorted(spans)}))
        reader = reader.option("startingOffsets", _json({self._topic: starts}))
        reader = reader.option("endingOffsets", _json({self._topic: ends}))
        return reader.option("includeHeaders", "true")


def _in_time(choice: Choice, column: str) -> "Column":
    from pyspark.sql import functions as sql

    held = sql.lit(True)
    if choice.from_ms is not None:
        held &= sql.col(column) >= sql.timestamp_millis(sql.lit(choice.from_ms))
    if choice.until_ms is not None:
        held &= sql.col(column) < sql.timestamp_millis(sql.lit(choice.until_ms))
    return held


def _within(spans: Spans, partition: str, offset: str) -> "Column":
    """The outer bounds too, by themselves: row groups are left out by them."""
    from pyspark.sql import functions as sql

    each = [
        (sql.col(partition) == number) & sql.col(offset).between(span.start, span.end - 1)
        for number, span in spans.items()
    ]
    lowest = min(span.start for span in spans.values())
    highest = max(span.end for span in spans.values())
    outer = sql.col(offset).between(lowest, highest - 1)
    return outer & reduce(lambda one, other: one | other, each)


def _day(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return moment.date().isoformat()


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
