"""Runs that fail, hang or were written already: each is published once, and blocks nobody."""

import asyncio
from typing import Any

import pytest

from goqueue.broker import Broker
from goqueue.broker.dlq import move_target
from goqueue.broker.schedules import publisher as publishing
from goqueue.model.errors import DiskFull, GoQueueError, Uncertain
from goqueue.model.ids import TopicName
from goqueue.schedules import Message, Missed, Timing
from tests.unit.broker.brokers import play
from tests.unit.broker.schedules.scheduling import (
    TOPIC,
    definition,
    runs_in,
    times_in,
    wait_for_runs,
)

OTHER = TopicName("other")


def test_a_run_waits_for_its_topic_and_others_do_not():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC)
        await broker.create_topic(OTHER)
        await broker.schedules.create(definition("lost", missed=Missed.ALL))
        await broker.schedules.create(definition("fine", topic=OTHER))
        await broker.delete_topic(TOPIC)
        await wait_for_runs(broker, 30, "fine")
        failure = broker.schedules.publisher.failure("lost")
        assert failure is not None
        assert failure.problem == "there is no topic 't'"
        assert failure.attempts < 10, "it is tried less and less often"
        assert broker.schedules.publisher.failing_count == 1
        await broker.create_topic(TOPIC)
        await wait_for_runs(broker, 25, "lost")
        assert broker.schedules.publisher.failure("lost") is None
        runs, times = await runs_in(broker), await times_in(broker)
        assert runs == list(range(1, len(runs) + 1))
        assert len(set(times)) == len(times)

    play(story)


def test_a_changed_schedule_leaves_the_topic_that_failed():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC)
        await broker.create_topic(OTHER)
        await broker.schedules.create(definition(timing=Timing(every_ms=3_600_000)))
        await broker.delete_topic(TOPIC)
        _, run = await broker.schedules.run_now("s")
        assert run is None
        timing = Timing(every_ms=3_600_000)
        await broker.schedules.replace(definition(topic=OTHER, timing=timing))
        await wait_for_runs(broker, 1)
        assert await runs_in(broker, OTHER) == [1]

    play(story)


@pytest.mark.parametrize(
    ("when", "error"),
    [
        ("before", Uncertain("no answer")),
        ("after", Uncertain("no answer")),
        ("before", DiskFull("full")),
    ],
)
def test_a_run_is_published_once_whatever_is_told_of_it(
    when: str, error: GoQueueError, monkeypatch: pytest.MonkeyPatch
):
    faults = [error, error]
    append = move_target.MoveHere.append

    async def fail(target: move_target.MoveHere, data: bytearray) -> Any:
        if not faults:
            return await append(target, data)
        problem = faults.pop()
        if when == "after":
            _, committed = await append(target, data)
            assert committed is not None
            await committed
        raise problem

    monkeypatch.setattr(move_target.MoveHere, "append", fail)

    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC)
        await broker.schedules.create(definition(missed=Missed.ALL))
        await wait_for_runs(broker, 12)
        runs, times = await runs_in(broker), await times_in(broker)
        assert runs == list(range(1, len(runs) + 1))
        assert len(set(times)) == len(times)
        assert broker.schedules.publisher.totals.failures >= 1

    play(story)


def test_a_target_that_hangs_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch):
    find_end = move_target.MoveHere.find_end
    gate = asyncio.Event()

    async def hang(target: move_target.MoveHere) -> Any:
        if target.topic == TOPIC:
            await gate.wait()
        return await find_end(target)

    monkeypatch.setattr(move_target.MoveHere, "find_end", hang)

    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC, partitions=1)
        await broker.create_topic(OTHER)
        for number in range(5):
            await broker.schedules.create(definition(f"stuck{number}"))
        await broker.schedules.create(definition("fine", topic=OTHER))
        await wait_for_runs(broker, 10, "fine")
        assert await runs_in(broker) == []
        gate.set()
        await wait_for_runs(broker, 1, "stuck0")

    play(story)


def test_many_are_due_in_the_same_moment():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC, partitions=3)
        count = 2 * publishing.TAKEN_MAX + 7
        timing = Timing("0 * * * *", end=None)
        for number in range(count):
            await broker.schedules.create(definition(f"s{number}", timing=timing, max_runs=1))
        now = broker.environment.clock.now()
        await broker.environment.clock.sleep((3_600_000 - now % 3_600_000) / 1e3 + 30)
        assert await runs_in(broker) == [1] * count
        assert broker.schedules.publisher.totals.runs == count

    play(story)


def test_when_the_clock_is_set_back_no_run_comes_twice():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC)
        await broker.schedules.create(definition())
        await wait_for_runs(broker, 5)
        clock: Any = broker.environment.clock
        clock.jump(-3_000)
        await clock.sleep(10)
        times = await times_in(broker)
        assert len(set(times)) == len(times)
        assert len(times) >= 10

    play(story)


def test_producer_ids_are_renewed_when_epochs_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publishing, "PRODUCER_EPOCH_MAX", 4)

    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC, partitions=1)
        await broker.schedules.create(definition(message=Message(b"x")))
        await wait_for_runs(broker, 8)
        runs = await runs_in(broker)
        assert runs == list(range(1, len(runs) + 1))

    play(story)
