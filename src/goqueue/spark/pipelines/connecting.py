"""Which parts of a pipeline Spark Connect cannot run, and why."""

from typing import Final

from goqueue.spark.pipelines.model import (
    ArchiveSink,
    ConsoleSink,
    Pipeline,
    Sink,
    TableSink,
    TopicSink,
)
from goqueue.spark.pipelines.tree import Problem

WAY_OUT: Final = "run this command on the server's machine, or use --master spark://HOST:PORT"


def find_unconnected(pipeline: Pipeline) -> list[Problem]:
    found = {name: _reason(each) for name, each in pipeline.sinks.items()}
    return [
        Problem(f"sinks.{name}", f"{reason} over Spark Connect: {WAY_OUT}")
        for name, reason in found.items()
        if reason is not None
    ]


def _reason(sink: Sink) -> str | None:
    """None: Spark's own stream writer does it, on the server."""
    match sink:
        case ArchiveSink() | TableSink():
            return "tables are committed by the driver, which is not here"
        case ConsoleSink():
            return "rows come to the driver's console, which is not here"
        case TopicSink(mode=mode) if mode != "append":
            return f"topics in mode {mode} are committed by the driver, which is not here"
        case _:
            return None
