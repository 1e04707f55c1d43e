"""Runs jobs: one session, its signals, its progress, and an end in bounded time.

    with runner(master="local[*]", tell=show_progress) as running:
        running.streams([query, another])       # until they end, or somebody asks to stop
        rows = running.job("count", frame.collect)

SIGTERM and ctrl-c ask to stop: streaming queries are stopped where they are, batch jobs are
cancelled.  What a stopped query has read but not committed it reads again in its next run.
The second signal ends the process at once.  Whatever Spark raises comes out as `JobFailed`, with
the cause as its text.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from goqueue.client.errors import ClientError
from goqueue.spark import session
from goqueue.spark.runtime.causes import JobFailed, cause_of, errors_of_spark
from goqueue.spark.runtime.noise import keep_on_failure, quiet
from goqueue.spark.runtime.progress import Progress
from goqueue.spark.runtime.query import Query
from goqueue.spark.runtime.stop import Stop, stop_on_signals
from goqueue.spark.runtime.watched_query import Job, WatchedQuery

POLL_SECONDS: Final = 0.5
STOP_SECONDS: Final = 30.0  # for all queries together
CLOSE_SECONDS: Final = 20.0
TALKATIVE: Final = ("SQLQueryContextLogger", "py4j")  # they print the traces that `causes` shortens

Tell = Callable[[Sequence[Progress]], None]
Result = TypeVar("Result")


class Stopped(ClientError):
    """A job that has an end was asked to stop before it got there."""


class Runner:
    """A session, somebody to tell how far its jobs are, and when to stop."""

    def __init__(self, spark: Any, stop: Stop, tell: Tell, stop_seconds: float) -> None:
        self.spark = spark
        self.stop = stop
        self._tell = tell
        self._stop_seconds = stop_seconds

    def streams(self, queries: Sequence[Query]) -> list[Progress]:
        """Wait until all have ended; gives how far each came.

        When one fails the others are stopped, and its cause is raised.
        """
        watched = [WatchedQuery(each) for each in queries]
        while True:
            standings = [each.progress() for each in watched]
            self._tell(standings)
            failed = next((each for each in watched if each.failure is not None), None)
            if failed is not None:
                self._stop_all(watched)
                raise JobFailed(f"{failed.name}: {_cause(failed)}") from failed.failure
            if all(each.ended for each in standings):
                return standings
            if self.stop.wait(POLL_SECONDS):
                return self._stop_all(watched)

    def _stop_all(self, watched: Sequence[WatchedQuery]) -> list[Progress]:
        """All at once: each may take as long as they all may."""
        threads = [threading.Thread(target=each.stop, daemon=True) for each in watched]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self._stop_seconds)
        standings = [each.progress() for each in watched]
        self._tell(standings)
        return standings

    def job(self, name: str, action: Callable[[], Result]) -> Result:
        """What `action` gives.  It runs in a thread of its own, so that it can be cancelled."""
        job = Job(self.spark.sparkContext, name, lambda: _in_session(self.spark, action))
        job.start()
        while not job.done.wait(POLL_SECONDS):
            self._tell([job.progress("running")])
            if self.stop.requested:
                job.cancel()
                job.done.wait(self._stop_seconds)
                self._tell([job.progress("stopped")])
                raise Stopped(f"{name} was stopped before its end")
        if job.failure is not None:
            raise job.failure
        self._tell([job.progress("finished")])
        result: Result = job.result
        return result


def _in_session(spark: Any, action: Callable[[], Result]) -> Result:
    """Spark finds the formats to write only in a thread that it knows the session of."""
    session = getattr(spark, "_jsparkSession", None)
    if session is not None:
        spark._jvm.SparkSession.setActiveSession(session)
    return action()


def _cause(failed: WatchedQuery) -> str:
    assert failed.failure is not None
    return cause_of(failed.failure)


@contextlib.contextmanager
def runner(
    *,
    master: str = "local[*]",
    app_name: str = "goqueue",
    settings: Mapping[str, str] | None = None,
    tell: Tell = lambda _: None,
    stop_seconds: float = STOP_SECONDS,
) -> Iterator[Runner]:
    """A runner with a session of its own, which ends with it."""
    for each in TALKATIVE:
        logging.getLogger(each).setLevel(logging.CRITICAL + 1)
    with stop_on_signals() as stop, keep_on_failure() as log, causes_only(log):
        with quiet(log):
            spark = session(master=master, app_name=app_name, settings=settings or {})
        stop.listen()
        try:
            yield Runner(spark, stop, tell, stop_seconds)
        finally:
            _close(spark)


@contextlib.contextmanager
def causes_only(log: Path) -> Iterator[None]:
    """Errors of Spark's, and of the bridge to it, become `JobFailed`, which says where more is."""
    try:
        yield
    except JobFailed as error:
        raise JobFailed(f"{error}\n{_more(log)}") from error
    except errors_of_spark() as error:
        raise JobFailed(f"{cause_of(error)}\n{_more(log)}") from error


def _more(log: Path) -> str:
    return f"(Spark's own words are in {log})"


def _close(spark: Any) -> None:
    """Spark may wait for workers that never answer; this does not."""
    closing = threading.Thread(target=_stop_quietly, args=(spark,), daemon=True)
    closing.start()
    closing.join(CLOSE_SECONDS)


def _stop_quietly(spark: Any) -> None:
    with contextlib.suppress(*errors_of_spark()):  # a JVM that is gone has stopped
        spark.stop()
