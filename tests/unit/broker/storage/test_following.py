"""A partition that follows: it copies, gives up what its leader does not have, and may lead."""

import asyncio

import pytest

from goqueue.broker import Partition
from goqueue.broker.storage.bundle import Bundle
from goqueue.cluster.replication import Follower, Leader
from goqueue.log import Log, epochs, open_log
from goqueue.log.replica import Replica
from goqueue.model import batch as batches
from goqueue.model.errors import DiskFull, NotLeader
from goqueue.model.ids import Epoch, NodeId, Offset, PartitionId
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from goqueue.testing.sim import SimDisk
from tests.unit.broker.brokers import NODE, NOW, LonePartition, append, texts, values_in
from tests.unit.broker.storage.test_partition import told

LEADER = NodeId(2)


def batch(offset: int, epoch: int = 0) -> bytearray:
    """One record, with its offset for a value."""
    data = batches.encode([Record(0, NOW, None, str(offset).encode())])
    batches.stamp(data, batches.header_at(data, 0), offset, epoch)
    return data


class FollowingPartition(LonePartition):
    def __init__(self, disk: SimDisk, **settings: str) -> None:
        super().__init__(disk, **settings)
        self.log = opened(disk)
        self.take_role(Follower(LEADER, Epoch(1)))


def opened(disk: SimDisk) -> Log:
    settings = topic_settings({"segment.bytes": "1024"})
    log, recovery = open_log(disk, "/log", settings, Replica(None, 0))
    assert not recovery.problems
    return log


def following(disk: SimDisk, count: int = 30) -> FollowingPartition:
    partition = FollowingPartition(disk)
    for offset in range(count):
        partition.append_as_follower(batch(offset), NOW)
    return partition


async def synced(partition: Partition, committed: int = 10) -> None:
    await partition.flush()
    partition.follow_watermark(Offset(committed))


def test_readers_see_what_the_leader_says_is_committed_once_it_is_durable_here():
    async def story(disk: SimDisk) -> None:
        partition = following(disk, 5)
        partition.follow_watermark(Offset(3))
        assert await values_in(partition) == []
        await synced(partition, 3)
        assert await values_in(partition) == texts(range(3))
        partition.follow_watermark(Offset(2))
        assert partition.log.high_watermark == 3
        partition.follow_watermark(Offset(100))
        assert partition.log.high_watermark == 5
        with pytest.raises(NotLeader):
            append(partition, "mine")

    told(story)


def test_a_follower_begins_where_its_leader_does():
    async def story(disk: SimDisk) -> None:
        partition = following(disk)
        await synced(partition)
        await partition.reset_to(Offset(100))
        partition.append_as_follower(batch(100), NOW)
        await synced(partition, 101)
        assert await values_in(partition) == ["100"]
        log = opened(disk.crash())
        assert (log.start_offset, log.end_offset) == (100, 101)

    told(story)


def test_a_leader_writes_once_the_start_of_its_epoch_is_durable():
    async def story(disk: SimDisk) -> None:
        partition = following(disk, 3)
        bundle = Bundle("topic", None, PartitionId(0), partition.role)
        bundle.add(partition)
        bundle.change_role(Leader.alone(NODE, Epoch(4)))
        leading = asyncio.ensure_future(bundle.lead())
        await asyncio.sleep(0)
        with pytest.raises(NotLeader, match="about to lead it, in epoch 4"):
            append(partition, "too early")
        await leading
        stored = epochs.load(disk.crash(), "/log")
        assert [(entry.epoch, entry.start_offset) for entry in stored] == [(0, 0), (4, 3)]
        append(partition, "mine")
        assert partition.log.last_epoch == 4

    told(story)


def test_without_room_for_the_epoch_it_does_not_lead_and_can_later():
    async def story(disk: SimDisk) -> None:
        partition = following(disk)
        disk.fill_up(0)
        with pytest.raises(DiskFull):
            await partition.note_epoch(Epoch(1))
        assert partition.log.failed is None
        disk.make_room()
        await partition.note_epoch(Epoch(1))
        assert epochs.load(disk.crash(), "/log")[-1].epoch == 1
        await partition.flush()
        assert opened(disk.crash()).end_offset == 30

    told(story)
