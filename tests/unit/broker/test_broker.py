"""What the broker checks before it writes to a partition, or deletes from one."""

import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.cluster.replication import Leader
from goqueue.model import batch as batches
from goqueue.model.config import StorageConfig
from goqueue.model.errors import DiskFull, NotEnoughReplicas, OffsetOutOfRange, ShuttingDown
from goqueue.model.ids import Epoch, NodeId, Offset
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from goqueue.runtime import Environment
from goqueue.testing.sim import World
from tests.unit.broker.brokers import (
    CONFIG,
    NODE,
    NOW,
    append_through,
    play,
    publish,
    running,
    values_in,
)


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
