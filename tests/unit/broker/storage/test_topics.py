"""Topics come and go: names are taken again, crashes come half-way, directories are strange."""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from goqueue.broker import Broker, Partition
from goqueue.model.config import StorageConfig
from goqueue.model.errors import (
    CorruptData,
    DiskFull,
    GoQueueError,
    StorageFailed,
    TopicNotFound,
)
from goqueue.model.ids import Offset
from goqueue.runtime import Environment
from goqueue.testing.sim import SimDisk, World
from tests.unit.broker.brokers import CONFIG, append_through, publish, running, values_in

LOGS = "/data/logs"

Look = Callable[[Broker], Awaitable[None]]


def tree(disk: SimDisk, path: str) -> set[str]:
    return set(disk.list_directory(path))


# --- names that are taken again ----------------------------------------------------------------


def test_a_topic_of_the_same_name_begins_empty(seed: int):
    async def story(environment: Environment) -> None:
        async with running(environment) as broker:
            for number in range(5):
                await broker.create_topic("t")
                assert await publish(broker, "t", f"{number}") == 0
                await broker.delete_topic("t")
            await broker.create_topic("t")
            assert await values_in(await broker.partition("t", 0)) == []

    with World(seed) as world:
        world.run(story(world.environment("a")))
        assert tree(world.disk("a"), "/data/deleted") == set()


def test_what_is_acked_to_a_new_topic_outlives_the_deletion_of_its_namesake(seed: int):
    """The name is free before the old files are gone; the new ones must not go with them."""

    async def story(environment: Environment) -> None:
        async with running(environment) as broker:
            await broker.create_topic("t", partitions=3)
            for index in range(3):
                await publish(broker, "t", "old", index=index)
            deletion = asyncio.ensure_future(broker.delete_topic("t"))
            acked: dict[int, str] = {}

            async def take_the_name() -> None:
                while True:
                    with contextlib.suppress(GoQueueError):
                        await broker.create_topic("t", partitions=3)
                        return
                    await environment.clock.sleep(0.0001)

            await take_the_name()
            for index in (2, 1, 0):
                assert await publish(broker, "t", f"new {index}", index=index) == 0
                acked[index] = f"new {index}"
            await deletion
            await environment.clock.sleep(1)
            for index, text in acked.items():
                assert await values_in(await broker.partition("t", index)) == [text]
        async with running(environment) as broker:
            for index, text in acked.items():
                assert await values_in(await broker.partition("t", index)) == [text]

    with World(seed) as world:
        world.run(story(world.environment("a")))
        assert tree(world.disk("a"), "/data/deleted") == set()


def test_a_partition_that_is_being_opened_when_its_topic_goes_leaves_nothing(seed: int):
    async def story(environment: Environment) -> None:
        async with running(environment) as broker:
            topic = await broker.create_topic("t", partitions=3)
            opening = [
                asyncio.ensure_future(broker.partitions.get(topic, index)) for index in range(3)
            ]
            await environment.clock.sleep(environment.random.uniform(0, 0.02))
            await broker.delete_topic("t")
            found = await asyncio.gather(*opening, return_exceptions=True)
            assert all(
                not isinstance(each, Exception) or isinstance(each, TopicNotFound) for each in found
            )
            with pytest.raises(TopicNotFound):
                await broker.partitions.get(topic, 0)
            assert broker.partitions.opened("t", 0) is None

    with World(seed) as world:
        world.run(story(world.environment("a")))
        assert "t" not in tree(world.disk("a"), LOGS)


def test_writers_and_readers_of_a_deleted_topic_are_told_so(seed: int):
    async def story(environment: Environment) -> None:
        async with running(environment) as broker:
            await broker.create_topic("t")
            await publish(broker, "t", "one")
            partition = await broker.partition("t", 0)
            deletion = asyncio.ensure_future(broker.delete_topic("t"))
            for _ in range(30):
                await environment.clock.sleep(0.0005)
                try:
                    appended = append_through(broker, partition, "more")
                    await partition.committed(appended.last_offset)
                    await partition.read(Offset(0), 1000, Offset(1))
                except TopicNotFound:
                    pass
            await deletion
            with pytest.raises(TopicNotFound):
                append_through(broker, partition, "late")
            with pytest.raises(TopicNotFound):
                await partition.read(Offset(0), 1000, Offset(1))

    with World(seed) as world:
        world.run(story(world.environment("a")))


# --- crashes ------------------------------------------------------------------------------------


