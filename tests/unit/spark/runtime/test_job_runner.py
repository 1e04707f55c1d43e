"""The runner, over queries and a Spark context that only pretend."""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.spark.runtime import job_runner
from goqueue.spark.runtime.causes import JobFailed
from goqueue.spark.runtime.job_runner import Runner, Stopped
from goqueue.spark.runtime.progress import Progress
from goqueue.spark.runtime.stop import Stop, stop_on_signals

pytest.importorskip("pyspark")


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runner, "POLL_SECONDS", 0.001)


class FakeQuery:
    """Reports a batch each time it is looked at, and ends after the last."""

    def __init__(self, name: str, batches: int, failure: Exception | None = None) -> None:
        self.name = name
        self.stopped = False
        self._batches = batches
        self._failure = failure
        self._done = 0

    @property
    def isActive(self) -> bool:  # noqa: N802
        if self.stopped or self._done >= self._batches:
            return False
        self._done += 1
        return True

    @property
    def status(self) -> dict[str, Any]:
        return {"isTriggerActive": True}

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802
        reports = self.recentProgress
        return reports[-1] if reports else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802
        return [{"batchId": each, "numInputRows": 10} for each in range(self._done)]

    def exception(self) -> Exception | None:
        return self._failure

    def awaitTermination(self) -> None: ...  # noqa: N802

    def stop(self) -> None:
        self.stopped = True


ENDLESS = 10**9


def runner(tell: Callable[[Sequence[Progress]], None] = lambda _: None, **parts: Any) -> Runner:
    return Runner(parts.get("spark"), parts.get("stop") or Stop(), tell, stop_seconds=10)


def test_queries_run_to_their_ends():
    told: list[Sequence[Progress]] = []
    ended = runner(told.append).streams([FakeQuery("a", 3), FakeQuery("b", 1)])
    assert [(each.name, each.state, each.rows) for each in ended] == [
        ("a", "finished", 30),
        ("b", "finished", 10),
    ]
    assert told[-1] == ended
    assert told[0][0].state == "running"


def test_a_failure_stops_the_others_and_is_told_with_its_cause():
    other = FakeQuery("other", ENDLESS)
    failure = RuntimeError("[USER_RAISED_EXCEPTION] the disk is full SQLSTATE: P0001")
    failing = FakeQuery("failing", 1, failure)
    with pytest.raises(JobFailed, match=r"^failing: the disk is full$"):
        runner().streams([other, failing])
    assert other.stopped


def test_asked_to_stop_queries_stop_where_they_are():
    stop = Stop()
    told: list[Sequence[Progress]] = []

    def tell(standings: Sequence[Progress]) -> None:
        told.append(standings)
        if standings[0].rows >= 50:
            stop.ask()

    query = FakeQuery("a", ENDLESS)
    (ended,) = runner(tell, stop=stop).streams([query])
    assert query.stopped
    assert ended.state == "stopped"
    assert ended.rows == 50
    assert told[-1] == [ended]


def test_a_query_that_does_not_stop_is_not_waited_for():
    class Deaf(FakeQuery):
        def stop(self) -> None:
            threading.Event().wait()

    stop = Stop()
    stop.ask()
    patient = Runner(None, stop, lambda _: None, stop_seconds=0.01)
    (ended,) = patient.streams([Deaf("deaf", ENDLESS)])
    assert ended.name == "deaf"


def test_a_jvm_that_goes_away_fails_the_query():
    class Orphan(FakeQuery):
        @property
        def isActive(self) -> bool:  # noqa: N802
            raise ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(JobFailed, match="orphan: Spark's Java process is gone"):
        runner().streams([Orphan("orphan", 1)])


# --- batch jobs -----------------------------------------------------------------------------------


class FakeContext:
    """Knows one job of one stage, and can cancel it."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def setJobGroup(self, group: str, text: str, interruptOnCancel: bool) -> None: ...  # noqa: N802, N803

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        self.cancelled.set()

    def statusTracker(self) -> Any:  # noqa: N802
        return SimpleNamespace(
            getJobIdsForGroup=lambda group: [1],
            getJobInfo=lambda job: SimpleNamespace(stageIds=[7, 8]),
            getStageInfo=lambda stage: (
                SimpleNamespace(numTasks=4, numCompletedTasks=3) if stage == 7 else None
            ),
        )


def test_a_job_gives_its_result():
    told: list[Sequence[Progress]] = []
    spark = SimpleNamespace(sparkContext=FakeContext())
    assert runner(told.append, spark=spark).job("count", lambda: 42) == 42
    assert told[-1] == [Progress("count", "finished", tasks=4, tasks_done=3)]


def test_a_job_that_fails_raises_what_it_raised():
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        runner(spark=SimpleNamespace(sparkContext=FakeContext())).job("count", fail)


def test_a_job_is_cancelled_when_asked_to_stop():
    context = FakeContext()
    stop = Stop()
    stop.ask()
    with pytest.raises(Stopped, match="count was stopped before its end"):
        runner(spark=SimpleNamespace(sparkContext=context), stop=stop).job(
            "count", lambda: context.cancelled.wait(10)
        )
    assert context.cancelled.is_set()


# --- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_to_stop_and_the_handlers_are_put_back(number: signal.Signals):
    before = signal.getsignal(number)
    with stop_on_signals() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.wait(10)
    assert signal.getsignal(number) is before
