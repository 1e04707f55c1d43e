"""The operations that all listeners share: what they check, and what they leave alone."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest
import structlog

from goqueue.broker import Broker
from goqueue.broker.broker import CLOCK_CHECK_SECONDS, PRODUCER_ID_BLOCK
from goqueue.cluster.replication import Leader
from goqueue.model import batch as batches
from goqueue.model.config import Config, StorageConfig, TopicsConfig
from goqueue.model.errors import (
    DiskFull,
    InvalidReplication,
    NotEnoughReplicas,
    OffsetOutOfRange,
    PolicyViolation,
    ShuttingDown,
    TopicExists,
    TopicNotFound,
)
from goqueue.model.ids import Epoch, NodeId, Offset, Timestamp
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from goqueue.runtime import Environment
from goqueue.testing.sim import SimClock, World
from tests.unit.broker.brokers import CONFIG, NODE, NOW, append_through, publish, running, values_in

Story = Callable[[Broker], Awaitable[None]]


def play(story: Story, config: Config = CONFIG) -> None:
    async def main(environment: Environment) -> None:
        async with running(environment, config) as broker:
            await story(broker)

    with World(0) as world:
        world.run(main(world.environment("a")))


def topics(**settings: object) -> Config:
    return msgspec.structs.replace(CONFIG, topics=TopicsConfig(**settings))  # type: ignore[arg-type]


# --- topics ---------------------------------------------------------------------------------------


def test_what_is_only_validated_is_not_done():
    async def story(broker: Broker) -> None:
        await broker.create_topic("t", partitions=1)
        before = broker.metadata.topic("t")
        await broker.create_topic("other", validate_only=True)
        await broker.add_partitions("t", 9, validate_only=True)
        await broker.change_settings("t", {"retention.ms": "1"}, validate_only=True)
        with pytest.raises(TopicExists):
            await broker.create_topic("t", validate_only=True)
        assert [topic.name for topic in broker.topics()] == ["t"]
        assert broker.metadata.topic("t") is before

    play(story)


def test_names_of_the_brokers_own_topics_are_not_given_away():
    async def story(broker: Broker) -> None:
        for work in (broker.create_topic("__mine"), broker.delete_topic("__metadata")):
            with pytest.raises(PolicyViolation):
                await work
        with pytest.raises(TopicNotFound):
            await broker.ensure_topic("__mine")

    play(story)


def test_there_are_no_more_topics_than_the_setting_allows():
    async def story(broker: Broker) -> None:
        await broker.create_topic("first")
        await broker.create_topic("second")
        with pytest.raises(PolicyViolation, match=r"topics\.count_max"):
            await broker.create_topic("third")
        with pytest.raises(TopicExists):
            await broker.create_topic("second")
        await broker.delete_topic("first")
        await broker.create_topic("third")

    play(story, topics(count_max=2))


def test_the_replication_factor_of_the_settings_is_that_of_topics_which_name_none():
    async def story(broker: Broker) -> None:
        with pytest.raises(InvalidReplication, match="factor 2, and there is one node"):
            await broker.create_topic("t")
        topic = await broker.create_topic("t", replication_factor=1)
        assert topic.replication_factor == 1

    play(story, topics(replication=2))


def test_a_missing_topic_is_created_when_the_setting_allows_it():
    async def story(broker: Broker) -> None:
        made = await broker.ensure_topic("t")
        assert made.partitions == 3
        assert await broker.ensure_topic("t") == made

    play(story, topics(auto_create=True, partitions=3))


def test_a_missing_topic_is_missing_when_the_setting_forbids_it():
    async def story(broker: Broker) -> None:
        with pytest.raises(TopicNotFound):
            await broker.ensure_topic("t")

    play(story, topics(auto_create=False))


# --- writing --------------------------------------------------------------------------------------


def test_with_too_few_in_sync_only_who_waits_for_no_commit_may_write():
    async def story(broker: Broker) -> None:
        await broker.create_topic("t", partitions=1)
        partition = await broker.partition("t", 0)
        settings = msgspec.structs.replace(partition.log.settings, min_insync_replicas=2)
        partition.apply_settings(settings)
        both = (NODE, NodeId(2))
        partition.take_role(
            Leader(node=NODE, epoch=Epoch(1), replicas=both, isr=frozenset((NODE,)))
        )
        with pytest.raises(NotEnoughReplicas):
            append_through(broker, partition, "waits")
        assert partition.log.end_offset == 0
        data = batch_of("does not wait")
        broker.append(partition, data, waits=False)
        assert partition.log.end_offset == 1

    play(story)


def batch_of(value: str) -> bytearray:
    return batches.encode([Record(0, NOW, None, value.encode())])


def test_a_broker_that_stops_takes_nothing_more():
    async def main(environment: Environment) -> None:
        async with running(environment) as broker:
            await broker.create_topic("t")
            partition = await broker.partition("t", 0)
        with pytest.raises(ShuttingDown):
            append_through(broker, partition, "late")
        assert partition.log.end_offset == 0

    with World(0) as world:
        world.run(main(world.environment("a")))


def test_the_room_that_a_disk_must_keep_is_asked_for_before_anything_is_written():
    config = msgspec.structs.replace(CONFIG, storage=StorageConfig(free_bytes_min=2**62))

    async def story(broker: Broker) -> None:
        partition = await broker.partitions.internal("__own", topic_settings({}))
        with pytest.raises(DiskFull):
            append_through(broker, partition, "one")
        assert partition.log.end_offset == 0

    play(story, config)


def test_records_are_deleted_up_to_what_readers_see():
    async def story(broker: Broker) -> None:
        await broker.create_topic("t", partitions=1)
        await publish(broker, "t", "0")
        await publish(broker, "t", "1")
        partition = await broker.partition("t", 0)
        for outside in (3, -2):
            with pytest.raises(OffsetOutOfRange, match="0 to 2"):
                await broker.delete_records(partition, Offset(outside))
        assert await broker.delete_records(partition, Offset(1)) == 1
        assert await broker.delete_records(partition, Offset(0)) == 1, "nothing comes back"
        assert await values_in(partition) == ["1"]
        append_through(broker, partition, "2")
        assert await broker.delete_records(partition, Offset(-1)) == 3, "what is written is flushed"

    play(story)


def test_a_producer_id_is_given_once_also_after_a_restart():
    given: list[int] = []

    async def life(environment: Environment) -> None:
        async with running(environment) as broker:
            given.extend([await broker.reserve_producer_id() for _ in range(3)])

    with World(0) as world:
        for _ in range(3):
            world.run(life(world.environment("a")))
            world.power_loss("a")
    assert len(set(given)) == 9
    assert given[3] - given[0] >= PRODUCER_ID_BLOCK, "a block is durable before its first id"


def test_ids_go_on_when_a_block_is_used_up():
    async def story(broker: Broker) -> None:
        given = [await broker.reserve_producer_id() for _ in range(PRODUCER_ID_BLOCK + 2)]
        assert given == list(range(given[0], given[0] + PRODUCER_ID_BLOCK + 2))

    play(story)


# --- time -----------------------------------------------------------------------------------------


def test_offsets_are_found_by_time_and_the_newest_is_the_one_with_the_latest_time():
    async def story(broker: Broker) -> None:
        await broker.create_topic("t", partitions=1)
        partition = await broker.partition("t", 0)
        for at in (1_000, 3_000, 2_000):
            data = batches.encode([Record(0, at, None, b"x")])
            broker.append(partition, data)
        found = await broker.offset_for_time(partition, Timestamp(1_500), committed_only=True)
        newest = await broker.newest_record(partition, committed_only=True)
        assert found is not None
        assert newest is not None
        assert (found.offset, newest.offset) == (1, 1)
        assert (
            await broker.offset_for_time(partition, Timestamp(9_000), committed_only=True) is None
        )
        assert (await broker.latest_offset(partition, committed_only=True)).offset == 3

    play(story)


def test_a_wall_clock_that_was_set_is_told_once():
    async def story(broker: Broker) -> None:
        clock = broker.environment.clock
        assert isinstance(clock, SimClock)
        with structlog.testing.capture_logs() as lines:
            await clock.sleep(2 * CLOCK_CHECK_SECONDS)
            clock.jump(3_600_000)
            await clock.sleep(4 * CLOCK_CHECK_SECONDS)
        assert [line["log_level"] for line in lines if "wall clock" in line["event"]] == ["warning"]

    play(story)
