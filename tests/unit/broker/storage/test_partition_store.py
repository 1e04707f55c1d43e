"""Topics come and go: names are taken again, crashes come half-way, directories are strange."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from goqueue.broker import Broker
from goqueue.model.config import Config
from goqueue.model.errors import (
    GoQueueError,
    StorageFailed,
    TopicNotFound,
)
from goqueue.model.ids import Offset
from goqueue.model.settings import topic_settings
from goqueue.runtime import Environment, real_environment
from goqueue.testing.sim import SimDisk, World
from tests import queue_verbs
from tests.unit.broker.brokers import append_through, publish, running, values_in

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
            assert broker.partitions.find_open("t", 0) is None

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
                    await partition.wait_committed(appended.last_offset)
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
                await partition.wait_committed(Offset(partition.log.end_offset))

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

        run_on(died.crash(operation), look)


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


def test_a_broker_starts_on_a_full_disk_with_a_message_in_flight(seed: int):
    async def story(environment: Environment, disk: SimDisk) -> None:
        async with running(environment) as broker:
            await broker.create_topic("t", partitions=1)
            await publish(broker, "t", "one", "two")
            [held] = await queue_verbs.receive(
                broker.queues, ["t"], "workers", "me", max_messages=1
            )
            assert held.record.value == b"one"
        disk.fill_up(0)
        async with running(environment) as broker:
            assert await values_in(await broker.partition("t", 0)) == ["one", "two"]
            with pytest.raises(GoQueueError):
                await publish(broker, "t", "refused", "x" * 100)
            with pytest.raises(GoQueueError):
                await queue_verbs.receive(broker.queues, ["t"], "workers", "me")
            disk.make_room()
            await publish(broker, "t", "three")
            await environment.clock.sleep(60)
            found = await queue_verbs.receive(
                broker.queues, ["t"], "workers", "me", max_messages=10
            )
            assert sorted(each.record.value or b"" for each in found) == [b"one", b"three", b"two"]

    with World(seed) as world:
        world.run(story(world.environment("a"), world.disk("a")))


def run_on(disk: SimDisk, look: Look) -> None:
    """Run a broker on a disk that was left by another one."""

    async def story(environment: Environment) -> None:
        async with running(
            Environment(environment.clock, disk, environment.network, environment.random)
        ) as broker:
            await look(broker)

    with World("look") as world:
        world.run(story(world.environment("a")))


async def test_partitions_of_a_new_topic_may_be_opened_all_at_once(tmp_path):
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with Broker(environment, Config(data_dir=str(tmp_path))).running() as broker:
            for number in range(20):
                topic = await broker.create_topic(f"topic-{number}", partitions=8)
                opened = (broker.partition(topic.name, index) for index in range(8))
                await asyncio.gather(*opened)
                places = {path.name for path in (tmp_path / "logs" / topic.name).iterdir()}
                assert places == {"topic", *map(str, range(8))}
    assert not list(tmp_path.glob("deleted/*"))


def test_an_internal_log_is_one_partition_however_often_it_is_asked_for(seed: int):
    """Two would write to one file, each at its own end."""

    async def story(environment: Environment) -> None:
        async with running(environment) as broker:
            settings = topic_settings({})
            first = await broker.partitions.internal("__notes", settings)
            await environment.clock.sleep(1)
            assert await broker.partitions.internal("__notes", settings) is first

    with World(seed) as world:
        world.run(story(world.environment("a")))
