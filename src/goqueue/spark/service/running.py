"""The queries of one pipeline, under way in the session that all pipelines share."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from goqueue.model.durations import parse_duration_ms
from goqueue.spark.pipelines.checks import AVAILABLE_NOW
from goqueue.spark.pipelines.frames import topic_options
from goqueue.spark.pipelines.job import PipelineJob
from goqueue.spark.pipelines.model import ArchiveSink, Pipeline, TopicSource
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.starting import let_begin
from goqueue.spark.runtime.causes import cause_of
from goqueue.spark.runtime.progress import Progress
from goqueue.spark.runtime.restarting_query import RestartingQuery
from goqueue.spark.runtime.watched_query import WatchedQuery
from goqueue.spark.service.news import Parked
from goqueue.spark.service.turns import TURN_SECONDS, Live
from goqueue.spark.source.offsets import StoredOffsets
from goqueue.spark.source.options import SourceOptions, source_options

STOP_SECONDS: Final = 30.0
START: Final = "start"  # file beside the checkpoints: where a first run begins


class Running(Protocol):
    """What the service needs of a pipeline that it has started."""

    archives: list[ArchiveSink]
    places: Places
    queries: int

    def look(self) -> list[Progress]: ...
    def failure(self) -> str | None: ...
    def stop(self) -> None: ...
    def turn(self, name: str) -> Live:
        """How it is, while it is live."""

    def position(self) -> Parked | None:
        """Where it is, while it is parked; None: it is live."""

    def note_news(self, messages: int | None) -> None:
        """While it is parked: how many messages there are for it."""

    def is_due(self) -> bool:
        """Its trigger would let it begin a micro-batch now."""

    def park(self) -> None: ...
    def wake(self) -> None: ...


Start = Callable[[Pipeline, Path], Running]


class RunningPipeline:
    def __init__(
        self,
        queries: Sequence[RestartingQuery],
        pipeline: Pipeline,
        places: Places,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.places = places
        self.archives = [each for each in pipeline.sinks.values() if isinstance(each, ArchiveSink)]
        self.queries = len(queries)
        self._queries = queries
        self._watched = [WatchedQuery(each) for each in queries]
        self._steady = steady
        self._sources = sources_to_watch(pipeline, places)
        self._trigger_s = trigger_seconds(pipeline)
        self._is_parked = False
        self._news: int | None = None
        self._rests_since: float | None = None
        self._batches: list[int | None] = [None] * len(queries)
        self._batches_before = self._batches  # as they were when the turn began
        self._turn_since = self._moved_at = steady()

    def look(self) -> list[Progress]:
        progress = [each.progress() for each in self._watched]
        batches = [each.batch for each in progress]
        if batches != self._batches:
            self._batches, self._moved_at = batches, self._steady()
        is_resting = all(each.state == "waiting" and each.lag == 0 for each in progress)
        self._rests_since = self._moved_at if is_resting and self._has_looked() else None
        if self._is_parked and self._news is not None:
            return [msgspec.structs.replace(each, lag=self._news) for each in progress]
        return progress

    def failure(self) -> str | None:
        """Why the first that failed did."""
        for each in self._watched:
            if each.failure is not None:
                return f"{each.name}: {cause_of(each.failure)}"
        return None

    def stop(self) -> None:
        """All at once, in bounded time; what was not committed is read again."""
        _at_once([each.stop for each in self._watched])

    # --- turns ------------------------------------------------------------------------------------

    def _begin_turn(self) -> None:
        self._turn_since = self._moved_at = self._steady()
        self._rests_since, self._batches_before = None, self._batches

    def _has_looked(self) -> bool:
        """One that was just woken still shows what it said before, while Spark starts it."""
        return self._has_moved() or self._steady() - self._turn_since >= TURN_SECONDS

    def _has_moved(self) -> bool:
        return self._batches != self._batches_before

    def turn(self, name: str) -> Live:
        if self._offsets() is None:
            return Live(name, self.queries, self._turn_since)
        return Live(name, self.queries, self._turn_since, self._rests_since, self._has_moved())

    def position(self) -> Parked | None:
        reached = self._offsets() if self._is_parked else None
        return None if reached is None else Parked(self._sources, tuple(reached))

    def note_news(self, messages: int | None) -> None:
        self._news = messages

    def is_due(self) -> bool:
        return self._steady() - self._turn_since >= self._trigger_s

    def park(self) -> None:
        """Close the queries; `wake` goes on from their checkpoints."""
        assert self._offsets() is not None, "nobody would know when to wake it"
        _at_once([each.park for each in self._queries])
        self._is_parked, self._news = True, None

    def wake(self) -> None:
        """Raises what Spark and the broker raise; then it is to be stopped."""
        self._is_parked = False
        self._begin_turn()
        for each in self._queries:
            each.wake()
            let_begin(each)

    def _offsets(self) -> list[StoredOffsets] | None:
        """None: it cannot be parked, since nobody knows where a query is."""
        found = [each.offsets() for each in self._watched] if self._sources else [None]
        known = [each for each in found if each is not None]
        return [stored for each in known for stored in each] if len(known) == len(found) else None


def _at_once(actions: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each, daemon=True) for each in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(STOP_SECONDS)


def sources_to_watch(pipeline: Pipeline, places: Places) -> tuple[SourceOptions, ...]:
    """Its streams; none for one that cannot be parked: it has an end, or reads of two clusters."""
    triggers = [each.trigger or pipeline.trigger for each in pipeline.sinks.values()]
    if AVAILABLE_NOW in triggers:
        return ()
    found = tuple(
        source_options({**places.broker_options(), **topic_options(each)}, is_stream=True)
        for each in pipeline.sources.values()
        if isinstance(each, TopicSource) and each.read == "stream"
    )
    return found if len({(each.bootstrap, each.login_file) for each in found}) == 1 else ()


def trigger_seconds(pipeline: Pipeline) -> float:
    """Of the sink whose trigger is the shortest."""
    given = [each.trigger or pipeline.trigger for each in pipeline.sinks.values()]
    return min((0.0 if each is None else _seconds(each) for each in given), default=0.0)


def _seconds(trigger: str) -> float:
    return 0.0 if trigger == AVAILABLE_NOW else parse_duration_ms(trigger, plain=None) / 1000


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
