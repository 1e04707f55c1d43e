"""Data whose topic the metadata does not know is neither served nor removed."""

from collections.abc import Awaitable, Callable

import pytest

from goqueue.broker import Broker
from goqueue.model.errors import (
    CorruptData,
)
from goqueue.runtime import Environment
from goqueue.testing.sim import SimDisk, World
from tests.unit.broker.brokers import publish, running, values_in
from tests.unit.broker.storage.test_partition_store import run_on

LOGS = "/data/logs"


Look = Callable[[Broker], Awaitable[None]]


def test_what_is_no_topics_directory_is_left_alone(seed: int):
    async def story(environment: Environment) -> None:
        disk = environment.disk
        for strange in ("t/0.old", "backup/0", "lost+found", "t/7"):
            disk.make_directory(f"{LOGS}/{strange}")
        disk.replace_file(f"{LOGS}/notes.txt", b"mine")
        disk.remove_tree(f"{LOGS}/t")
        async with running(environment) as broker:
            await broker.create_topic("t")
            await publish(broker, "t", "one")
        disk.make_directory(f"{LOGS}/t/0.old")
        disk.make_directory(f"{LOGS}/t/17")
        async with running(environment) as broker:
            assert await values_in(await broker.partition("t", 0)) == ["one"]
            await environment.clock.sleep(100)
        for kept in ("backup/0", "lost+found", "t/0.old"):
            assert disk.exists(f"{LOGS}/{kept}")
        assert disk.read_file(f"{LOGS}/notes.txt") == b"mine"

    with World(seed) as world:
        world.run(story(world.environment("a")))


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_data_whose_owner_cannot_be_told_is_neither_served_nor_removed(damage: str):
    async def story(environment: Environment, disk: SimDisk) -> None:
        async with running(environment) as broker:
            await broker.create_topic("t")
            await publish(broker, "t", "one")
            await broker.create_topic("other")
        if damage == "flipped":
            disk.flip_bit(f"{LOGS}/t/topic", 12)
        else:
            disk.remove(f"{LOGS}/t/topic")
        async with running(environment) as broker:
            with pytest.raises(CorruptData):
                await broker.partition("t", 0)
            await publish(broker, "other", "fine")
            await environment.clock.sleep(200)  # retention looks at it too
        assert disk.exists(f"{LOGS}/t/0/{0:020d}.log")

    with World(0) as world:
        world.run(story(world.environment("a"), world.disk("a")))


def test_lost_metadata_does_not_take_the_data_with_it():
    async def story(environment: Environment) -> None:
        async with running(environment) as broker:
            await broker.create_topic("t")
            await publish(broker, "t", "one")
        environment.disk.remove_tree(f"{LOGS}/__metadata")
        environment.disk.remove_tree("/data/snapshots")
        with pytest.raises(CorruptData, match="restore logs/__metadata"):
            async with running(environment):
                pass
        assert environment.disk.exists(f"{LOGS}/t/0/{0:020d}.log")

    with World(0) as world:
        world.run(story(world.environment("a")))


def forget_metadata_since(disk: SimDisk, size: int) -> None:
    """Cut the metadata log, as recovery does with a damaged end that it takes for a torn one."""
    disk.remove(f"{LOGS}/__metadata/0/synced")  # which would tell
    disk.open(f"{LOGS}/__metadata/0/{0:020d}.log").truncate(size)


def test_topics_that_the_metadata_lost_keep_their_data(seed: int):
    """Only a record of its deletion removes a topic's data; a new topic does not inherit it."""

    async def two_topics(environment: Environment) -> None:
        async with running(environment) as broker:
            await broker.create_topic("kept")
            await publish(broker, "kept", "one")
            sizes.append(environment.disk.size(f"{LOGS}/__metadata/0/{0:020d}.log"))
            await broker.create_topic("lost")
            await publish(broker, "lost", "acked")
            ready.append(True)
            await environment.clock.sleep(1000)

    async def look(broker: Broker) -> None:
        clock, disk = broker.environment.clock, broker.environment.disk
        await clock.sleep(1)
        assert not broker.has_topic("lost")
        assert disk.exists(lost)
        assert [(each.topic, each.path) for each in broker.partitions.directories.orphans()] == [
            ("lost", f"{LOGS}/lost")
        ]
        await broker.create_topic("lost")
        assert await publish(broker, "lost", "new") == 0
        assert await values_in(await broker.partition("lost", 0)) == ["new"]
        await broker.delete_topic("lost")
        [orphan] = broker.partitions.directories.orphans()
        assert orphan.path.startswith("/data/orphaned/lost")
        assert disk.read_file(f"{orphan.path}/0/{0:020d}.log") == acked
        assert await values_in(await broker.partition("kept", 0)) == ["one"]

    sizes: list[int] = []
    ready: list[bool] = []
    lost = f"{LOGS}/lost/0/{0:020d}.log"
    with World(seed) as world:
        world.start("a", two_topics)
        world.run_until(lambda: bool(ready))
        world.kill("a")
        disk = world.disk("a")
    forget_metadata_since(disk, sizes[0])
    acked = disk.read_file(lost)
    assert acked
    run_on(disk, look)
    [orphan] = disk.list_directory("/data/orphaned")
    assert disk.read_file(f"/data/orphaned/{orphan}/0/{0:020d}.log") == acked
