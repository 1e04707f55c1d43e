"""`goqueue pipeline archive`: topics as tables of a lake, exactly once, from the start and on.

    query = archive(session, ArchiveOptions(bootstrap="localhost:9092", topics=("orders",),
                                            target="lake", format="delta", decode="json"))
    query.awaitTermination()

Each micro-batch is written by tasks and committed by the driver (`goqueue.spark.archive`).  How far
an archive is stands in its tables; Spark's checkpoint is only a short cut.  When it is lost, the
stream goes on where the tables end.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.client.errors import ClientError
from goqueue.client.kafka import KafkaClient
from goqueue.spark.archive.archiver import Archiver, ArchiveSettings, TopicFacts
from goqueue.spark.archive.options import ArchiveOptions
from goqueue.spark.archive.plan import Plan, Report
from goqueue.spark.archive.tables import CHECKPOINT, format_of
from goqueue.spark.lake.roots import StoreError, base_name, is_remote, join, normalize
from goqueue.spark.lake.writing import WriteSettings
from goqueue.spark.runtime.query import StandInQuery
from goqueue.spark.source.option_texts import LOGIN_NAMES, Given
from goqueue.spark.source.options import source_options
from goqueue.spark.source.read_plan import ReadPlan, read_plan_for
from goqueue.spark.source.value_plan import ValuePlan, find_plan
from goqueue.spark.topic_columns import RECORD_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


CHECKPOINTS: Final = "checkpoints"
AVAILABLE_NOW: Final = "available-now"
TIMEOUT_SECONDS: Final = 30.0
COUNTS_KEPT: Final = 200  # Spark keeps the last hundred reports of a query


class BadArchiveOptions(ClientError):
    """What an archive was told cannot be."""


def archive(session: "SparkSession", options: ArchiveOptions) -> "ArchiveQuery":
    """Start it; gives the running query."""
    problem = check_options(options)
    if problem is not None:
        raise BadArchiveOptions(problem)
    _check_formats(options)
    values = partial(topic_values, options) if options.decode == "registry" else None
    job = Archiver(_settings(options), partial(topic_facts, options), values)
    job.meet(options.topics)
    chosen = _source(options, _start(job, options))
    rows = session.readStream.format("goqueue").options(**chosen).load()
    writer = rows.writeStream.queryName(options.name or f"archive-{base_name(options.target)}")
    counts = Counts()
    writer = writer.option("checkpointLocation", _checkpoint(options))
    writer = writer.foreachBatch(into(job, counts, _read_plan(chosen)))
    return ArchiveQuery(_set_trigger(writer, options.trigger).start(), counts)


class Counts:
    """How many records there were in the newest micro-batches."""

    def __init__(self) -> None:
        self._records: dict[int, int] = {}

    def note(self, batch: int, records: int) -> None:
        self._records[batch] = records
        self._records.pop(batch - COUNTS_KEPT, None)

    def correct(self, report: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """A report of Spark's, which has counted ranges, with records instead."""
        if report is None or not report["numInputRows"]:
            return report
        records = self._records.get(report["batchId"], report["numInputRows"])
        seconds = max(report.get("batchDuration") or 0, 1) / 1000
        rate = {"processedRowsPerSecond": records / seconds}
        return {**report, "numInputRows": records, **rate}


class ArchiveQuery(StandInQuery):
    """Spark's query, but for its counts."""

    def __init__(self, query: "StreamingQuery", counts: Counts) -> None:
        super().__init__(query)
        self._counts = counts

    @property
    def lastProgress(self) -> Mapping[str, Any] | None:  # noqa: N802 -- Spark's name
        return self._counts.correct(self.query.lastProgress)

    @property
    def recentProgress(self) -> Sequence[Mapping[str, Any]]:  # noqa: N802 -- Spark's name
        reports = map(self._counts.correct, self.query.recentProgress)
        return [each for each in reports if each is not None]


def into(
    job: Archiver, counts: Counts | None = None, read_plan: ReadPlan | None = None
) -> "Callable[[DataFrame, int], None]":
    """What `foreachBatch` takes, for any stream of rows of topics: with all eight columns of
    records, with those of whole batches, or of ranges, which tasks read by the read_plan."""

    def archive_batch(rows: "DataFrame", batch: int) -> None:
        done = job.archive(lambda plan: run_tasks(rows, plan, read_plan))
        if counts is not None:
            counts.note(batch, done.rows + done.dlq)

    return archive_batch


def run_tasks(rows: "DataFrame", plan: Plan, read_plan: ReadPlan | None = None) -> Iterable[Report]:
    """One report a task, in the order of their rows."""
    from goqueue.spark.archive import tasks

    found = rows.mapInArrow(partial(tasks.run, plan, read_plan), "report binary").collect()
    return [msgspec.msgpack.decode(each["report"], type=Report) for each in found]


def topic_facts(options: ArchiveOptions, topic: str) -> TopicFacts:
    login = Given(options.source, LOGIN_NAMES).login()
    with KafkaClient(options.bootstrap, timeout_s=TIMEOUT_SECONDS, login=login) as client:
        layout = client.metadata([topic])[topic]
    return TopicFacts(str(layout.topic_id), layout.partition_count)