def test_a_topic_shows_when_it_is_durable(seed: int):
    """A crash before that would take it back, and what was published to it."""

    async def story(environment: Environment, disk: SimDisk) -> None:
        async with running(environment) as broker:
            disk.fail_sync(f"{LOGS}/__metadata/*.log")
            creation = asyncio.ensure_future(broker.create_topic("t"))
            while not creation.done():
                assert not broker.has_topic("t")
                assert broker.topics() == []
                with pytest.raises(TopicNotFound):
                    await publish(broker, "t", "refused")
                await environment.clock.sleep(0.0001)
            with pytest.raises(StorageFailed):
                await creation
            with pytest.raises(StorageFailed):  # it may be there after a restart, or not
                await broker.create_topic("t")
            with pytest.raises(StorageFailed):
                await broker.ensure_topic("t")
            assert not broker.has_topic("t")

    with World(seed) as world:
        world.run(story(world.environment("a"), world.disk("a")))


def test_a_deletion_shows_when_it_is_durable_although_its_caller_is_gone(seed: int):
    async def story(environment: Environment) -> None:
        async with running(environment) as broker:
            await broker.create_topic("t")
            await publish(broker, "t", "kept so far")
            partition = await broker.partition("t", 0)
            deletion = asyncio.ensure_future(broker.delete_topic("t"))
            while broker.hosts()[0].ahead.find("t") is not None:
                await environment.clock.sleep(0)
            deletion.cancel()
            if broker.has_topic("t"):  # unless it was durable before this task had its turn
                assert await broker.partition("t", 0) is partition
            await broker.create_topic("t")  # decided behind the deletion
            assert await publish(broker, "t", "new") == 0
            assert await values_in(await broker.partition("t", 0)) == ["new"]
            with pytest.raises(TopicNotFound):
                await partition.committed(Offset(partition.log.end_offset))

    with World(seed, fifo=True) as world:  # what was decided just now is not durable yet
        world.run(story(world.environment("a")))


def test_what_is_asked_for_many_times_at_once_is_created_once(seed: int):
    async def story(environment: Environment) -> None:
        async with running(environment) as broker:
            made = await asyncio.gather(*(broker.ensure_topic("t") for _ in range(5)))
            assert made == [broker.topic("t")] * 5

    with World(seed) as world:
        world.run(story(world.environment("a")))


def test_a_deletion_is_finished_after_a_crash_at_any_of_its_operations():
    def deleted(stop_at: int | None) -> tuple[SimDisk, int, int]:
        """The disk when it is over or the machine died; operations before, and in all."""

        async def story(environment: Environment) -> None:
            async with running(environment) as broker:
                await broker.create_topic("t")
                await publish(broker, "t", "old")
                await broker.create_topic("other")
                await publish(broker, "other", "kept")
                before.append(disk.operations)
                if stop_at is not None:
                    disk.crash_at(disk.operations + stop_at)
                await broker.delete_topic("t")

        before: list[int] = []
        with World("deletion") as world:
            disk = world.disk("a")
            world.start("a", story)
            world.run_until(lambda: not world.alive("a"))
        return disk, before[0], disk.operations

    _, before, total = deleted(None)
    assert total - before > 10
    for operation in range(1, total - before + 1):
        died, _, _ = deleted(operation)

        async def look(broker: Broker) -> None:
            await broker.environment.clock.sleep(1)
            assert await values_in(await broker.partition("other", 0)) == ["kept"]
            disk = broker.environment.disk
            if broker.metadata.find("t") is None:
                assert not disk.exists(f"{LOGS}/t"), "the deletion is not finished"
                assert not broker.metadata.deleted
                await broker.create_topic("t")
            await broker.delete_topic("t")
            await broker.create_topic("t")
            assert await publish(broker, "t", "new") == 0
            assert set(disk.list_directory("/data/deleted")) == set()
            assert not disk.exists("/data/orphaned")

        _on(died.crash(operation), look)


# --- strange directories -------------------------------------------------------------------------


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
        assert [(each.topic, each.path) for each in broker.partitions.orphans()] == [
            ("lost", f"{LOGS}/lost")
        ]
        await broker.create_topic("lost")
        assert await publish(broker, "lost", "new") == 0
        assert await values_in(await broker.partition("lost", 0)) == ["new"]
        await broker.delete_topic("lost")
        [orphan] = broker.partitions.orphans()
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
    _on(disk, look)
    [orphan] = disk.list_directory("/data/orphaned")
    assert disk.read_file(f"/data/orphaned/{orphan}/0/{0:020d}.log") == acked


