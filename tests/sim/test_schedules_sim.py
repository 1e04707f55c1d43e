"""Schedules on a machine that may die at any disk operation, between a plan and its append too.

Whatever happens, each run is in the topic once: no number and no time is missing or there twice.
"""

import random

import pytest

from goqueue.broker import Broker
from goqueue.model.config import Config
from goqueue.runtime import Environment
from goqueue.schedules import Missed
from goqueue.testing.sim.world import World
from tests.unit.broker.schedules.scheduling import (
    TOPIC,
    definition,
    runs_in,
    times_in,
    wait_for_runs,
)

RUNS = 6


class Scheduler:
    """Creates a schedule, and lets it run; as one process with its broker."""

    def __init__(self) -> None:
        self.is_created = False
        self.answered = 0  # the last number that somebody was told of
        self.is_done = False

    async def run(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            if not self.is_created:
                await self._create(broker)
            await wait_for_runs(broker, RUNS)
            while (await broker.schedules.find("s")).status != "finished":
                await environment.clock.sleep(0.1)
            self.answered = (await broker.schedules.find("s")).run_count
            self.is_done = True

    async def _create(self, broker: Broker) -> None:
        if not broker.has_topic(TOPIC):
            await broker.create_topic(TOPIC, partitions=2)
        if not (await broker.schedules.page(count=1)).schedules:
            await broker.schedules.create(definition(missed=Missed.ALL, max_runs=RUNS))
        self.is_created = True

    async def check(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            assert await runs_in(broker) == list(range(1, RUNS + 1))
            times = await times_in(broker)
            assert len(set(times)) == RUNS, "a time came twice"
            found = await broker.schedules.find("s")
            assert [each.number for each in found.runs] == list(range(1, RUNS + 1))
            assert (found.plan, found.missed_count) == (None, 0)


def play(seed: int, crash_at: int | None, *more: int) -> int:
    """A life with its end at a disk operation, and some more; gives how many there were."""
    story = Scheduler()
    with World(f"schedules/{seed}") as world:
        operations = 0
        for point in (crash_at, *more, None):
            world.start("a", story.run)
            disk = world.disk("a")
            if point is not None:
                disk.crash_at(point)
            world.run_until(lambda: not world.alive("a"), limit_s=600)
            operations = operations or disk.operations
            world.power_loss("a")
            if story.is_done:
                break
        assert story.is_done
        world.run(story.check(world.environment("a")))
    return operations


def test_each_run_is_published_once_when_the_power_is_cut(seed):
    operations = play(seed, None)
    chance = random.Random(f"points/{seed}")
    for _ in range(6):
        more = [chance.randrange(1, 60)] if chance.random() < 0.5 else []
        play(seed, chance.randrange(operations // 4, operations), *more)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_each_run_is_published_once_wherever_the_power_is_cut():
    for crash_at in range(1, play(0, None)):
        play(0, crash_at)