def topic_values(options: ArchiveOptions, topic: str) -> ValuePlan:
    """By which schema the values of a topic are, now; raises `NoSchema`."""
    told = {"bootstrap.servers": options.bootstrap, **options.source, "subscribe": topic}
    chosen = source_options({**told, "value.format": "registry"}, is_stream=True)
    assert chosen.values is not None, "that is what was said"
    return find_plan(chosen, chosen.values)


def check_target(target: str) -> None:
    """Raise `StoreError` when there is no such bucket, or no way to it."""
    from goqueue.spark.lake.store import Store

    Store(target).check()


def check_options(options: ArchiveOptions) -> str | None:
    """Everything that is wrong with them."""
    problems = []
    if bool(options.topics) == (options.pattern is not None):
        problems.append("name topics, or give a pattern")
    if options.decode != "json" and options.fields is not None:
        problems.append("fields are of decoded JSON values: choose to decode json, too")
    if options.decode == "none" and not options.keep_value:
        problems.append("a value that is not decoded must be kept")
    if options.start not in ("earliest", "latest"):
        problems.append(f"an archive starts at earliest or latest, not at {options.start!r}")
    if options.catalog is not None and options.format != "iceberg":
        problems.append("a catalog is of Iceberg: choose that format, too")
    try:
        if is_remote(normalize(options.target)) and options.format == "iceberg":
            problems += [] if options.catalog else ["Iceberg at a URL needs a catalog: name one"]
    except StoreError as error:
        problems.append(str(error))
    return "; ".join(problems) or None


def _check_formats(options: ArchiveOptions) -> None:
    """Two formats in one folder: readers would take one for the other."""
    for topic in options.topics:
        place = join(options.target, topic)
        there = format_of(place)
        if there not in (None, options.format):
            raise BadArchiveOptions(
                f"{place} is a {there} table: archive into another folder, or as {there}"
            )


def _settings(options: ArchiveOptions) -> ArchiveSettings:
    return ArchiveSettings(
        target=options.target,
        format=options.format,
        catalog=options.catalog,
        decode=options.decode != "none",
        fields=None if options.fields is None else _fields(options.fields),
        keep_value=options.keep_value,
        writing=WriteSettings(compression=options.compression, file_bytes_max=options.file_bytes),
    )


def _fields(text: str) -> bytes:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    from goqueue.spark.archive.columns import PREFIX
    from goqueue.spark.lake.growth import objections, plain_schema

    try:
        fields = StructType.fromDDL(text)
        assert isinstance(fields, StructType), "a list of columns is a struct"
        schema = plain_schema(to_arrow_schema(fields, timezone="UTC"))
    except PySparkException as error:
        raise BadArchiveOptions(f"fields {text!r}: {error}") from error
    problems = objections(schema, reserved_prefix=PREFIX)
    if problems:
        told = "; ".join(f"{name}: {reason}" for name, reason in problems.items())
        raise BadArchiveOptions(f"fields {text!r}: {told}")
    return bytes(schema.serialize().to_pybytes())


def _start(job: Archiver, options: ArchiveOptions) -> str:
    """Where a stream without a checkpoint begins: where the tables end, if there are any."""
    positions = job.positions()
    if not any(any(each.values()) for each in positions.values()):
        return options.start
    nothing_yet = {"earliest": -2, "latest": -1}[options.start]  # as Kafka's connector writes it
    wanted = {
        topic: {str(partition): offset or nothing_yet for partition, offset in each.items()}
        for topic, each in positions.items()
    }
    return msgspec.json.encode(wanted).decode()


def _source(options: ArchiveOptions, start: str) -> dict[str, str]:
    """Only ranges go through Spark: the tasks that write fetch the records themselves."""
    chosen = {
        "bootstrap.servers": options.bootstrap,
        "startingOffsets": start,
        "maxBytesPerTrigger": str(options.batch_bytes),
        "unit": "range",
        **options.source,
    }
    if options.pattern is None:
        chosen["subscribe"] = ",".join(options.topics)
    else:
        chosen["subscribePattern"] = options.pattern
    return chosen


def _read_plan(chosen: Mapping[str, str]) -> ReadPlan:
    """How the source would read records, with all columns."""
    told = source_options({**chosen, "unit": "record"}, is_stream=True)
    return read_plan_for(told, list(RECORD_COLUMNS.items()))


def _checkpoint(options: ArchiveOptions) -> str:
    """One for each choice of topics: a stream cannot go on with others than it began with.

    Spark itself reaches no object store without jars, and the tables say how far they are.
    """
    if options.checkpoint is not None:
        return options.checkpoint
    target = normalize(options.target)
    topics = options.pattern or ",".join(sorted(options.topics))
    digest = hashlib.sha256(f"{target} {options.format} {topics}".encode()).hexdigest()[:12]
    if not is_remote(target):
        return str(Path(target) / f"{CHECKPOINT}-{digest}")
    return str(Path(CHECKPOINTS).absolute() / f"archive-{base_name(target)}-{digest}")


def _set_trigger(writer: "DataStreamWriter", trigger: str) -> "DataStreamWriter":
    if trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=trigger)
