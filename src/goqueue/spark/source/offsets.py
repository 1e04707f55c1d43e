"""Offsets as Spark keeps them in checkpoints and reports.

    {"orders": {"0": 42, "1": 17}, "@id:orders:0f3c…": {}}

Names that begin with "@" are notes, and no topics: which topic of that name it was, and for
listeners at which broker.  Kafka's connector reads them as topics without partitions, and so a
checkpoint can be passed to it and back; what it wrote has no ids.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

import msgspec

from goqueue.model.ids import TopicName, TopicPartition
from goqueue.spark.source.positions import Places

NOTE: Final = "@"  # no topic's name begins with it
LOGIN_NOTE: Final = "?login="  # behind the broker's address: the file that says how
ID_NOTE: Final = "@id:"

StoredOffsets = dict[str, dict[str, int]]
NO_IDS: Final[Mapping[str, UUID]] = {}


def stored_offsets(
    places: Mapping[TopicPartition, int], topic_ids: Mapping[str, UUID] = NO_IDS
) -> StoredOffsets:
    """In an order that does not depend on who asks: Spark compares the text."""
    topics: StoredOffsets = {}
    for (topic, partition), offset in sorted(places.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    notes: StoredOffsets = {
        f"{ID_NOTE}{topic}:{topic_ids[topic].hex}": {} for topic in topics if topic in topic_ids
    }
    return topics | notes


def decode_offsets(text: Any) -> StoredOffsets | None:
    """From Spark's text; None for the offsets of another kind of source."""
    if not isinstance(text, str):
        return None
    try:
        return msgspec.json.decode(text, type=StoredOffsets)
    except msgspec.DecodeError:
        return None


def topic_ids_of(stored: Mapping[str, Any]) -> dict[str, UUID]:
    notes = (name.removeprefix(ID_NOTE) for name in stored if name.startswith(ID_NOTE))
    found = (note.rpartition(":") for note in notes)
    return {topic: UUID(hex=topic_id) for topic, _, topic_id in found}


def places_of(stored: Mapping[str, Mapping[str, int]]) -> Places:
    return {
        TopicPartition(TopicName(topic), int(partition)): offset
        for topic, partitions in stored.items()
        if not topic.startswith(NOTE)
        for partition, offset in partitions.items()
    }


def changed_topics(before: Mapping[str, UUID], now: Mapping[str, UUID]) -> set[str]:
    """Those that were deleted and made again; of a topic without an id nothing is known."""
    return {topic for topic, known in before.items() if now.get(topic, known) != known}


def without_topics(places: Places, topics: Collection[str]) -> Places:
    return {where: offset for where, offset in places.items() if where.topic not in topics}


def with_broker(
    stored: StoredOffsets, bootstrap: str, login_file: str | None = None
) -> StoredOffsets:
    """The same, saying where the offsets are of: for listeners, which are told nothing else."""
    note = bootstrap if login_file is None else f"{bootstrap}{LOGIN_NOTE}{login_file}"
    return {**stored, f"{NOTE}{note}": {}}


def broker_of(stored: Mapping[str, Any]) -> str | None:
    notes = (name for name in stored if name.startswith(NOTE) and not name.startswith(ID_NOTE))
    return next((name.removeprefix(NOTE) for name in notes), None)
