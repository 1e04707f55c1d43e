"""What a dry run tells: the columns of everything, who reads what, and where a sink would go on."""

from pathlib import Path
from typing import Any

import msgspec

from goqueue.spark.pipelines.model import (
    ArchiveSink,
    ConsoleSink,
    FileSink,
    FileSource,
    Mode,
    Pipeline,
    Sink,
    Source,
    TableSink,
    TopicSink,
)
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.planning import Plan, PlannedSink
from goqueue.spark.sql.job import tables_of


class View(msgspec.Struct, frozen=True):
    name: str
    what: str
    columns: dict[str, str]
    reads: list[str] = []


class Target(msgspec.Struct, frozen=True):
    name: str
    what: str
    reads: str
    mode: Mode
    trigger: str
    columns: dict[str, str]
    checkpoint: str
    batches_done: int | None
    """None where there is no checkpoint yet, or none that can be looked at from here."""
    plan: str


class Description(msgspec.Struct, frozen=True):
    name: str
    bootstrap: str
    sources: list[View]
    steps: list[View]
    sinks: list[Target]


def describe(spark: Any, pipeline: Pipeline, plan: Plan, places: Places) -> Description:
    views = {name: _columns(frame) for name, frame in plan.views.items()}
    return Description(
        pipeline.name,
        places.bootstrap,
        [View(name, _what_source(each), views[name]) for name, each in pipeline.sources.items()],
        [
            View(name, each.description or "sql", views[name], tables_of(spark, each.sql))
            for name, each in pipeline.steps.items()
        ],
        [_target(each, pipeline, places) for each in plan.sinks],
    )


def _target(planned: PlannedSink, pipeline: Pipeline, places: Places) -> Target:
    checkpoint = places.checkpoint(planned.name)
    return Target(
        planned.name,
        _what_sink(planned.sink),
        planned.sink.from_,
        planned.mode,
        planned.sink.trigger or pipeline.trigger or "as soon as the last batch ends",
        _columns(planned.output),
        checkpoint,
        batches_done(checkpoint),
        spark_plan(planned.output),
    )


def _columns(frame: Any) -> dict[str, str]:
    return {each.name: each.dataType.simpleString() for each in frame.schema}


def _what_source(source: Source) -> str:
    if isinstance(source, FileSource):
        return f"{source.format} files {source.files}"
    if source.pattern is not None:
        return f"topics like {source.pattern}, from {source.from_}"
    if source.topic is not None:
        return f"topic {source.topic}, from {source.from_}"
    return f"topics {', '.join(source.topics)}, from {source.from_}"


def _what_sink(sink: Sink) -> str:
    match sink:
        case TopicSink():
            return f"topic {sink.topic}"
        case ArchiveSink():
            return f"{sink.format} archive {sink.archive}"
        case TableSink():
            kind = "history" if sink.history else "table"
            return f"{sink.format} {kind} {sink.table}, by {', '.join(sink.keys)}"
        case FileSink():
            return f"{sink.format} files {sink.files}"
        case ConsoleSink():
            return "console"


def spark_plan(frame: Any) -> str:
    """As Spark understood it; how it is carried out is decided when the query starts."""
    return str(frame._jdf.queryExecution().analyzed().toString()).strip()


def batches_done(checkpoint: str) -> int | None:
    """How many micro-batches a sink has finished, from its checkpoint's files."""
    commits = Path(checkpoint.removeprefix("file://")) / "commits"
    if not commits.is_dir():
        return None
    done = [int(each.name) for each in commits.iterdir() if each.name.isdigit()]
    return max(done) + 1 if done else 0
