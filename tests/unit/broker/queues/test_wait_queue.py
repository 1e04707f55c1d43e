"""Those who wait for messages: who is woken, and that nobody is forgotten."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from goqueue.broker.long_poll import LongPoll
from goqueue.broker.queues.dispatcher import Served
from goqueue.broker.queues.receive import Receiver
from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.broker.queues.wait_queue import WaitQueue
from goqueue.model.errors import StorageFailed
from goqueue.queue import Delivered, QueueSettings
from tests.unit.broker.queue_world import Bench, numbered, play, values

WAIT_MS = 10_000
NAMES = ("ann", "bob", "cy", "dan", "eve")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each consumer looked for messages."""
    found = Counter[str]()
    serve = Receiver._serve

    async def noted(self: Receiver, request: ReceiveRequest, sources: Any) -> Served:
        found[request.consumer] += 1
        return await serve(self, request, sources)

    monkeypatch.setattr(Receiver, "_serve", noted)
    return found


async def waiting(
    bench: Bench, names: Sequence[str] = NAMES
) -> list[asyncio.Task[list[Delivered]]]:
    """Consumers that want a message each, and have none yet."""
    tasks = [
        asyncio.create_task(bench.receive(consumer=name, max_messages=1, wait_ms=WAIT_MS))
        for name in names
    ]
    await bench.sleep(1)
    return tasks


def done(tasks: Sequence[asyncio.Task[list[Delivered]]]) -> list[bytes]:
    return [value for task in tasks if task.done() for value in values(task.result())]


async def given_up(tasks: Sequence[asyncio.Task[list[Delivered]]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_one_message_costs_one_wake_up(looks: Counter[str]):
    async def story(bench: Bench) -> None:
        tasks = await waiting(bench)
        assert looks == Counter(NAMES), "each once, before it waits"
        looks.clear()
        await bench.publish("jobs", b"one")
        await bench.sleep(1)
        assert done(tasks) == [b"one"]
        assert looks.total() == 1
        await given_up(tasks)

    play(story, partitions=3)


def test_whoever_leaves_some_wakes_the_next(looks: Counter[str]):
    async def story(bench: Bench) -> None:
        tasks = await waiting(bench)
        looks.clear()
        await bench.publish("jobs", *numbered(3))
        await bench.sleep(1)
        assert sorted(done(tasks)) == numbered(3)
        assert looks.total() == 3
        await given_up(tasks)

    play(story)


def test_whoever_fails_when_it_was_woken_wakes_the_next(monkeypatch: pytest.MonkeyPatch):
    serve = Receiver._serve

    async def failing(self: Receiver, request: ReceiveRequest, sources: Any) -> Served:
        if request.consumer == "bob":
            raise StorageFailed("not today")
        return await serve(self, request, sources)

    async def story(bench: Bench) -> None:
        tasks = [*await waiting(bench, ["bob"]), *await waiting(bench, ["ann"])]  # in that order
        monkeypatch.setattr(Receiver, "_serve", failing)
        await bench.publish("jobs", b"one")
        await bench.sleep(1)
        assert isinstance(tasks[0].exception(), StorageFailed)
        assert values(tasks[1].result()) == [b"one"]

    play(story)


def test_what_comes_back_between_a_look_and_the_wait_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
):
    sources_of = Receiver._sources_of

    async def story(bench: Bench) -> None:
        await bench.publish("jobs", b"one")
        (held,) = await bench.receive(consumer="bob")
        looks = 0

        async def slowly(self: Receiver, request: ReceiveRequest) -> Any:
            nonlocal looks
            looks += 1
            if looks == 2:  # before it waits, and after it looked
                await bench.queues.release([held.receipt])
            return await sources_of(self, request)

        monkeypatch.setattr(Receiver, "_sources_of", slowly)
        began = bench.broker.environment.clock.instant()
        assert values(await bench.receive(wait_ms=WAIT_MS)) == [b"one"]
        assert bench.broker.environment.clock.instant() - began < 1e9

    play(story)


def test_room_that_is_made_between_a_look_and_the_wait_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
):
    sources_of = Receiver._sources_of

    async def story(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(2))
        (held,) = await bench.receive(max_messages=1)
        looks = 0

        async def slowly(self: Receiver, request: ReceiveRequest) -> Any:
            nonlocal looks
            looks += 1
            if looks == 2:
                await bench.ack([held])
            return await sources_of(self, request)

        monkeypatch.setattr(Receiver, "_sources_of", slowly)
        began = bench.broker.environment.clock.instant()
        assert values(await bench.receive(wait_ms=WAIT_MS)) == [b"1"]
        assert bench.broker.environment.clock.instant() - began < 1e9

    play(story, settings=QueueSettings(max_in_flight_consumer=1))


def test_a_wait_ends_when_its_time_is_over(looks: Counter[str]):
    async def story(bench: Bench) -> None:
        began = bench.broker.environment.clock.instant()
        assert await bench.receive(wait_ms=WAIT_MS) == []
        assert bench.broker.environment.clock.instant() - began >= WAIT_MS * 1_000_000
        assert looks.total() == 2, "at the beginning and at the end"

    play(story)


def test_whoever_is_cancelled_just_when_it_is_woken_lets_the_next_one_know():
    async def story(bench: Bench) -> None:
        queue, clock = WaitQueue(), bench.broker.environment.clock
        waits = []
        for _ in range(3):
            waits.append(asyncio.create_task(queue.wait_after(0, LongPoll(clock, WAIT_MS))))
            await bench.sleep(1)
        queue.notify_one()
        waits[0].cancel()
        await bench.sleep(1)
        assert [wait.done() for wait in waits] == [True, True, False]
        assert waits[0].cancelled()
        assert waits[1].result(), "it is to look"
        assert not await waits[2], "its time is over"

    play(story)


def test_a_notification_before_the_wait_is_not_missed():
    async def story(bench: Bench) -> None:
        queue, poll = WaitQueue(), LongPoll(bench.broker.environment.clock, WAIT_MS)
        seen = queue.notifications
        queue.notify_one()
        began = bench.broker.environment.clock.instant()
        assert await queue.wait_after(seen, poll)
        assert bench.broker.environment.clock.instant() == began
        assert not await queue.wait_after(queue.notifications, poll)

    play(story)
