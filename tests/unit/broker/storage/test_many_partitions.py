"""What partitions cost that nobody uses: nothing at start-up, and no handles."""

import contextlib
from pathlib import Path

import pytest

from goqueue.broker import Broker
from goqueue.model.config import Config, StorageConfig
from goqueue.runtime import Environment, RealDisk, real_environment
from goqueue.testing.sim import SimDisk, World
from goqueue.testing.sim.device import Node
from tests.unit.broker.brokers import CONFIG, publish, running, values_in


class Counter(SimDisk):
    """Counts every file that is looked into, and every change."""

    looked = 0

    def open_node(self, path: str, *, create: bool) -> Node:
        self.looked += 1
        return super().open_node(path, create=create)

    def read_file(self, path: str) -> bytes | None:
        self.looked += 1
        return super().read_file(path)

    @property
    def work(self) -> int:
        return self.looked + self.operations


def test_starting_costs_the_same_whatever_there_is():
    def cost_of_start(partitions: int, messages: int) -> int:
        async def story(environment: Environment) -> int:
            disk = Counter()
            environment = Environment(
                environment.clock, disk, environment.network, environment.random
            )
            async with running(environment) as broker:
                await broker.create_topic("t", partitions=partitions)
                for number in range(messages):
                    await publish(broker, "t", "x" * 100, index=number % partitions)
            before = disk.work
            async with running(environment) as broker:
                started = disk.work - before
                assert len(broker.topics()) == 1
            return started

        with World(0, fifo=True) as world:
            return world.run(story(world.environment("a")))

    small = cost_of_start(1, 10)
    assert cost_of_start(1, 500) == small
    assert cost_of_start(60, 600) == small


async def test_partitions_that_nobody_writes_hold_no_handles(tmp_path: Path):
    environment = real_environment(open_files_max=8)
    disk = environment.disk
    assert isinstance(disk, RealDisk)
    with contextlib.closing(disk):
        async with Broker(environment, Config(data_dir=str(tmp_path))).running() as broker:
            await broker.create_topic("t", partitions=200)
            assert disk.open_files <= 8
            for index in range(200):
                await broker.partition("t", index)
            assert disk.open_files <= 8
            for index in range(200):
                await publish(broker, "t", f"{index}", index=index)
            assert disk.open_files <= 8
            for index in range(200):
                assert await values_in(await broker.partition("t", index)) == [f"{index}"]
            assert disk.open_files <= 8


@pytest.mark.parametrize("settings", [{"retention.ms": "1000"}, {"retention.bytes": "1000"}])
def test_retention_comes_to_partitions_that_nobody_opened_since_the_start(
    settings: dict[str, str],
):
    async def story(environment: Environment) -> None:
        config = Config(
            data_dir="/data",
            topics=CONFIG.topics,
            storage=StorageConfig(free_bytes_min=0, retention_check_ms=5000),
        )
        async with running(environment, config) as broker:
            await broker.create_topic("t", partitions=3, settings=settings)
            for number in range(40):
                await publish(broker, "t", f"{number}" * 40, index=1)
            await publish(broker, "t", "alone", index=2)
        async with running(environment, config) as broker:
            assert broker.partitions.find_open("t", 1) is None
            await environment.clock.sleep(20)
            partition = broker.partitions.find_open("t", 1)
            assert partition is not None
            assert partition.log.start_offset > 0
            assert broker.partitions.find_open("t", 0) is None, "nothing was ever written there"

    with World(0) as world:
        world.run(story(world.environment("a")))
