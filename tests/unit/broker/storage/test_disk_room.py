"""A reserve of the disk is kept free."""

import functools

import msgspec
import pytest

from goqueue.broker import Broker, Partition
from goqueue.model.config import StorageConfig
from goqueue.model.errors import (
    DiskFull,
)
from goqueue.model.ids import Offset
from goqueue.runtime import Environment
from goqueue.testing.sim import SimDisk, World
from tests.unit.broker.brokers import CONFIG, append_through, publish, running

RESERVE = 50_000


def write_often(broker: Broker, partition: Partition) -> None:
    for _ in range(1000):
        append_through(broker, partition, "x" * 1000)


def test_the_reserve_is_kept_between_two_looks_at_the_disk(seed: int):
    """What is written is counted: nobody writes into the reserve before the next look."""
    config = msgspec.structs.replace(CONFIG, storage=StorageConfig(free_bytes_min=RESERVE))

    async def story(environment: Environment, disk: SimDisk) -> None:
        disk.fill_up(4 * RESERVE)
        async with running(environment, config) as broker:
            await broker.create_topic("t")
            partition = await broker.partition("t", 0)
            fill = functools.partial(write_often, broker, partition)
            with pytest.raises(DiskFull, match="free_bytes_min"):
                fill()
            assert partition.log.size > RESERVE
            assert disk.free_bytes("/data") > RESERVE / 2  # indexes are not counted
            await environment.clock.sleep(5)
            with pytest.raises(DiskFull):
                append_through(broker, partition, "x" * 100_000)
            disk.make_room()
            with pytest.raises(DiskFull):
                append_through(broker, partition, "x" * 200_000)
            await environment.clock.sleep(2)
            await publish(broker, "t", "there is room again")

    with World(seed) as world:
        world.run(story(world.environment("a"), world.disk("a")))


def test_retention_that_makes_room_lets_writers_go_on(seed: int):
    """The count is corrected long before it says that there is no room."""
    config = msgspec.structs.replace(CONFIG, storage=StorageConfig(free_bytes_min=RESERVE))

    async def story(environment: Environment, disk: SimDisk) -> None:
        disk.fill_up(4 * RESERVE)
        async with running(environment, config) as broker:
            await broker.create_topic("t")
            partition = await broker.partition("t", 0)
            for _ in range(300):
                await publish(broker, "t", "x" * 2000)
                await broker.delete_records(partition, Offset(-1))
                await environment.clock.sleep(0.1)

    with World(seed) as world:
        world.run(story(world.environment("a"), world.disk("a")))


def test_a_disk_that_has_room_for_small_batches_only_is_full():
    """Else a producer's next batch would pass the one that was refused."""
    config = msgspec.structs.replace(CONFIG, storage=StorageConfig(free_bytes_min=RESERVE))

    async def story(environment: Environment, disk: SimDisk) -> None:
        async with running(environment, config) as broker:
            await broker.create_topic("t")
            partition = await broker.partition("t", 0)
            disk.fill_up(RESERVE + 20_000)
            await broker.partitions.room.look()
            append_through(broker, partition, "small")
            with pytest.raises(DiskFull):
                append_through(broker, partition, "x" * 30_000)
            assert broker.partitions.room.is_full
            for _ in range(3):
                with pytest.raises(DiskFull):
                    append_through(broker, partition, "small")
                await environment.clock.sleep(2)
            disk.make_room()
            await environment.clock.sleep(2)
            append_through(broker, partition, "x" * 30_000)

    with World(0) as world:
        world.run(story(world.environment("a"), world.disk("a")))


@pytest.mark.parametrize("reserve", [0, RESERVE])
def test_a_disk_that_others_filled_is_noticed_when_it_refuses(reserve: int):
    """A leader gives its partitions to others then; it is not asked how much is free meanwhile."""
    config = msgspec.structs.replace(CONFIG, storage=StorageConfig(free_bytes_min=reserve))

    async def story(environment: Environment, disk: SimDisk) -> None:
        async with running(environment, config) as broker:
            await broker.create_topic("t")
            partition = await broker.partition("t", 0)
            append_through(broker, partition, "one")
            disk.fill_up(0)
            with pytest.raises(DiskFull, match="no room to write"):
                append_through(broker, partition, "two")
            await environment.clock.sleep(0.1)
            assert broker.partitions.room.is_full
            disk.make_room()
            await environment.clock.sleep(2)
            assert not broker.partitions.room.is_full
            append_through(broker, partition, "two")

    with World(0) as world:
        world.run(story(world.environment("a"), world.disk("a")))
