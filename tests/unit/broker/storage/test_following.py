"""A partition that follows: it copies, gives up what its leader does not have, and may lead."""

import asyncio

import pytest

from goqueue.broker import Partition
from goqueue.broker.storage.bundle import Bundle
from goqueue.broker.storage.partition import REPLACEMENT_RETRY_SECONDS
from goqueue.cluster.replication import Follower, Leader
from goqueue.log import Log, epochs, open_log
from goqueue.log.replica import Replica
from goqueue.model import batch as batches
from goqueue.model.errors import DiskFull, NotLeader, OffsetOutOfRange
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


@pytest.mark.parametrize("fate", range(8))
def test_a_truncation_is_durable_whatever_else_wants_to_write(fate: int):
    async def story(disk: SimDisk) -> None:
        partition = following(disk)
        await synced(partition)
        await asyncio.gather(
            partition.checkpoint(),
            partition.truncate_to(Offset(12)),
            partition.checkpoint(),
            partition.remove_before(Offset(3)),
        )
        partition.append_as_follower(batch(12, epoch=1), NOW)
        await partition.flush()
        log = opened(disk.crash(fate))
        assert (log.start_offset, log.end_offset, log.high_watermark) == (3, 13, 10)
        assert log.last_epoch == 1

    told(story, fate)


def test_a_truncation_to_the_end_changes_nothing():
    async def story(disk: SimDisk) -> None:
        partition = following(disk)
        await synced(partition)
        before = disk.operations
        await partition.truncate_to(Offset(30))
        assert disk.operations == before

    told(story)


def test_a_refused_truncation_leaves_a_partition_that_goes_on():
    async def story(disk: SimDisk) -> None:
        partition = following(disk)
        await synced(partition)
        with pytest.raises(OffsetOutOfRange, match="records below 10 are committed"):
            await partition.truncate_to(Offset(9))
        partition.append_as_follower(batch(30), NOW)
        await partition.flush()
        assert opened(disk.crash()).end_offset == 31
        await partition.truncate_to(Offset(9), unclean=True)
        assert partition.log.end_offset == partition.log.high_watermark == 9

    told(story)


def test_without_room_to_announce_it_nothing_is_cut():
    async def story(disk: SimDisk) -> None:
        partition = following(disk)
        await synced(partition)
        disk.fill_up()
        with pytest.raises(DiskFull):
            await partition.truncate_to(Offset(12))
        disk.make_room()
        assert partition.log.end_offset == 30
        await partition.truncate_to(Offset(12))
        assert opened(disk.crash()).end_offset == 12

    told(story)


def test_once_announced_a_truncation_is_tried_until_there_is_room():
    async def story(disk: SimDisk) -> None:
        partition = following(disk)
        await synced(partition)

        def fill(_number: int, operation: str, path: str) -> None:
            if operation == "sync" and path.endswith("/synced"):  # the last step is next
                disk.fill_up()

        disk.watch(fill)
        cutting = asyncio.ensure_future(partition.truncate_to(Offset(12)))
        await asyncio.sleep(3 * REPLACEMENT_RETRY_SECONDS)
        assert not cutting.done()
        assert partition.log.end_offset == 12
        assert opened(disk.crash()).end_offset == 12
        disk._watchers.clear()
        disk.make_room()
        await cutting
        assert partition.log.failed is None

    told(story)


@pytest.mark.parametrize("step", range(12))
def test_a_truncation_that_is_given_up_is_finished_by_the_next_opening(step: int):
    async def story(disk: SimDisk) -> None:
        partition = following(disk)
        await synced(partition)
        cutting = asyncio.ensure_future(partition.truncate_to(Offset(12)))
        await asyncio.sleep(0.0005 * step)
        cutting.cancel()
        await asyncio.gather(cutting, return_exceptions=True)
        await partition.close()
        assert opened(disk.kill()).end_offset in (12, 30)

    told(story, step)


def test_a_cut_has_compaction_stop_and_none_begins_meanwhile():
    async def story(disk: SimDisk) -> None:
        partition = following(disk)
        await synced(partition)
        partition.log.rewriting = True
        cutting = asyncio.ensure_future(partition.reset_to(Offset(100)))
        await asyncio.sleep(1)
        assert partition.log.cut_waits
        assert partition.log.end_offset == 30
        partition.log.rewriting = False  # it has stopped
        begun: list[bool] = []
        disk.watch(lambda _number, _operation, _path: begun.append(partition.log.rewriting))
        await cutting
        assert begun
        assert all(begun)
        assert not partition.log.cut_waits
        assert not partition.log.rewriting
        assert partition.log.start_offset == 100

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
