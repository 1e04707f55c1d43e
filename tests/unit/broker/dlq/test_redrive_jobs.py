"""Redrives that go on by themselves: their progress, their end, and how many there may be."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from goqueue.broker.dlq import redrive_jobs
from goqueue.broker.dlq.browse import DeadLetterFilter
from goqueue.broker.dlq.redrive_jobs import Redrive, Redrives
from goqueue.model.errors import DiskFull, Overloaded
from goqueue.queue import RedriveNotFound
from goqueue.testing.sim import SimClock, SimLoop, run


class Letters:
    """Dead letters that are moved when the test says so."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.error: Exception | None = None

    async def redrive(self, _topic: str, *, progress: Callable[[int], None], **_: Any) -> None:
        progress(3)
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        progress(5)


def play(story: Callable[[Redrives, Letters], Awaitable[None]]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        letters = Letters()
        redrives = Redrives(SimClock(loop), letters)  # type: ignore[arg-type]
        async with asyncio.TaskGroup() as tasks:
            redrives.attach(tasks)
            await story(redrives, letters)
            letters.may_end.set()

    run(main())


def start(redrives: Redrives, topic: str = "jobs", target: str | None = None) -> Redrive:
    return redrives.start(topic, which=DeadLetterFilter(), limit=None, target=target, rate=None)


async def let_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_progress_is_seen_and_so_is_the_end():
    async def story(redrives: Redrives, letters: Letters) -> None:
        redrive = start(redrives, target="other")
        await let_run()
        assert (redrive.state, redrive.moved, redrive.to) == ("running", 3, "other")
        letters.may_end.set()
        await let_run()
        assert (redrive.state, redrive.moved) == ("done", 5)
        assert await redrives.of("jobs") == [redrive]
        assert await redrives.of("other") == []

    play(story)


def test_a_failure_is_kept_for_who_asks():
    async def story(redrives: Redrives, letters: Letters) -> None:
        redrive = start(redrives)
        letters.error = DiskFull("no room")
        letters.may_end.set()
        await let_run()
        assert (redrive.state, redrive.error, redrive.moved) == ("failed", "no room", 3)

    play(story)


def test_one_that_is_cancelled_stays_so_and_another_can_be_started():
    async def story(redrives: Redrives, letters: Letters) -> None:
        redrive = start(redrives)
        await let_run()
        assert await redrives.cancel("jobs", redrive.redrive_id) is redrive
        assert redrive.state == "cancelled", "the caller hears it at once"
        letters.may_end.set()
        await let_run()
        assert (redrive.state, redrive.moved) == ("cancelled", 3)
        other = start(redrives)
        assert other.redrive_id != redrive.redrive_id
        await let_run()
        assert (await redrives.cancel("jobs", other.redrive_id)).state == "done", "it was over"

    play(story)


def test_a_redrive_is_its_topics():
    async def story(redrives: Redrives, _: Letters) -> None:
        redrive = start(redrives)
        for topic, redrive_id in (("other", redrive.redrive_id), ("jobs", "none")):
            with pytest.raises(RedriveNotFound):
                await redrives.get(topic, redrive_id)
            with pytest.raises(RedriveNotFound):
                await redrives.cancel(topic, redrive_id)

    play(story)


def test_so_many_run_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(redrive_jobs, "RUNNING_MAX", 2)

    async def story(redrives: Redrives, letters: Letters) -> None:
        start(redrives)
        start(redrives)
        with pytest.raises(Overloaded, match="2 redrives"):
            start(redrives)
        letters.may_end.set()
        await let_run()
        start(redrives)

    play(story)


def test_the_oldest_that_are_over_are_forgotten_and_those_that_run_are_not(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(redrive_jobs, "KEPT_MAX", 2)

    async def story(redrives: Redrives, letters: Letters) -> None:
        running = start(redrives)
        await let_run()
        letters.may_end = asyncio.Event()
        letters.may_end.set()
        over = []
        for _ in range(3):
            over.append(start(redrives))
            await let_run()
        known = await redrives.of("jobs")
        assert running in known
        assert over[-1] in known
        assert over[0] not in known
        await redrives.cancel("jobs", running.redrive_id)

    play(story)
