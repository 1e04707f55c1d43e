"""Several partitions read together, without I/O: which page to ask for, which message comes next.

    reading.missing() ── ask for these pages ── reading.take(partition, page) ── reading.ready()

Up to the end the messages of all partitions are merged by their time (a partition's own order is
never changed), so one is given when every partition that is not finished has one to compare.
"""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, Protocol

from goqueue.api.messages import MessagePage, TopicMessages
from goqueue.api.topics import TopicDetail
from goqueue.client.http.calls import topics
from goqueue.client.http.calls.call import Call
from goqueue.client.http.messages import Received, from_wire
from goqueue.client.http.results import Page

PAGE_MESSAGES: Final = 1000
log = logging.getLogger("goqueue.client")
Position = int | Literal["earliest", "latest"]  # a negative number counts back from the end


class PartitionReading:
    """One partition: where it is, and what was fetched and not yet given."""

    def __init__(
        self,
        topic: str,
        partition: int,
        start: Position,
        *,
        from_time: int | None = None,
        to_time: int | None = None,
        page_messages: int = PAGE_MESSAGES,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.buffer: deque[Received] = deque()
        self.is_finished = False  # nothing more to fetch, for a reader that stops at the end
        self.has_moved = True  # by the last page: then the next one may be full, too
        self._next: Position = start
        self._from_time = from_time  # instead of an offset, until the first page is there
        self._to_time = to_time
        self._end: int | None = None  # where the partition ended when reading began
        self._page_messages = page_messages

    def call(self, wait_ms: int = 0) -> Call[MessagePage]:
        return topics.fetch(
            self.topic,
            self.partition,
            offset=None if self._from_time is not None else self._next,
            from_time=self._from_time,
            to_time=self._to_time,
            limit=self._page_messages,
            wait_ms=wait_ms,
        )

    def take(self, wire: MessagePage) -> None:
        page = page_of(wire, self.topic)
        self.buffer.extend(page.messages)
        if self._end is None:
            self._end = wire.high_watermark
        self.has_moved = page.next_offset != self._next
        stalled = not page.messages and not self.has_moved
        self._next = page.next_offset
        self._from_time = None
        past_end = page.next_offset >= self._end
        self.is_finished = past_end or wire.at_end or stalled

    def drain(self) -> Iterator[Received]:
        while self.buffer:
            yield self.buffer.popleft()


class Reading:
    """All partitions of a read that stops at the end, or after `limit` messages."""

    def __init__(self, partitions: Sequence[PartitionReading], limit: int | None = None) -> None:
        self._partitions = list(partitions)
        self._left = limit

    def missing(self) -> list[PartitionReading]:
        """Those whose next page is needed before anything more can be given."""
        return [each for each in self._partitions if not each.buffer and not each.is_finished]

    @property
    def is_finished(self) -> bool:
        if self._left == 0:
            return True
        return all(each.is_finished and not each.buffer for each in self._partitions)

    def ready(self) -> Iterator[Received]:
        while not self.is_finished and not self.missing():
            held = [each.buffer for each in self._partitions if each.buffer]
            if self._left is not None:
                self._left -= 1
            yield min(held, key=_first_time).popleft()


class Following(Protocol):
    """What `follow` asks next, and the messages in the answer."""

    def call(self, wait_ms: int) -> Call[Any]: ...

    def take(self, wire: Any) -> list[Received]: ...


class TopicFollowing:
    """All partitions of a topic from a position on, without end, with one request at a time."""

    def __init__(self, topic: str, start: Position | None, from_time: int | None) -> None:
        self._topic = topic
        self._start = None if from_time is not None else start
        self._from_time = from_time
        self._cursor: str | None = None

    def call(self, wait_ms: int) -> Call[TopicMessages]:
        """The first one does not wait: `latest` is settled as soon as it is answered."""
        if self._cursor is None:
            return topics.read_topic(
                self._topic, start=self._start, from_time=self._from_time, limit=PAGE_MESSAGES
            )
        return topics.read_topic(
            self._topic, cursor=self._cursor, limit=PAGE_MESSAGES, wait_ms=wait_ms
        )

    def take(self, wire: TopicMessages) -> list[Received]:
        self._cursor = wire.cursor
        for problem in wire.problems:
            log.warning("messages of topic %s were skipped: %s", self._topic, problem)
        return [from_wire(message, self._topic) for message in wire.messages]


class PartitionFollowing:
    """The same of one partition."""

    def __init__(self, reading: PartitionReading) -> None:
        self._reading = reading

    def call(self, wait_ms: int) -> Call[MessagePage]:
        return self._reading.call(0 if self._reading.has_moved else wait_ms)

    def take(self, wire: MessagePage) -> list[Received]:
        self._reading.take(wire)
        return list(self._reading.drain())


def _first_time(buffer: deque[Received]) -> tuple[int, int]:
    return buffer[0].timestamp, buffer[0].partition


def partitions_of(
    topic: TopicDetail,
    partition: int | None,
    start: Position | None,
    *,
    from_time: int | None = None,
    to_time: int | None = None,
    page_messages: int = PAGE_MESSAGES,
) -> list[PartitionReading]:
    """The partitions to read, each at its start."""
    indexes = range(topic.partitions) if partition is None else [partition]
    return [
        PartitionReading(
            topic.name,
            index,
            _start_of(topic, index, start),
            from_time=from_time,
            to_time=to_time,
            page_messages=page_messages,
        )
        for index in indexes
    ]


def _start_of(topic: TopicDetail, partition: int, start: Position | None) -> Position:
    offsets = topic.partition_offsets.get(partition)
    if start is None:
        return "earliest"
    if isinstance(start, int) and start < 0 and offsets is not None:
        return max(offsets.earliest, offsets.next_offset + start)
    return start


def following_topic(topic: str, start: Position | None, from_time: int | None) -> Following:
    return TopicFollowing(topic, start, from_time)


def following_partition(
    topic: TopicDetail, partition: int, start: Position | None, from_time: int | None
) -> Following:
    (chosen,) = partitions_of(topic, partition, start, from_time=from_time)
    return PartitionFollowing(chosen)


def page_of(wire: MessagePage, topic: str) -> Page:
    return Page([from_wire(message, topic) for message in wire.messages], wire.next_offset)
