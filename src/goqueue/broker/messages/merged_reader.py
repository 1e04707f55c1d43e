"""Reading a topic as one stream: its partitions merged by timestamp, with a cursor to go on from.

Each partition's messages stay in their order; among the partitions the one whose next message is
the oldest comes first.  With time stamps in order the result is in order, too.

A cursor says where every partition stands and, for a range of times, where each one ends.  To
callers it is opaque text; it stays good across restarts, and ends with its topic.  Damaged or
expired messages do not stop the stream: they are stepped over, and the page tells which.
"""

import asyncio
import base64
import binascii
import heapq
import math
from typing import Final, Literal
from uuid import UUID

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.long_poll import LongPoll
from goqueue.broker.messages.publish import Messages
from goqueue.broker.messages.read import DamagedRecords, UnreadableRecords, count_read, read_page
from goqueue.broker.messages.remote_partition import (
    LOOK_SECONDS,
    Readable,
    is_remote,
    readable,
    visible_end,
)
from goqueue.cluster import Topic
from goqueue.model.errors import InvalidRequest, OffsetOutOfRange, PolicyViolation
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.record import Record

PARTITIONS_MAX: Final = 1_000  # a topic with more is read a partition at a time
READ_AHEAD_RECORDS: Final = 100  # from each partition
READ_AHEAD_BYTES_MIN: Final = 16_384
CURSOR_BYTES_MAX: Final = 32_768  # as text

# In each partition: an offset, or a negative number, which counts back from the end.
Position = int | Literal["earliest", "latest"]


class Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    topic_id: UUID
    offsets: list[int]  # by partition; one that was added later starts at its beginning
    ends: list[int] | None = None  # where each partition ends, exclusive

    def to_text(self) -> str:
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode().rstrip("=")


def cursor_from_text(text: str) -> Cursor:
    """Raises `InvalidRequest` for what is no cursor."""
    if len(text) > CURSOR_BYTES_MAX:
        raise InvalidRequest(f"cursor: longer than {CURSOR_BYTES_MAX} characters")
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        cursor = msgspec.msgpack.decode(data, type=Cursor)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise InvalidRequest("cursor: this is not one that an earlier answer gave") from error
    if any(offset < 0 for offset in (*cursor.offsets, *(cursor.ends or ()))):
        raise InvalidRequest("cursor: offsets are never negative")
    return cursor


class MergedPage(msgspec.Struct, frozen=True):
    messages: list[tuple[int, Record]]  # partition and record
    cursor: Cursor
    at_end: bool
    problems: list[str]  # what had to be stepped over


class MergedReader:
    def __init__(self, broker: Broker, messages: Messages) -> None:
        self._broker = broker
        self._messages = messages

    async def start(
        self,
        name: str,
        *,
        from_time: Timestamp | None,
        to_time: Timestamp | None,
        position: Position,
    ) -> Cursor:
        """A cursor at a time, or at a position."""
        topic = self._topic(name)
        offsets: list[int] = []
        ends: list[int] = []
        for partition in await self._partitions(topic):
            if from_time is not None:
                offsets.append(await self._messages.offset_for_time(partition, from_time))
            else:
                offsets.append(await self._offset(partition, position))
            if to_time is not None:
                ends.append(await self._messages.offset_for_time(partition, to_time))
        return Cursor(topic.topic_id, offsets, ends if to_time is not None else None)

    async def _offset(self, partition: Readable, position: Position) -> int:
        first = partition.log.start_offset
        if position == "earliest":
            return first
        if isinstance(position, int) and position >= 0:
            return position
        end = await visible_end(self._broker, partition)
        return end if position == "latest" else max(first, end + position)

    async def read(
        self,
        name: str,
        cursor: Cursor,
        *,
        limit: int,
        bytes_max: int,
        poll: LongPoll | None = None,
    ) -> MergedPage:
        """The next messages of all partitions."""
        topic = self._topic(name)
        if cursor.topic_id != topic.topic_id:
            raise InvalidRequest(f"cursor: it belongs to another topic than today's {name!r}")
        partitions = await self._partitions(topic)
        page = await _merge(partitions, cursor, limit, bytes_max)
        if page.messages or page.problems or poll is None or _is_over(page.cursor):
            return page
        seconds_max = LOOK_SECONDS if is_remote(partitions) else math.inf
        with poll:
            poll.subscribe(partitions)
            while not page.messages and not page.problems and await poll.wait(seconds_max):
                page = await _merge(partitions, page.cursor, limit, bytes_max)
        return page

    def _topic(self, name: str) -> Topic:
        topic = self._broker.topic(name)
        if topic.partitions > PARTITIONS_MAX:
            raise PolicyViolation(
                f"topic {name!r} has {topic.partitions} partitions; up to {PARTITIONS_MAX} can be"
                " read as one: read it a partition at a time"
            )
        return topic

    async def _partitions(self, topic: Topic) -> list[Readable]:
        return [await readable(self._broker, topic, i) for i in range(topic.partitions)]


