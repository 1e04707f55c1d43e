"""A slot is one partition that somebody can own: `(topic id, partition)`.

Topic *ids*, since a topic deleted and made again under its old name is another topic.  In memory
an assignment is a frozenset of slots, where the set operations of reconciliation read like their
definition; in records it is packed by topic, sorted, so that equal assignments are equal bytes.
"""

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

import msgspec

from goqueue.model.ids import TopicId


class Slot(NamedTuple):
    topic_id: TopicId
    partition: int


Slots = frozenset[Slot]
NO_SLOTS: Slots = frozenset()


class TopicPartitions(msgspec.Struct, frozen=True, array_like=True):
    """Some partitions of one topic, as records keep them."""

    topic_id: UUID
    partitions: tuple[int, ...]


Packed = tuple[TopicPartitions, ...]


def pack(slots: Iterable[Slot]) -> Packed:
    by_topic: dict[TopicId, list[int]] = {}
    for topic_id, partition in slots:
        by_topic.setdefault(topic_id, []).append(partition)
    return tuple(
        TopicPartitions(topic_id, tuple(sorted(by_topic[topic_id])))
        for topic_id in sorted(by_topic, key=lambda topic_id: topic_id.int)
    )


def unpack(packed: Iterable[TopicPartitions]) -> Slots:
    return frozenset(
        Slot(TopicId(topic.topic_id), partition)
        for topic in packed
        for partition in topic.partitions
    )
