"""Offsets as Spark keeps them in checkpoints and reports: `{"orders": {"0": 42, "1": 17}}`."""

from collections.abc import Mapping
from typing import Any, Final

from goqueue.model.ids import TopicName, TopicPartition
from goqueue.spark.source.positions import Places

BROKER_MARK: Final = "@"

StoredOffsets = dict[str, dict[str, int]]


def stored_offsets(places: Mapping[TopicPartition, int]) -> StoredOffsets:
    """In an order that does not depend on who asks: Spark compares the text."""
    topics: StoredOffsets = {}
    for (topic, partition), offset in sorted(places.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def places_of(stored: Mapping[str, Mapping[str, int]]) -> Places:
    return {
        TopicPartition(TopicName(topic), int(partition)): offset
        for topic, partitions in stored.items()
        if not topic.startswith(BROKER_MARK)
        for partition, offset in partitions.items()
    }


def with_broker(stored: StoredOffsets, bootstrap: str) -> StoredOffsets:
    """The same, saying where the offsets are of: for listeners, which are told nothing else."""
    return {**stored, f"{BROKER_MARK}{bootstrap}": {}}


def broker_of(stored: Mapping[str, Any]) -> str | None:
    found = (name for name in stored if name.startswith(BROKER_MARK))
    return next((name.removeprefix(BROKER_MARK) for name in found), None)
