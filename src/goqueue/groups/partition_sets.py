"""Assignments: sets of partitions, in memory and in records.

In memory an assignment is a frozenset, so that the set operations of reconciliation read like their
definition.  In records it is packed by topic and sorted, so that equal assignments are equal bytes.
"""

from collections.abc import Iterable
from uuid import UUID

import msgspec

from goqueue.model.ids import TopicId, TopicIdPartition

PartitionSet = frozenset[TopicIdPartition]
NO_PARTITIONS: PartitionSet = frozenset()


class TopicPartitions(msgspec.Struct, frozen=True, array_like=True):
    """Some partitions of one topic, as records keep them."""

    topic_id: UUID
    partitions: tuple[int, ...]


Packed = tuple[TopicPartitions, ...]


def pack(partitions: Iterable[TopicIdPartition]) -> Packed:
    by_topic: dict[TopicId, list[int]] = {}
    for topic_id, partition in partitions:
        by_topic.setdefault(topic_id, []).append(partition)
    return tuple(
        TopicPartitions(topic_id, tuple(sorted(by_topic[topic_id])))
        for topic_id in sorted(by_topic, key=lambda topic_id: topic_id.int)
    )


def unpack(packed: Iterable[TopicPartitions]) -> PartitionSet:
    return frozenset(
        TopicIdPartition(TopicId(topic.topic_id), partition)
        for topic in packed
        for partition in topic.partitions
    )