def _is_over(cursor: Cursor) -> bool:
    """Whether a range of times has been read to its end."""
    return cursor.ends is not None and all(
        offset >= end for offset, end in zip(cursor.offsets, cursor.ends, strict=False)
    )


async def _merge(
    partitions: list[Readable], cursor: Cursor, limit: int, bytes_max: int
) -> MergedPage:
    ahead_bytes = max(READ_AHEAD_BYTES_MIN, bytes_max // len(partitions))
    sources = [_Source(partition, cursor, ahead_bytes) for partition in partitions]
    problems: list[str] = []
    heads: list[tuple[int, int]] = []  # timestamp and partition of each one's next message
    for index, source in enumerate(sources):
        await source.fill(problems)
        if source.buffered:
            heads.append((source.buffered[-1].timestamp, index))
        await asyncio.sleep(0)  # others have their turn
    heapq.heapify(heads)
    taken: list[tuple[int, Record]] = []
    while heads and len(taken) < limit and bytes_max > 0:
        _, index = heads[0]
        source = sources[index]
        record = source.take()
        taken.append((index, record))
        bytes_max -= len(record.key or b"") + len(record.value or b"")
        await source.fill(problems)
        if source.buffered:
            heapq.heapreplace(heads, (source.buffered[-1].timestamp, index))
        else:
            heapq.heappop(heads)
    offsets: list[int] = [source.offset for source in sources]
    return MergedPage(taken, Cursor(cursor.topic_id, offsets, cursor.ends), not heads, problems)


class _Source:
    """One partition's next messages."""

    def __init__(self, partition: Readable, cursor: Cursor, ahead_bytes: int) -> None:
        index = partition.index
        self._partition = partition
        self._ahead_bytes = ahead_bytes
        self._end = _at(cursor.ends, index) if cursor.ends is not None else None
        self.buffered: list[Record] = []  # the next one last
        self.offset = _at(cursor.offsets, index)  # the next one that nobody was given
        self._read_to = self.offset
        self._is_dry = False

    def take(self) -> Record:
        record = self.buffered.pop()
        self.offset = self._read_to if not self.buffered else Offset(record.offset + 1)
        count_read(self._partition, [record])
        return record

    async def fill(self, problems: list[str]) -> None:
        """Read ahead when nothing is left."""
        while not self.buffered and not self._is_dry:
            if self._end is not None and self._read_to >= self._end:
                self._is_dry = True
                return
            try:
                page = await read_page(
                    self._partition,
                    self._read_to,
                    limit=READ_AHEAD_RECORDS,
                    bytes_max=self._ahead_bytes,
                    end=self._end,
                )
            except (DamagedRecords, UnreadableRecords) as error:
                self._skip_to(error.continue_at, problems, str(error))
                continue
            except OffsetOutOfRange as error:
                if self._read_to > self._partition.log.end_offset:
                    raise
                self._skip_to(self._partition.log.start_offset, problems, str(error))
                continue
            self.buffered = page.records[::-1]
            self._is_dry = page.at_end
            self._read_to = page.next_offset
            if not self.buffered:
                self.offset = self._read_to

    def _skip_to(self, offset: Offset, problems: list[str], problem: str) -> None:
        problems.append(f"partition {self._partition.index}: {problem}; continued at {offset}")
        self._read_to = self.offset = offset


def _at(offsets: list[int], index: int) -> Offset:
    return Offset(offsets[index]) if index < len(offsets) else Offset(0)
