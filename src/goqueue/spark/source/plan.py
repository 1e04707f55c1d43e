"""Ranges of offsets to tasks: small ones share a task, big ones are split.

A task costs its start, some ten milliseconds; a task too many on a quiet stream is most of its
latency, and a task too few on a full topic leaves cores idle.  So the ranges, laid end to end, are
cut into pieces of about equal weight, in bytes:

    orders-0 ##########################|####
    orders-1 #########|
    orders-2 #######|#####              three tasks; the second has parts of 0, 1 and 2

A cut that falls close to the end of a range is moved there.  The order of a partition's records is
the order of the tasks.

How many: one for every 64 MiB; but what is done with the rows may cost far more than reading them.
So, as in Kafka's connector, there is one for each partition where that makes tasks of some MiB, and
not more than the cores that are known to be there.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from goqueue.model.ids import TopicName, TopicPartition

RECORD_BYTES: Final = 100.0  # of a partition whose size nobody knows
SLIVER: Final = 0.1  # of a task: not worth another connection
SPREAD_BYTES: Final = 4 * 1024 * 1024  # of a task that is worth its start, if there is a core


class OffsetRange(NamedTuple):
    """Offsets from `start` up to, not with, `end`; compaction may have left gaps in it."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(TopicName(self.topic), self.partition)

    @property
    def length(self) -> int:
        return self.end - self.start


Task = tuple[OffsetRange, ...]


class Sizing(msgspec.Struct, frozen=True):
    tasks_min: int = 1
    tasks_max: int = 2_000
    task_bytes: int = 64 * 1024 * 1024
    records_per_task_max: int | None = None
    spreads: bool = True
    """Whether partitions make tasks, too, or only bytes."""
    cores: int | None = None
    """How many tasks run at a time; None: nobody knows."""


def plan(
    ranges: Sequence[OffsetRange],
    sizing: Sizing,
    record_bytes: Mapping[TopicPartition, float] | None = None,
) -> list[Task]:
    """The tasks; none without records.  `record_bytes`: an average for each partition."""
    ranges = [each for each in ranges if each.length > 0]
    if sizing.records_per_task_max is not None:
        count = -(-sum(each.length for each in ranges) // sizing.records_per_task_max)
        return _cut(ranges, {each.where: 1.0 for each in ranges}, count, sliver=0.0)
    known = record_bytes or {}
    weights = {each.where: max(known.get(each.where, RECORD_BYTES), 1.0) for each in ranges}
    total = _weight(ranges, weights)
    wanted = max(math.ceil(total / sizing.task_bytes), _spread(len(ranges), total, sizing))
    count = min(max(wanted, sizing.tasks_min), sizing.tasks_max)
    return _cut(ranges, weights, count, SLIVER)


def _spread(partitions: int, total: float, sizing: Sizing) -> int:
    if not sizing.spreads:
        return 1
    cores = partitions if sizing.cores is None else sizing.cores
    return min(partitions, cores, math.ceil(total / SPREAD_BYTES))


def _weight(ranges: Sequence[OffsetRange], weights: Mapping[TopicPartition, float]) -> float:
    return sum(each.length * weights[each.where] for each in ranges)


def _cut(
    ranges: Sequence[OffsetRange],
    weights: Mapping[TopicPartition, float],
    count: int,
    sliver: float,
) -> list[Task]:
    """At most `count` tasks, each with an equal share of what those before it have left."""
    tasks: list[Task] = []
    pieces: list[OffsetRange] = []
    left = _weight(ranges, weights)
    share = room = left / max(count, 1)
    for each in ranges:
        weight = weights[each.where]
        start = each.start
        while start < each.end:
            is_last = len(tasks) + 1 >= count
            end = each.end
            if not is_last and (end - start) * weight > room + sliver * share:
                end = min(end, start + max(1, round(room / weight)))
            pieces.append(each._replace(start=start, end=end))
            room -= (end - start) * weight
            left -= (end - start) * weight
            start = end
            if not is_last and room <= sliver * share:
                tasks.append(tuple(pieces))
                pieces = []
                share = room = left / (count - len(tasks))
    return [*tasks, tuple(pieces)] if pieces else tasks
