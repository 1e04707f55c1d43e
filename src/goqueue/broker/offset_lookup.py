"""Offsets of a partition by what a reader asks for: its ends, a time, the newest record."""

from typing import Final

from goqueue.broker.storage.partition import Partition
from goqueue.log import TimedOffset
from goqueue.model.ids import NO_EPOCH, NO_TIMESTAMP, Offset, Timestamp

NO_OFFSET: Final = TimedOffset(Offset(-1), NO_TIMESTAMP, NO_EPOCH)


async def latest_offset(partition: Partition, *, committed_only: bool) -> TimedOffset:
    """The offset of the next record a reader will see."""
    await partition.flush_visible()
    partition.check_watermark()
    limit = partition.read_limit(committed_only=committed_only)
    return TimedOffset(limit, NO_TIMESTAMP, partition.log.epochs.latest)


def earliest_offset(partition: Partition) -> TimedOffset:
    log = partition.log
    return TimedOffset(log.start_offset, NO_TIMESTAMP, log.epochs.epoch_of(log.start_offset))


async def offset_for_time(
    partition: Partition, timestamp: Timestamp, *, committed_only: bool
) -> TimedOffset | None:
    await partition.flush_visible()
    limit = partition.read_limit(committed_only=committed_only)
    found = await partition.offset_for_time(timestamp, limit)
    if found is None:
        partition.check_watermark()
    return found


async def newest_record(partition: Partition, *, committed_only: bool) -> TimedOffset | None:
    await partition.flush_visible()
    partition.check_watermark()
    limit = partition.read_limit(committed_only=committed_only)
    return await partition.newest_record(limit)
