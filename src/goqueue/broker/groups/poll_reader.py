"""Reads the partitions of a member for one poll.

Every partition has its turn to be the first: what does not fit into one response comes in the next
ones, and the backlog of one partition does not keep another one waiting.
"""

from collections.abc import Sequence

import msgspec

from goqueue.broker.messages.read import DamagedRecords, UnreadableRecords, count_read, read_page
from goqueue.broker.messages.remote_partition import Readable
from goqueue.model.errors import OffsetOutOfRange, TopicNotFound
from goqueue.model.ids import Offset, TopicIdPartition
from goqueue.model.record import Record


class Source(msgspec.Struct, frozen=True):
    """A partition and the member's position in it."""

    topic_partition: TopicIdPartition
    partition: Readable
    offset: Offset
    starts_at_end: bool = False  # when the offset is out of range


class PartitionRecords(msgspec.Struct, frozen=True):
    """Some messages of one partition, in order."""

    source: Source
    records: list[Record]
    next_offset: Offset


class PollRecords(msgspec.Struct):
    portions: list[PartitionRecords] = msgspec.field(default_factory=list)
    skipped: dict[TopicIdPartition, Offset] = msgspec.field(default_factory=dict)
    """New positions where no message was for a member."""
    problems: list[str] = msgspec.field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.portions and not self.problems


def rotate(sources: Sequence[Source], first: TopicIdPartition | None) -> list[Source]:
    """The same sources, beginning with `first` or the next one after it."""
    ordered = sorted(sources, key=lambda source: source.topic_partition)
    behind = [source for source in ordered if first is not None and source.topic_partition >= first]
    return [*behind, *ordered[: len(ordered) - len(behind)]]


async def read_partitions(sources: Sequence[Source], *, limit: int, bytes_max: int) -> PollRecords:
    """At most `limit` messages and about `bytes_max` bytes, a partition after the other."""
    found = PollRecords()
    for source in sources:
        if source.offset == source.partition.log.end_offset:
            continue
        portion = await _read_partition(source, limit, bytes_max, found.problems)
        if portion is None:
            continue
        if portion.records:
            found.portions.append(portion)
            limit -= len(portion.records)
            bytes_max -= sum(map(_record_bytes, portion.records))
        elif portion.next_offset != source.offset:
            found.skipped[source.topic_partition] = portion.next_offset
        if limit <= 0 or bytes_max <= 0:
            break
    return found


def count_records(found: PollRecords, group: str, member: str) -> None:
    """These were delivered to a member."""
    for portion in found.portions:
        count_read(portion.source.partition, portion.records, group, member)


async def _read_partition(
    source: Source, limit: int, bytes_max: int, problems: list[str]
) -> PartitionRecords | None:
    """The next messages; what cannot be read is skipped and reported."""
    offset = source.offset
    while True:
        try:
            page = await read_page(source.partition, offset, limit=limit, bytes_max=bytes_max)
        except TopicNotFound:
            return None  # it is being deleted; the group will hear of it
        except (DamagedRecords, UnreadableRecords) as error:
            problem, offset = str(error), error.continue_at
        except OffsetOutOfRange as error:
            problem, offset = str(error), _nearest_offset(source, offset)
        else:
            return PartitionRecords(source, page.records, page.next_offset)
        problems.append(f"{source.partition}: {problem}; continued at {offset}")


def _nearest_offset(source: Source, offset: Offset) -> Offset:
    """Where to continue when the offset has expired, or is beyond the end."""
    log = source.partition.log
    if offset < log.start_offset or not source.starts_at_end:
        return log.start_offset
    return log.high_watermark


def _record_bytes(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
