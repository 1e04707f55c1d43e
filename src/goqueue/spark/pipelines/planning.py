"""A pipeline as Spark sees it: a schema for each source and step, a frame for each sink.

Nothing is read or written here.  What Spark objects to is gathered, so that all of it is told at
once; what stands on a view that failed is left out, since it would complain about that alone.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.spark.pipelines.expectations import (
    enforce,
    expectations_of,
    rejected_messages,
    select_unmet,
    topics_of,
)
from goqueue.spark.pipelines.frames import add_watermark, source_frame, topic_frame
from goqueue.spark.pipelines.model import (
    ArchiveSink,
    BadTopic,
    ConsoleSink,
    FileSink,
    Mode,
    Pipeline,
    Sink,
    Source,
    Step,
    TableSink,
    TopicSink,
    TopicSource,
)
from goqueue.spark.pipelines.outputs import bad_messages, bytes_column, messages_from
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.tree import PipelineProblems, Problem
from goqueue.spark.runtime.causes import cause_of, errors_of_spark
from goqueue.spark.runtime.connect import is_connected
from goqueue.spark.sql.tables import BadSchema, only_bad
from goqueue.spark.upserts.changes import NoChanges, changes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NO_SUCH_TABLE: Final = "TABLE_OR_VIEW_NOT_FOUND"
COMMAND_CLASS: Final = "org.apache.spark.sql.catalyst.plans.logical.Command"


class PlannedSink(msgspec.Struct, frozen=True):
    """A query to start."""

    name: str
    sink: Sink
    rows: Any
    """As the step has them."""
    output: Any
    """As they are written."""
    source: str | None = None
    """The source whose messages an archive keeps."""
    has_times: bool = False
    """Of a table: its versions are times."""

    @property
    def mode(self) -> Mode:
        match self.sink:
            case TopicSink(mode=mode) | ConsoleSink(mode=mode) | TableSink(mode=mode):
                return mode
            case FileSink() | ArchiveSink():
                return "append"


class Plan(msgspec.Struct, frozen=True):
    views: dict[str, Any]
    """A frame for each source and step, in their order."""
    sinks: list[PlannedSink]


def plan(spark: "SparkSession", pipeline: Pipeline, places: Places) -> Plan:
    """Raises `PipelineProblems` with all that Spark objects to."""
    planner = Planner(spark, pipeline, places)
    try:
        planner.see_sources()
        planner.see_steps()
        sinks = [*planner.sinks(), *planner.sinks_of_bad(), *planner.sinks_of_unmet()]
    finally:
        planner.forget()
    if planner.problems:
        raise PipelineProblems(planner.problems)
    return Plan(planner.views, sinks)


class Planner:
    """Looks at one piece after the other; what is wrong gathers in `problems`."""

    def __init__(self, spark: "SparkSession", pipeline: Pipeline, places: Places) -> None:
        self.problems: list[Problem] = []
        self.views: dict[str, DataFrame] = {}
        self._unchecked: dict[str, DataFrame] = {}  # views with the rows that are not as expected
        self._spark = spark
        self._pipeline = pipeline
        self._places = places

    def forget(self) -> None:
        """Frames that are made know what they stand on; the names are for the next plan.

        Over Connect they are looked up when a query starts, in a session that is the job's own.
        """
        if is_connected(self._spark):
            return
        for name in self.views:
            self._spark.catalog.dropTempView(name)

    def see_sources(self) -> None:
        for name, source in self._pipeline.sources.items():
            with self._objections("sources", name):
                self._see("sources", name, source, source_frame(self._spark, source, self._places))

    def see_steps(self) -> None:
        for name, step in self._pipeline.steps.items():
            with self._objections("steps", name):
                self._see("steps", name, step, self._step(name, step))

    def _step(self, name: str, step: Step) -> "DataFrame":
        if is_connected(self._spark):  # there is no parser here, and a command would be run
            return add_watermark(self._spark.sql(f"select * from (\n{step.sql}\n)"), step.watermark)
        if is_command(self._spark, step.sql):
            self._problem(f"steps.{name}", "a step is a query, and this is a command")
        return add_watermark(self._spark.sql(step.sql), step.watermark)

    def _see(self, section: str, name: str, view: Source | Step, frame: "DataFrame") -> None:
        expectations = expectations_of(view)
        for each, expectation in expectations.items():
            with self._objections(f"{section}.{name}.expect", each):
                select_unmet(frame, expectation)
        self._unchecked[name] = frame
        checked = enforce(frame, name, expectations)
        checked.createOrReplaceTempView(name)
        self.views[name] = checked

    # --- sinks ------------------------------------------------------------------------------------

    def sinks(self) -> Iterator[PlannedSink]:
        for name, sink in self._pipeline.sinks.items():
            rows = self.views.get(sink.from_)
            if rows is None:  # it has a problem of its own
                continue
            with self._objections("sinks", name):
                if not rows.isStreaming:
                    self._problem(
                        f"sinks.{name}.from", f"{sink.from_!r} has no stream in it, only tables"
                    )
                    continue
                planned = self._sink(name, sink, rows)
                check_mode(self._spark, planned.output, planned.mode)
                yield planned

    def _sink(self, name: str, sink: Sink, rows: "DataFrame") -> PlannedSink:
        match sink:
            case TopicSink():
                self._check_expressions(f"sinks.{name}", sink, rows)
                return PlannedSink(name, sink, rows, messages_from(rows, sink))
            case ArchiveSink():
                return PlannedSink(name, sink, rows, rows, source=sink.from_)
            case TableSink():
                changes, has_times = changes_of(
                    rows,
                    keys=sink.keys,
                    version=sink.version,
                    delete=sink.delete,
                    is_debezium=sink.cdc is not None,
                )
                return PlannedSink(name, sink, rows, changes, has_times=has_times)
            case FileSink() | ConsoleSink():
                return PlannedSink(name, sink, rows, rows)

    def _check_expressions(self, path: str, sink: TopicSink, rows: "DataFrame") -> None:
        """Each by itself, so that each is told."""
        given = {
            "key": sink.key,
            "value": sink.value,
            "partition": sink.partition,
            "timestamp": sink.timestamp,
            **{f"headers.{name}": each for name, each in sink.headers.items()},
        }
        for name, expression in given.items():
            if expression is not None:
                with self._objections(path, name):
                    bytes_column(rows, expression)

    def sinks_of_bad(self) -> Iterator[PlannedSink]:
        """The topics that take what does not fit its schema."""
        for name, source in self._pipeline.sources.items():
            if not isinstance(source, TopicSource) or not isinstance(source.bad, BadTopic):
                continue
            with self._objections("sources", name):
                rows = only_bad(topic_frame(self._spark, source, self._places))
                sink = TopicSink(source.bad.topic, name)
                yield PlannedSink(f"{name}.bad", sink, rows, bad_messages(rows))

    def sinks_of_unmet(self) -> Iterator[PlannedSink]:
        """The topics that take rows which are not as expected."""
        views = {**self._pipeline.sources, **self._pipeline.steps}
        for view, frame in self._unchecked.items():
            section = "sources" if view in self._pipeline.sources else "steps"
            for name, target in topics_of(views[view]):
                with self._objections(f"{section}.{view}.expect", name):
                    rows = select_unmet(frame, expectations_of(views[view])[name])
                    sink = TopicSink(target.topic, view)
                    messages = rejected_messages(rows, f"{view}.{name}")
                    check_mode(self._spark, messages, "append")
                    yield PlannedSink(f"{view}.{name}", sink, rows, messages)

    # --- what is wrong ----------------------------------------------------------------------------

    def _problem(self, path: str, text: str) -> None:
        found = Problem(path, text)
        if found not in self.problems:
            self.problems.append(found)

    @contextlib.contextmanager
    def _objections(self, section: str, name: str) -> Iterator[None]:
        path = f"{section}.{name}"
        try:
            yield
        except BadSchema as error:
            self._problem(f"{path}.schema", str(error))
        except NoChanges as error:
            self._problem(path, str(error))
        except errors_of_spark() as error:
            missing = missing_table(error)
            if missing is None:
                self._problem(path, cause_of(error))
            else:
                self._tell_missing(path, missing, cause_of(error))

    def _tell_missing(self, path: str, table: str, cause: str) -> None:
        known = {each.lower() for each in (*self._pipeline.sources, *self._pipeline.steps)}
        own = path.removeprefix("steps.").lower()
        if table.lower() not in known:
            self._problem(path, cause)
        elif own in known and not self._is_above(table.lower(), own):
            self._problem(path, f"{table!r} stands below it, and a step sees those above")

    def _is_above(self, table: str, step: str) -> bool:
        order = [each.lower() for each in (*self._pipeline.sources, *self._pipeline.steps)]
        return order.index(table) < order.index(step)


def missing_table(error: Exception) -> str | None:
    """The table that an error says is not there."""
    condition = getattr(error, "getCondition", None)
    if condition is None or condition() != NO_SUCH_TABLE:
        return None
    parameters = error.getMessageParameters()  # type: ignore[attr-defined]
    return str(parameters["relationName"]).replace("`", "")


def is_command(spark: Any, sql: str) -> bool:
    """Whether it does something, as `insert` and `create view` do."""
    from py4j.java_gateway import is_instance_of

    parsed = spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)
    return bool(is_instance_of(spark.sparkContext._gateway, parsed, COMMAND_CLASS))


def check_mode(spark: Any, frame: Any, mode: Mode) -> None:
    """What Spark would say only when the query starts; over Connect it does."""
    if is_connected(spark):
        return
    modes = spark._jvm.org.apache.spark.sql.streaming.OutputMode
    chosen = {"append": modes.Append, "update": modes.Update, "complete": modes.Complete}[mode]()
    checker = spark._jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), chosen)
