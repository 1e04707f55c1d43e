"""Reading several partitions of several topics for one poll.

Every partition has its turn to be the first: what does not fit into one answer comes in the next
ones, and nobody's backlog keeps another partition waiting.
"""

from collections.abc import Sequence

import msgspec

from goqueue.broker.messages.publish import DamagedRecords, UnreadableRecords, count_read, read_page
from goqueue.broker.storage.partition import Partition
from goqueue.model.errors import OffsetOutOfRange, TopicNotFound
from goqueue.model.ids import Offset, TopicIdPartition
from goqueue.model.record import Record


class Source(msgspec.Struct, frozen=True):
    """A partition and where to go on in it."""

    topic_partition: TopicIdPartition
    partition: Partition
    offset: Offset
    starts_at_end: bool = False  # when the offset is one that never was


class Portion(msgspec.Struct, frozen=True):
    """Some messages of one partition, in order."""

    source: Source
    records: list[Record]
    next_offset: Offset


class Taken(msgspec.Struct):
    portions: list[Portion] = msgspec.field(default_factory=list)
    stepped_over: dict[TopicIdPartition, Offset] = msgspec.field(default_factory=dict)
    """Where nothing for a member was in between."""
    problems: list[str] = msgspec.field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.portions and not self.problems


def rotated(sources: Sequence[Source], first: TopicIdPartition | None) -> list[Source]:
    """The same, beginning with `first` or what comes behind it."""
    ordered = sorted(sources, key=lambda source: source.topic_partition)
    behind = [source for source in ordered if first is not None and source.topic_partition >= first]
    return [*behind, *ordered[: len(ordered) - len(behind)]]


async def take(sources: Sequence[Source], *, limit: int, bytes_max: int) -> Taken:
    """At most `limit` messages and about `bytes_max` bytes, a partition after the other."""
    taken = Taken()
    for source in sources:
        if source.offset == source.partition.log.end_offset:
            continue
        portion = await _portion(source, limit, bytes_max, taken.problems)
        if portion is None:
            continue
        if portion.records:
            taken.portions.append(portion)
            limit -= len(portion.records)
            bytes_max -= sum(map(_size, portion.records))
        elif portion.next_offset != source.offset:
            taken.stepped_over[source.topic_partition] = portion.next_offset
        if limit <= 0 or bytes_max <= 0:
            break
    return taken


def count_taken(taken: Taken) -> None:
    """A member was given these."""
    for portion in taken.portions:
        count_read(portion.source.partition, portion.records)


async def _portion(
    source: Source, limit: int, bytes_max: int, problems: list[str]
) -> Portion | None:
    """The next messages; what cannot be read is stepped over and told."""
    offset = source.offset
    while True:
        try:
            page = await read_page(source.partition, offset, limit=limit, bytes_max=bytes_max)
        except TopicNotFound:
            return None  # it is being deleted; the group will hear of it
        except (DamagedRecords, UnreadableRecords) as error:
            problem, offset = str(error), error.continue_at
        except OffsetOutOfRange as error:
            problem, offset = str(error), _within(source, offset)
        else:
            return Portion(source, page.records, page.next_offset)
        problems.append(f"{source.partition}: {problem}; continued at {offset}")


def _within(source: Source, offset: Offset) -> Offset:
    """Where to go on when messages have expired meanwhile, or when there never were so many."""
    log = source.partition.log
    if offset < log.start_offset or not source.starts_at_end:
        return log.start_offset
    return log.high_watermark


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
