"""The queries of one pipeline, under way in the session that all pipelines share."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from goqueue.spark.pipelines.job import PipelineJob
from goqueue.spark.pipelines.model import ArchiveSink, Pipeline, TopicSource
from goqueue.spark.pipelines.places import Places
from goqueue.spark.runtime.causes import cause_of
from goqueue.spark.runtime.progress import Progress
from goqueue.spark.runtime.query import Query
from goqueue.spark.runtime.watched_query import WatchedQuery

STOP_SECONDS: Final = 30.0
START: Final = "start"  # file beside the checkpoints: where a first run begins


class Running(Protocol):
    """What the service needs of a pipeline that it has started."""

    archives: list[ArchiveSink]
    places: Places

    def look(self) -> list[Progress]: ...
    def failure(self) -> str | None: ...
    def stop(self) -> None: ...


Start = Callable[[Pipeline, Path], Running]


class RunningPipeline:
    def __init__(self, queries: list[Query], pipeline: Pipeline, places: Places) -> None:
        self.places = places
        self.archives = [each for each in pipeline.sinks.values() if isinstance(each, ArchiveSink)]
        self._queries = [WatchedQuery(each) for each in queries]

    def look(self) -> list[Progress]:
        return [each.progress() for each in self._queries]

    def failure(self) -> str | None:
        """Why the first that failed did."""
        for each in self._queries:
            if each.failure is not None:
                return f"{each.name}: {cause_of(each.failure)}"
        return None

    def stop(self) -> None:
        """All at once, in bounded time; what was not committed is read again."""
        threads = [threading.Thread(target=each.stop, daemon=True) for each in self._queries]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(STOP_SECONDS)


class Starter:
    """Starts pipelines in one session."""

    def __init__(self, spark: Any, bootstrap: str) -> None:
        self._spark = spark
        self._bootstrap = bootstrap

    def start(self, pipeline: Pipeline, file: Path) -> Running:
        """Raises `PipelineProblems`, and what Spark and the broker raise."""
        bootstrap = pipeline.bootstrap or self._bootstrap
        places = Places(
            bootstrap, file.resolve().parent, pipeline.checkpoints, pipeline.name, pipeline.login
        )
        begun = begin_at(pipeline, read_start(places))
        queries = PipelineJob(self._spark, begun, places).start(_show_nothing)
        return RunningPipeline(queries, pipeline, places)


def _show_nothing(sink: str, batch: int, rows: list[dict[str, Any]]) -> None:
    """Nobody looks at the console of a service."""


def set_checkpoints_aside(
    file: Path, pipeline: Pipeline, stamp: str, start: str | None = None
) -> Path | None:
    """So that the pipeline starts over; gives where they are now.  None: there are none.

    `start` is where it begins, instead of what its file says.
    """
    places = Places("", file.resolve().parent, pipeline.checkpoints, pipeline.name)
    folder = _checkpoints(places)
    aside = None
    if folder.is_dir():
        aside = folder.rename(folder.with_name(f"{folder.name}.{stamp}"))
    if start is not None:
        folder.mkdir(parents=True)
        (folder / START).write_text(start)
    return aside


def read_start(places: Places) -> str | None:
    """Where an operator wants it to begin.  It stays there: only a first run looks at it."""
    if "://" in places.checkpoints:
        return None
    try:
        return (_checkpoints(places) / START).read_text() or None
    except FileNotFoundError:
        return None


def begin_at(pipeline: Pipeline, start: str | None) -> Pipeline:
    """With all streams beginning there."""
    if start is None:
        return pipeline
    sources = {
        name: msgspec.structs.replace(each, from_=start)
        if isinstance(each, TopicSource) and each.read == "stream"
        else each
        for name, each in pipeline.sources.items()
    }
    return msgspec.structs.replace(pipeline, sources=sources)


def _checkpoints(places: Places) -> Path:
    return Path(places.path(places.checkpoints)) / places.name