# --- one disk, many partitions -------------------------------------------------------------------


def test_a_partition_whose_disk_fails_does_not_disturb_the_others(seed: int):
    async def story(environment: Environment, disk: SimDisk) -> None:
        async with running(environment) as broker:
            await broker.create_topic("good")
            await broker.create_topic("bad")
            await publish(broker, "bad", "before")
            disk.fail_sync(f"{LOGS}/bad/0/*.log", times=None)
            with pytest.raises(StorageFailed):
                await publish(broker, "bad", "lost")
            for number in range(10):
                await publish(broker, "good", f"{number}")
                await environment.clock.sleep(20)
            with pytest.raises(StorageFailed):
                await publish(broker, "bad", "refused")
            await publish(broker, "bad", "its other partition", index=1)
            assert await values_in(await broker.partition("bad", 0)) == ["before"]
            assert len(await values_in(await broker.partition("good", 0))) == 10

    with World(seed) as world:
        world.run(story(world.environment("a"), world.disk("a")))


def test_topics_go_on_when_the_metadata_cannot_be_written(seed: int):
    """Also those that were not used yet; only what is not durable itself is refused."""

    async def story(environment: Environment, disk: SimDisk) -> None:
        async with running(environment) as broker:
            await broker.create_topic("old")
        async with running(environment) as broker:
            await broker.create_topic("young")
            disk.fail_sync(f"{LOGS}/__metadata/0/*.log", times=None)
            with pytest.raises(StorageFailed):
                await broker.create_topic("never")
            with pytest.raises(StorageFailed):
                await broker.add_partitions("young", 3)
            await publish(broker, "old", "one")
            assert await values_in(await broker.partition("old", 0)) == ["one"]
            with pytest.raises(TopicNotFound):
                await publish(broker, "never", "refused")

    with World(seed) as world:
        world.run(story(world.environment("a"), world.disk("a")))


def test_a_full_disk_refuses_writes_and_is_left_behind(seed: int):
    """Upkeep, snapshots and shutdown go through it as well."""

    async def story(environment: Environment, disk: SimDisk) -> None:
        async with running(environment) as broker:
            await broker.create_topic("t")
            acked = [f"{number}" for number in range(20)]
            for text in acked:
                await publish(broker, "t", text)
            disk.fill_up(0)
            for _ in range(8):
                with pytest.raises(GoQueueError):
                    await publish(broker, "t", "refused", "x" * 100)
                with pytest.raises(GoQueueError):
                    await broker.create_topic("another")
                await environment.clock.sleep(100)  # checkpoints, retention, snapshots
            assert await values_in(await broker.partition("t", 0)) == acked
            disk.make_room()
            await environment.clock.sleep(60)
            await publish(broker, "t", "last")
            disk.fill_up(0)
        async with running(environment) as broker:
            assert await values_in(await broker.partition("t", 0)) == [*acked, "last"]
            disk.make_room()
            await publish(broker, "t", "very last")

    with World(seed) as world:
        world.run(story(world.environment("a"), world.disk("a")))


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


def test_a_broker_starts_on_a_full_disk_with_a_message_in_flight(seed: int):
    async def story(environment: Environment, disk: SimDisk) -> None:
        async with running(environment) as broker:
            await broker.create_topic("t", partitions=1)
            await publish(broker, "t", "one", "two")
            [held] = await broker.queues.receive(["t"], "workers", "me", max_messages=1)
            assert held.record.value == b"one"
        disk.fill_up(0)
        async with running(environment) as broker:
            assert await values_in(await broker.partition("t", 0)) == ["one", "two"]
            with pytest.raises(GoQueueError):
                await publish(broker, "t", "refused", "x" * 100)
            with pytest.raises(GoQueueError):
                await broker.queues.receive(["t"], "workers", "me")
            disk.make_room()
            await publish(broker, "t", "three")
            await environment.clock.sleep(60)
            found = await broker.queues.receive(["t"], "workers", "me", max_messages=10)
            assert sorted(each.record.value or b"" for each in found) == [b"one", b"three", b"two"]

    with World(seed) as world:
        world.run(story(world.environment("a"), world.disk("a")))


def _on(disk: SimDisk, look: Look) -> None:
    """Run a broker on a disk that was left by another one."""

    async def story(environment: Environment) -> None:
        async with running(
            Environment(environment.clock, disk, environment.network, environment.random)
        ) as broker:
            await look(broker)

    with World("look") as world:
        world.run(story(world.environment("a")))
