"""Receiving: what a consumer gets, when it waits, and what it is told when it gets nothing."""

import asyncio

import pytest

from goqueue.broker.queues.stats import WhichInFlight
from goqueue.model.errors import ShuttingDown
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.queue import QueueSettings, TooManyInFlight
from tests import queue_verbs
from tests.unit.broker.queue_world import Bench, numbered, play, values


def test_a_poll_waits_for_a_message_and_wakes_at_once():
    async def scenario(bench: Bench) -> None:
        clock = bench.broker.environment.clock
        assert await bench.receive(wait_ms=1_000) == []
        started = clock.instant()
        async with asyncio.TaskGroup() as tasks:
            polls = [
                tasks.create_task(bench.receive(consumer=f"c{n}", max_messages=1, wait_ms=60_000))
                for n in range(20)
            ]
            await bench.sleep(5)
            await bench.publish("jobs", *numbered(20))
        assert (clock.instant() - started) / 1e9 < 6
        assert sorted(poll.result()[0].record.value or b"" for poll in polls) == sorted(
            numbered(20)
        )

    play(scenario)


def test_what_a_caller_that_went_away_was_given_is_free_at_once():
    async def scenario(bench: Bench) -> None:
        async with asyncio.TaskGroup() as tasks:
            poll = tasks.create_task(bench.receive(consumer="gone", wait_ms=60_000))
            await bench.sleep(1)
            poll.cancel()
        for stage in range(30):  # cancelled at every stage of being served
            await bench.publish("jobs", b"x")
            async with asyncio.TaskGroup() as tasks:
                poll = tasks.create_task(bench.receive(consumer="gone"))
                for _ in range(stage % 10):
                    await asyncio.sleep(0)
                poll.cancel()
            held = bench.queues.in_flight("workers", which=WhichInFlight(consumer="gone"))
            assert held == [] or not poll.cancelled()
            assert len(await bench.drain()) + len(held) == 1
            await queue_verbs.ack(bench.queues, [each.receipt for each in held])

    play(scenario)


def test_too_many_in_flight_is_said_and_ends_with_an_ack():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(10))
        held = await bench.receive(max_messages=100)
        assert len(held) == 3
        with pytest.raises(TooManyInFlight, match="max_in_flight_consumer"):
            await bench.receive()
        others = await bench.receive(consumer="bob", max_messages=100)
        assert len(others) == 2
        with pytest.raises(TooManyInFlight, match="max_in_flight_group"):
            await bench.receive(consumer="cleo")
        async with asyncio.TaskGroup() as tasks:
            poll = tasks.create_task(bench.receive(wait_ms=60_000))
            await bench.sleep(1)
            assert not poll.done()
            await bench.ack(held[:1])
        assert values(poll.result()) == [b"5"]

    play(scenario, settings=QueueSettings(max_in_flight_consumer=3, max_in_flight_group=5))


def test_limits_by_count_and_bytes():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *([b"x" * 1000] * 10))
        assert len(await bench.receive(max_messages=3)) == 3
        assert len(await bench.receive(max_bytes=2500)) == 2
        assert len(await bench.receive(max_bytes=1)) == 1

    play(scenario)


def test_a_consumer_gets_messages_of_the_partitions_that_it_names_only():
    async def scenario(bench: Bench) -> None:
        published = await bench.publish("jobs", *numbered(1))
        (there,) = published
        elsewhere = frozenset({TopicPartition(TopicName("jobs"), 1 - there.partition)})
        assert await bench.receive(places=elsewhere) == []
        named = frozenset({TopicPartition(TopicName("jobs"), there.partition)})
        assert values(await bench.receive(places=named)) == [b"0"]

    play(scenario, partitions=2)


def test_a_message_wakes_whoever_looks_where_it_is():
    """The first in the queue looks elsewhere, and lets the next one know."""

    async def scenario(bench: Bench) -> None:
        places = [frozenset({TopicPartition(TopicName("jobs"), index)}) for index in (0, 1)]
        async with asyncio.TaskGroup() as tasks:
            polls = [
                tasks.create_task(bench.receive(consumer=f"c{index}", places=only, wait_ms=60_000))
                for index, only in enumerate(places)
            ]
            await bench.sleep(1)
            (there,) = await bench.publish("jobs", b"x")
            await bench.sleep(1)
            assert [poll.done() for poll in polls] == [index == there.partition for index in (0, 1)]
            for poll in polls:
                poll.cancel()

    play(scenario, partitions=2)


def test_whoever_waits_is_told_when_the_broker_stops():
    async def scenario(bench: Bench) -> None:
        poll = asyncio.create_task(bench.receive(wait_ms=60_000))
        await bench.sleep(1)
        bench.queues.receiver.stop()
        with pytest.raises(ShuttingDown):
            await poll

    play(scenario)
