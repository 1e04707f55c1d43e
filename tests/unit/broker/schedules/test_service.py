"""Schedules in a broker: they are published when due, and outlive crashes."""

import asyncio

import pytest

from goqueue.broker import Broker
from goqueue.model.config import Config
from goqueue.model.errors import InvalidRecord, NotCoordinator, PartitionNotFound, TopicNotFound
from goqueue.model.ids import TopicName
from goqueue.runtime import Environment
from goqueue.schedules import Message, Missed, Timing
from goqueue.schedules.errors import InvalidSchedule, ScheduleNotFound
from goqueue.testing.sim.world import World
from tests.unit.broker.brokers import play, running
from tests.unit.broker.schedules.scheduling import (
    TOPIC,
    definition,
    records_in,
    runs_in,
    times_in,
    wait_for_runs,
)


def test_runs_are_published_when_they_are_due():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC, partitions=2)
        await broker.schedules.create(definition())
        await wait_for_runs(broker, 4)
        found = await broker.schedules.find("s")
        assert all(each.published_at - each.scheduled_at < 500 for each in found.runs)
        first, second = await records_in(broker)
        assert [each.value for each in first[:2]] == [b"s 1", b"s 3"]
        assert [each.value for each in second[:2]] == [b"s 2", b"s 4"]
        places = [(each.number, each.partition, each.offset) for each in found.runs[:4]]
        assert places == [(1, 0, 0), (2, 1, 0), (3, 0, 1), (4, 1, 1)]

    play(story)


@pytest.mark.parametrize(
    ("missed", "expected"), [(Missed.SKIP, 0), (Missed.ONE, 1), (Missed.ALL, 10)]
)
def test_runs_missed_in_a_pause_are_made_up_for(missed: Missed, expected: int):
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC)
        timing = Timing("*/10 * * * *")
        await broker.schedules.create(definition(timing=timing, missed=missed))
        await broker.schedules.pause("s")
        await broker.environment.clock.sleep(6_005)  # ten runs, and some more minutes
        assert await runs_in(broker) == []
        await broker.schedules.resume("s")
        await broker.environment.clock.sleep(5)
        assert len(await runs_in(broker)) == expected
        assert (await broker.schedules.find("s")).missed_count == 10 - expected

    async def main(environment: Environment) -> None:
        wait = 120_000 - environment.clock.now() % 600_000  # two minutes after a run
        await environment.clock.sleep((wait % 600_000) / 1e3)
        async with running(environment, Config(data_dir="/data")) as broker:
            await story(broker)

    with World(0) as world:
        world.run(main(world.environment("a")))


def test_after_an_outage_each_missed_run_is_published_once():
    world = World(3)

    async def before() -> None:
        async with Broker(world.environment("a"), Config(data_dir="/data")).running() as broker:
            await broker.create_topic(TOPIC, partitions=1)
            await broker.schedules.create(definition(missed=Missed.ALL))
            await wait_for_runs(broker, 3)

    async def after() -> None:
        environment = world.environment("a")
        await environment.clock.sleep(20)
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            await wait_for_runs(broker, 20)
            runs, times = await runs_in(broker), await times_in(broker)
            assert runs == list(range(1, len(runs) + 1))
            assert len(set(times)) == len(times)

    with world:
        world.run(before())
        world.power_loss("a")
        world.run(after())


def test_a_run_can_be_had_now_also_of_a_paused_schedule():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC)
        await broker.schedules.create(definition(timing=Timing("0 0 1 1 *")), is_paused=True)
        at, run = await broker.schedules.run_now("s")
        assert run is not None
        assert (run.number, run.scheduled_at, run.is_manual) == (1, at, True)
        both = await asyncio.gather(broker.schedules.run_now("s"), broker.schedules.run_now("s"))
        assert sorted(each.number for _, each in both if each) == [2, 3]
        assert await runs_in(broker) == [1, 2, 3]

    play(story)


def test_what_cannot_be_published_is_refused_at_once():
    async def story(broker: Broker) -> None:
        with pytest.raises(TopicNotFound):
            await broker.schedules.create(definition())
        await broker.create_topic(TOPIC, partitions=2)
        await broker.create_topic("c", settings={"cleanup.policy": "compact"})
        with pytest.raises(PartitionNotFound):
            await broker.schedules.create(definition(message=Message(b"", partition=2)))
        with pytest.raises(InvalidRecord, match="takes only messages with a key"):
            await broker.schedules.create(definition(topic=TopicName("c")))
        with pytest.raises(InvalidSchedule):
            await broker.schedules.create(definition(timing=Timing("* * *")))
        with pytest.raises(ScheduleNotFound):
            await broker.schedules.replace(definition())
        assert (await broker.schedules.page(count=10)).total == 0

    play(story)


def test_previews():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC)
        assert len(await broker.schedules.preview(Timing("0 9 * * *"), 500)) == 100
        with pytest.raises(InvalidSchedule):
            await broker.schedules.preview(Timing("0 9 * *"), 5)
        created = await broker.schedules.create(definition(max_runs=3))
        found = await broker.schedules.preview_of("s", 10)
        assert found[0] == created.next_at
        assert len(found) == 3
        await broker.schedules.replace(definition(max_runs=1))
        await wait_for_runs(broker, 1)
        assert await broker.schedules.preview_of("s", 10) == []

    play(story)


def test_a_deleted_schedule_runs_no_more():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC)
        await broker.schedules.create(definition())
        await wait_for_runs(broker, 2)
        await broker.schedules.delete("s")
        await broker.environment.clock.sleep(0.5)
        before = await runs_in(broker)
        await broker.environment.clock.sleep(10)
        assert await runs_in(broker) == before

    play(story)


def test_after_it_resigned_the_schedules_run_elsewhere():
    async def story(broker: Broker) -> None:
        await broker.create_topic(TOPIC)
        await broker.schedules.create(definition())
        broker.schedules.resign()
        with pytest.raises(NotCoordinator):
            await broker.schedules.find("s")
        with pytest.raises(NotCoordinator):
            await broker.schedules.run_now("s")

    play(story)
