"""What is cut off a log, or replaced in it, is so whatever happens on the way."""

import asyncio

import pytest

from goqueue.broker.storage.log_rewrites import REPLACEMENT_RETRY_SECONDS
from goqueue.model.errors import DiskFull, OffsetOutOfRange
from goqueue.model.ids import Offset
from goqueue.testing.sim import SimDisk
from tests.unit.broker.brokers import NOW
from tests.unit.broker.storage.test_following import (
    batch,
    following,
    opened,
    synced,
)
from tests.unit.broker.storage.test_partition import told


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
