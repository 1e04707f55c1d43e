"""Redrives in the background, and the progress of each.

They are kept in memory only: after a restart the moves that were decided are finished
(`redrive.py`), other dead letters stay where they are, and the job is forgotten.
"""

import asyncio
from typing import Final, Literal

import msgspec
import structlog

from goqueue.broker.dlq.browse import DeadLetterFilter, DeadLetters
from goqueue.model.errors import GoQueueError, Overloaded
from goqueue.model.ids import Timestamp
from goqueue.queue import RedriveNotFound
from goqueue.runtime import Clock

RUNNING_MAX: Final = 100
KEPT_MAX: Final = 1_000  # that one can still ask for

_log = structlog.get_logger("goqueue.queues")


class Redrive(msgspec.Struct, kw_only=True):
    redrive_id: str
    topic: str
    to: str
    started_at: Timestamp
    moved: int = 0
    state: Literal["running", "done", "failed", "cancelled"] = "running"
    error: str = ""


class Redrives:
    def __init__(self, clock: Clock, dead_letters: DeadLetters) -> None:
        self._clock = clock
        self._dead_letters = dead_letters
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._known: dict[str, Redrive] = {}  # the oldest first
        self._last = 0

    def attach(self, tasks: asyncio.TaskGroup) -> None:
        """Their owner from now on."""
        self._tasks = tasks

    # --- asking -----------------------------------------------------------------------------------

    def of(self, topic: str) -> list[Redrive]:
        return [each for each in self._known.values() if each.topic == topic]

    def get(self, topic: str, redrive_id: str) -> Redrive:
        found = self._known.get(redrive_id)
        if found is None or found.topic != topic:
            raise RedriveNotFound(f"topic {topic!r} has no redrive {redrive_id!r}")
        return found

    # --- starting and ending ----------------------------------------------------------------------

    def start(
        self,
        topic: str,
        *,
        which: DeadLetterFilter,
        limit: int | None,
        target: str | None,
        rate: float | None,
    ) -> Redrive:
        assert self._tasks is not None, "the broker is not running"
        if len(self._running) >= RUNNING_MAX:
            raise Overloaded(f"{RUNNING_MAX} redrives are under way: wait for one, or cancel it")
        self._last += 1
        now = self._clock.now()
        redrive = Redrive(
            redrive_id=f"{now}-{self._last}", topic=topic, to=target or topic, started_at=now
        )
        self._remember(redrive)
        task = self._tasks.create_task(self._run(redrive, which, limit, target, rate))
        self._running[redrive.redrive_id] = task
        task.add_done_callback(lambda _: self._running.pop(redrive.redrive_id, None))
        return redrive

    def _remember(self, redrive: Redrive) -> None:
        self._known[redrive.redrive_id] = redrive
        over = [each for each, one in self._known.items() if one.state != "running"]
        for old in over[: max(0, len(self._known) - KEPT_MAX)]:
            del self._known[old]

    async def _run(
        self,
        redrive: Redrive,
        which: DeadLetterFilter,
        limit: int | None,
        target: str | None,
        rate: float | None,
    ) -> None:
        def progress(moved: int) -> None:
            redrive.moved = moved

        try:
            await self._dead_letters.redrive(
                redrive.topic,
                which=which,
                limit=limit,
                target=target,
                rate=rate,
                progress=progress,
            )
        except GoQueueError as error:
            redrive.state, redrive.error = "failed", str(error)
            _log.error("redrive failed", topic=redrive.topic, problem=str(error))
        except asyncio.CancelledError:
            redrive.state = "cancelled"
            raise
        else:
            redrive.state = "done"

    def cancel(self, topic: str, redrive_id: str) -> Redrive:
        """What is on its way arrives; no more follows.  Nothing happens when it is over."""
        redrive = self.get(topic, redrive_id)
        task = self._running.get(redrive_id)
        if task is not None:
            redrive.state = "cancelled"
            task.cancel()
        return redrive
