"""One streaming query or one batch job under way, seen from outside."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from goqueue.spark.runtime.causes import errors_of_spark
from goqueue.spark.runtime.progress import Meter, Progress, State
from goqueue.spark.runtime.query import Query
from goqueue.spark.runtime.restarting_query import PARKED
from goqueue.spark.source.offsets import StoredOffsets, decode_offsets


class WatchedQuery:
    """A query, what it has reported, and how it ended."""

    def __init__(self, query: Query) -> None:
        self.name = query.name or "query"
        self.failure: BaseException | None = None
        self._query = query
        self._meter = Meter(self.name)
        self._state: State = "starting"

    def progress(self) -> Progress:
        """How far it is now."""
        if not self._has_ended:
            try:
                self._look()
            except errors_of_spark() as error:  # the JVM is gone: there is nobody left to ask
                self._state, self.failure = "failed", error
        return self._meter.progress(self._state, time.time_ns() // 1_000_000)

    def offsets(self) -> list[StoredOffsets] | None:
        """The offsets of each of its sources, as of the newest report; None: not known."""
        found = [decode_offsets(each.get("endOffset")) for each in self._meter.sources]
        known = [each for each in found if each is not None]
        return known if known and len(known) == len(found) else None

    @property
    def _has_ended(self) -> bool:
        return self._state in ("finished", "stopped", "failed")

    def _look(self) -> None:
        active = self._query.isActive  # asked first: no report comes after the last
        self._read()
        if active:
            self._state = self._find_state()
        else:
            self.failure = self._find_failure()
            self._state = "finished" if self.failure is None else "failed"

    def _find_state(self) -> State:
        status = self._query.status
        if status.get("message") == PARKED:
            return "parked"
        if self._meter.empty:
            return "starting"
        return "running" if status["isTriggerActive"] else "waiting"

    def _find_failure(self) -> BaseException | None:
        """What ended it.  Waiting for the end raises the same once more, with what caused it."""
        raised = self._query.exception()
        if raised is not None:
            try:
                self._query.awaitTermination()
            except errors_of_spark() as error:
                return error
        return raised

    def _read(self) -> None:
        last = self._query.lastProgress
        if last is None:
            return
        missed_some = last["batchId"] > self._meter.newest + 1
        self._meter.take(self._query.recentProgress if missed_some else [last])

    def stop(self) -> None:
        """A micro-batch under way is dropped; the next run begins with it."""
        if self._has_ended:
            return
        # An interrupted batch may end with an error of its own, and the JVM may be gone: what was
        # not committed is read again either way.
        with contextlib.suppress(*errors_of_spark()):
            self._query.stop()
            self._read()
        self._state = "stopped"


class Job:
    """A batch job in a thread of its own, so that it can be cancelled."""

    def __init__(self, spark_context: Any, name: str, action: Callable[[], Any]) -> None:
        self.done = threading.Event()
        self.result: Any = None
        self.failure: Exception | None = None
        self._spark_context = spark_context
        self._name = name
        self._action = action
        self._group = f"goqueue-{name}-{id(self)}"

    def start(self) -> None:
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        try:
            self._spark_context.setJobGroup(self._group, self._name, interruptOnCancel=True)
            self.result = self._action()
        except Exception as error:  # handed to whoever waits for the job
            self.failure = error
        finally:
            self.done.set()

    def cancel(self) -> None:
        self._spark_context.cancelJobGroup(self._group)

    def progress(self, state: State) -> Progress:
        tracker = self._spark_context.statusTracker()
        jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(self._group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        known = [each for each in stages if each]
        return Progress(
            self._name,
            state,
            tasks=sum(each.numTasks for each in known),
            tasks_done=sum(each.numCompletedTasks for each in known),
        )
