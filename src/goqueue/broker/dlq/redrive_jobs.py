"""Redrives in the background, and the progress of each.

They are kept in memory only, at the node that was asked: after a restart the moves that were
decided are finished (`redrive.py`), other dead letters stay where they are, and the job is
forgotten.  Any node tells of them all.
"""

import asyncio
from typing import Final, Literal, TypeVar

import msgspec
import structlog

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.dlq.browse import DeadLetterFilter, DeadLetters
from goqueue.model.errors import GoQueueError, Overloaded
from goqueue.model.ids import NodeId, Timestamp
from goqueue.queue import RedriveNotFound
from goqueue.runtime import Clock

RUNNING_MAX: Final = 100
KEPT_MAX: Final = 1_000  # that one can still ask for

ReplyT = TypeVar("ReplyT")

_log = structlog.get_logger("goqueue.queues")


class Redrive(msgspec.Struct, kw_only=True):
    redrive_id: str
    topic: str
    to: str
    started_at: Timestamp
    moved: int = 0
    state: Literal["running", "done", "failed", "cancelled"] = "running"
    error: str = ""


class ListRedrives(Verb[list[Redrive]], frozen=True):
    name = "list_redrives"
    reply_type = list[Redrive]

    topic: str


class CancelRedrive(Verb[Redrive | None], frozen=True):
    """None when there is no such redrive here."""

    name = "cancel_redrive"
    reply_type = Redrive | None

    topic: str
    redrive_id: str


class Redrives:
    def __init__(
        self, clock: Clock, dead_letters: DeadLetters, others: OtherNodes | None = None
    ) -> None:
        self._clock = clock
        self._others = others
        if others is not None:
            others.serve(ListRedrives, self._list_here)
            others.serve(CancelRedrive, self._cancel_here)
        self._dead_letters = dead_letters
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._known: dict[str, Redrive] = {}  # the oldest first
        self._last = 0

    def attach(self, tasks: asyncio.TaskGroup) -> None:
        """Their owner from now on."""
        self._tasks = tasks

    # --- asking -----------------------------------------------------------------------------------

    async def of(self, topic: str) -> list[Redrive]:
        """Those of all nodes that answer."""
        found, _ = await self._ask_all(ListRedrives(topic))
        every = [*self._of_here(topic), *(each for some in found for each in some)]
        return sorted(every, key=lambda each: each.started_at)

    def _of_here(self, topic: str) -> list[Redrive]:
        return [each for each in self._known.values() if each.topic == topic]

    async def get(self, topic: str, redrive_id: str) -> Redrive:
        known = self._known.get(redrive_id)
        if known is not None and known.topic == topic:
            return known
        found, refusal = await self._ask_all(ListRedrives(topic))
        for each in (each for some in found for each in some):
            if each.redrive_id == redrive_id:
                return each
        raise refusal or RedriveNotFound(f"topic {topic!r} has no redrive {redrive_id!r}")

    async def _ask_all(self, verb: Verb[ReplyT]) -> tuple[list[ReplyT], GoQueueError | None]:
        """What the other nodes answer, and the first refusal."""
        if self._others is None:
            return [], None
        answers = await self._others.ask_each(dict.fromkeys(self._others.live, verb))
        refusals = [each for each in answers.values() if isinstance(each, GoQueueError)]
        found = [each for each in answers.values() if not isinstance(each, GoQueueError)]
        return found, next(iter(refusals), None)

    async def _list_here(self, _: NodeId, verb: ListRedrives) -> list[Redrive]:
        return self._of_here(verb.topic)

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
            redrive_id=self._new_id(now), topic=topic, to=target or topic, started_at=now
        )
        self._remember(redrive)
        task = self._tasks.create_task(self._run(redrive, which, limit, target, rate))
        self._running[redrive.redrive_id] = task
        task.add_done_callback(lambda _: self._running.pop(redrive.redrive_id, None))
        return redrive

    def _new_id(self, now: Timestamp) -> str:
        node = "" if self._others is None else f"{self._others.node_id}-"
        return f"{node}{now}-{self._last}"

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

    async def cancel(self, topic: str, redrive_id: str) -> Redrive:
        """What is on its way arrives; no more follows.  Nothing happens when it is over."""
        redrive = self._end(topic, redrive_id)
        if redrive is not None:
            return redrive
        found, refusal = await self._ask_all(CancelRedrive(topic, redrive_id))
        for each in found:
            if each is not None:
                return each
        raise refusal or RedriveNotFound(f"topic {topic!r} has no redrive {redrive_id!r}")

    async def _cancel_here(self, _: NodeId, verb: CancelRedrive) -> Redrive | None:
        return self._end(verb.topic, verb.redrive_id)

    def _end(self, topic: str, redrive_id: str) -> Redrive | None:
        redrive = self._known.get(redrive_id)
        if redrive is None or redrive.topic != topic:
            return None
        task = self._running.get(redrive_id)
        if task is not None:
            redrive.state = "cancelled"
            task.cancel()
        return redrive
