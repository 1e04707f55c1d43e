"""What the logs themselves say of a message, whatever became of its events.

The message is in the log, with its time and its headers: a `traceparent`, where a dead letter comes
from, where a delayed message waited.  What an event tells better is left to it.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.messages.read import read_page
from goqueue.broker.messages.remote_partition import Readable, offset_for_time, readable
from goqueue.cluster import Topic
from goqueue.delay import source_offset
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.partitioner import murmur2_partition
from goqueue.model.record import Record
from goqueue.queue.dead_letter import FailureHistory, read_failure_history
from goqueue.trace.events import NAMES, UNKNOWN, Place, Space, Step, TraceEvent
from goqueue.trace.ids import TRACEPARENT, TraceParent, parse_traceparent, span_id
from goqueue.trace.journeys import JourneyStep
from goqueue.trace.selection import TraceQuery

RECORD_BYTES: Final = 4 * 1024 * 1024
PAGE_RECORDS: Final = 2_000
KEY_RECORDS_MAX: Final = 200_000  # that are looked at for a key
DAY_MS: Final = 86_400_000


class MessageSource(msgspec.Struct, frozen=True):
    """A message that is in the log."""

    place: Place
    topic: str
    timestamp: int
    parent: TraceParent | None = None
    origin: Place | None = None
    failure: FailureHistory | None = None

    def missing_steps(self, events: Sequence[TraceEvent]) -> list[JourneyStep]:
        """Those that no event tells of."""
        steps = list[JourneyStep]()
        told = {event.step for event in events if event.holds(self.place)}
        if not told & {Step.PUBLISHED, Step.PUBLISH_PERSISTED} and self.timestamp >= 0:
            steps.append(self._derive(Step.PUBLISH_PERSISTED, self.timestamp))
        failure, origin = self.failure, self.origin
        if failure is None or origin is None:
            return steps
        if not any(event.step == Step.DLQ_ROUTED and event.holds(origin) for event in events):
            routed = self._derive(Step.DLQ_ROUTED, failure.died_at)
            steps.append(
                msgspec.structs.replace(
                    routed,
                    topic=failure.topic,
                    partition=failure.partition,
                    offset=failure.offset,
                    group=failure.group_id,
                    member=failure.consumer,
                    attempt=failure.attempts,
                    error=failure.error,
                    detail=failure.reason,
                    link_topic=self.topic,
                    link_partition=self.place.partition,
                    link_offset=self.place.offset,
                )
            )
        return steps

    def _derive(self, step: Step, time_ms: int) -> JourneyStep:
        return JourneyStep(
            NAMES[step],
            step,
            time_ms * 1000,
            self.topic,
            self.place.partition,
            self.place.offset,
            self.place.space,
            UNKNOWN,
            span_id("log", self.topic, step, *self.place[1:]),
            is_derived=True,
        )


class MessageSources:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def find(self, place: Place) -> MessageSource | None:
        """None: it is not there any more, or its leader is not reached."""
        if place.space != Space.DATA:
            return None
        try:
            topic = self._broker.topic_by_id(UUID(bytes=place.topic_id))
            partition = await readable(self._broker, topic, place.partition)
            record = await _read_one(partition, place.offset)
        except GoQueueError:
            return None
        if record is None:
            return None
        return self._describe(topic, place, record)

    def _describe(self, topic: Topic, place: Place, record: Record) -> MessageSource:
        parent = next(
            (parse_traceparent(value) for name, value in record.headers if name == TRACEPARENT),
            None,
        )
        failure, origin = read_failure_history(record, topic.name), None
        if failure is not None:
            source = self._broker.metadata.find(failure.topic)
            if source is not None:
                origin = Place(source.topic_id.bytes, failure.partition, failure.offset)
        else:
            delayed = source_offset(record)
            if delayed is not None:
                origin = Place(place.topic_id, place.partition, delayed, Space.DELAYS)
        return MessageSource(place, topic.name, record.timestamp, parent, origin, failure)

    async def with_key(
        self, topic: Topic, key: bytes, query: TraceQuery
    ) -> tuple[list[tuple[int, int]], bool]:
        """Partitions and offsets, the newest first; and whether all of the time was looked at.

        In the partition that Kafka's clients choose for the key, unless the query says another.
        """
        index = query.partition
        if index is None:
            index = murmur2_partition(key, topic.partitions)
        partition = await readable(self._broker, topic, index)
        start_ms = query.start_us // 1000 or self._broker.environment.clock.now() - DAY_MS
        found_at = await offset_for_time(self._broker, partition, Timestamp(start_ms))
        if found_at is None:
            return [], True
        offset, found, left = Offset(found_at), list[tuple[int, int]](), KEY_RECORDS_MAX
        while left > 0:
            page = await read_page(partition, offset, limit=PAGE_RECORDS, bytes_max=RECORD_BYTES)
            found += [(index, each.offset) for each in page.records if each.key == key]
            left -= max(1, len(page.records))
            offset = page.next_offset
            if page.at_end:
                break
        return found[::-1], left > 0


async def _read_one(partition: Readable, offset: int) -> Record | None:
    page = await read_page(partition, Offset(offset), limit=1, bytes_max=RECORD_BYTES)
    if page.records and page.records[0].offset == offset:
        return page.records[0]
    return None
