"""What every publish does before it writes: check the messages, choose partitions, cut batches."""

from collections.abc import Iterator, Sequence
from typing import Final

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.cluster import Topic
from goqueue.model.batch import HEADER_BYTES
from goqueue.model.errors import (
    GoQueueError,
    InvalidRecord,
    InvalidTimestamp,
    PartitionNotFound,
)
from goqueue.model.ids import Timestamp, TopicId
from goqueue.model.partitioner import murmur2_partition

RECORD_OVERHEAD_MAX: Final = 36  # bytes of a record beside key, value and headers
HEADER_OVERHEAD_MAX: Final = 10  # bytes of a header beside its name and value
REMEMBERED_TOPICS_MAX: Final = 10_000  # whose next partition for keyless messages is known


def partition_of(message: OutgoingMessage, topic: Topic) -> int | None:
    """The partition that the message names, or else that of its key; None if it has neither."""
    if message.partition is not None:
        return message.partition
    return None if message.key is None else murmur2_partition(message.key, topic.partitions)


class PartitionRotation:
    """Partitions in turn, for messages that could go to any; one for all of a request."""

    def __init__(self) -> None:
        self._turns: dict[TopicId, int] = {}

    def next_partition(self, topic: Topic) -> int:
        turn = self._turns.get(topic.topic_id, 0)
        if len(self._turns) >= REMEMBERED_TOPICS_MAX:
            self._turns.clear()
        self._turns[topic.topic_id] = turn + 1
        return turn % topic.partitions


class MessageCheck:
    """What a topic's settings say about single messages, so that one of them fails alone."""

    def __init__(self, topic: Topic, now: Timestamp) -> None:
        settings = topic.settings
        self._topic = topic
        self.needs_key = settings.is_compacted
        self._latest = now + settings.message_timestamp_after_max_ms
        self._earliest = max(0, now - settings.message_timestamp_before_max_ms)
        self._ignores_time = settings.stamps_append_time

    def problem(self, message: OutgoingMessage) -> GoQueueError | None:
        if message.partition is not None:
            try:
                self._topic.check_partition(message.partition)
            except PartitionNotFound as error:
                return error
        if message.timestamp is not None and not self._takes_time(message.timestamp):
            return InvalidTimestamp(
                f"timestamp {message.timestamp} is outside {self._earliest} to {self._latest}"
                " (topic settings message.timestamp.before.max.ms and .after.max.ms)"
            )
        if self.needs_key and message.key is None:
            return InvalidRecord("a compacted topic takes only messages with a key")
        return None

    def _takes_time(self, timestamp: int) -> bool:
        return self._ignores_time or self._earliest <= timestamp <= self._latest


def fitting_runs(
    messages: Sequence[OutgoingMessage], places: list[int], bytes_max: int
) -> Iterator[list[int]]:
    """Runs of places that surely fit a batch; one that is too large by itself stands alone."""
    some: list[int] = []
    size = HEADER_BYTES
    for place in places:
        needed = _size_max(messages[place])
        if some and size + needed > bytes_max:
            yield some
            some, size = [], HEADER_BYTES
        some.append(place)
        size += needed
    if some:
        yield some


def _size_max(message: OutgoingMessage) -> int:
    size = RECORD_OVERHEAD_MAX + len(message.key or b"") + len(message.value or b"")
    for name, value in message.headers:
        size += HEADER_OVERHEAD_MAX + 4 * len(name) + len(value or b"")
    return size
