"""What the leader of `__schedules` keeps in memory while it leads: what is due, and what fails."""

import asyncio
from collections import deque
from typing import Final

import msgspec
import structlog

from goqueue.broker.machine_host import MachineHost
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Timestamp, TopicPartition
from goqueue.schedules import DueQueue, Run, Schedule, ScheduleMachine

RETRY_MS: Final = 1_000  # twice as long after each failure, up to …
RETRY_MS_MAX: Final = 30_000

_log = structlog.get_logger("goqueue.schedules")


class Failure(msgspec.Struct):
    """Why a run is not published yet."""

    problem: str
    since: Timestamp
    retry_ms: int
    retry_at: Timestamp
    attempts: int = 1


class Term:
    def __init__(self, host: MachineHost[ScheduleMachine]) -> None:
        self.host = host
        self.due = DueQueue()
        self.lanes: dict[TopicPartition, deque[str]] = {}  # by where the runs go
        self.failures: dict[str, Failure] = {}
        # Planned, and surely not in the topic; of other plans that is not known.
        self.unwritten: set[str] = set()
        # Planned, and refused for good under that producer's epoch.
        self.superseded: set[str] = set()
        self._busy: set[str] = set()
        self._waiters: dict[tuple[str, Timestamp], list[asyncio.Future[Run]]] = {}
        for schedule in host.ahead.all():
            self.due.set(schedule.definition.name, schedule.wakes_at)

    def find(self, name: str) -> Schedule | None:
        return self.host.ahead.find(name)

    # --- what is due ------------------------------------------------------------------------------

    def arm(self, name: str) -> None:
        """Have it looked at when its next run is due, or when a failed one is tried again."""
        if name in self._busy:
            return  # when that is over
        schedule, failure = self.find(name), self.failures.get(name)
        if schedule is None:
            self._forget(name)
            return
        at = schedule.wakes_at
        if at is not None and failure is not None:
            at = Timestamp(max(at, failure.retry_at))
        self.due.set(name, at)

    def _forget(self, name: str) -> None:
        self.due.set(name, None)
        self.failures.pop(name, None)
        self.unwritten.discard(name)
        self.superseded.discard(name)

    def take_up(self, name: str) -> None:
        """It is in a lane from now on."""
        self._busy.add(name)

    def release(self, name: str) -> None:
        self._busy.discard(name)
        self.arm(name)

    def retry(self, name: str) -> None:
        """What failed may work now."""
        failure = self.failures.get(name)
        if failure is not None:
            failure.retry_at = Timestamp(0)
        self.arm(name)

    # --- what became of it ------------------------------------------------------------------------

    def note_failure(self, name: str, error: GoQueueError, now: Timestamp) -> None:
        before, problem = self.failures.get(name), str(error)
        if before is None:
            retry_at = Timestamp(now + RETRY_MS)
            self.failures[name] = Failure(problem, now, RETRY_MS, retry_at)
        else:
            before.retry_ms = min(2 * before.retry_ms, RETRY_MS_MAX)
            before.retry_at = Timestamp(now + before.retry_ms)
            before.attempts += 1
        if before is None or before.problem != problem:  # once: it may go on for days
            self.failures[name].problem = problem
            _log.error("run not published yet", schedule=name, problem=problem)

    def note_success(self, name: str) -> None:
        self.unwritten.discard(name)
        self.superseded.discard(name)
        if self.failures.pop(name, None) is not None:
            _log.info("run published after all", schedule=name)

    def wait_for(self, name: str, at: Timestamp) -> asyncio.Future[Run]:
        """The run that somebody asked for, when it is published."""
        waiter: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault((name, at), []).append(waiter)
        return waiter

    def tell(self, name: str, run: Run) -> None:
        for waiter in self._waiters.pop((name, run.scheduled_at), ()):
            if not waiter.done():
                waiter.set_result(run)

    def stop_waiting(self, name: str, at: Timestamp) -> None:
        self._waiters.pop((name, at), None)
