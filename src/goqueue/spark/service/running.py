"""The queries of one pipeline, under way in the session that all pipelines share."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from goqueue.spark.pipelines.job import PipelineJob
from goqueue.spark.pipelines.model import ArchiveSink, Pipeline
from goqueue.spark.pipelines.places import Places
from goqueue.spark.runtime.causes import cause_of
from goqueue.spark.runtime.progress import Progress
from goqueue.spark.runtime.query import Query
from goqueue.spark.runtime.watched_query import WatchedQuery

STOP_SECONDS: Final = 30.0


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
        queries = PipelineJob(self._spark, pipeline, places).start(_show_nothing)
        return RunningPipeline(queries, pipeline, places)


def _show_nothing(sink: str, batch: int, rows: list[dict[str, Any]]) -> None:
    """Nobody looks at the console of a service."""


def set_checkpoints_aside(file: Path, pipeline: Pipeline, stamp: str) -> Path | None:
    """So that the pipeline starts over; gives where they are now.  None: there are none."""
    places = Places("", file.resolve().parent, pipeline.checkpoints, pipeline.name)
    folder = Path(places.path(places.checkpoints)) / places.name
    if not folder.is_dir():
        return None
    return folder.rename(folder.with_name(f"{folder.name}.{stamp}"))
