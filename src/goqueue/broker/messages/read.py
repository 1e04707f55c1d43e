"""Reading messages: records of one partition, from an offset, up to an end.

Readers see what is committed, and may wait for more (`broker/long_poll.py`).  A partition that
another node leads is read there.
"""

import asyncio
from typing import Final
from uuid import UUID

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.cluster.other_nodes import Verb
from goqueue.broker.long_poll import LongPoll
from goqueue.broker.messages.remote_partition import Readable, RemotePartition
from goqueue.broker.storage.partition import Partition
from goqueue.log import AbortedRange, is_aborted
from goqueue.model import batch as batches
from goqueue.model.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    CorruptData,
    GoQueueError,
    OffsetOutOfRange,
    TopicNotFound,
    UnsupportedBatch,
)
from goqueue.model.ids import NodeId, Offset
from goqueue.model.record import Record

READ_BYTES_MIN: Final = 65_536
RECORD_BYTES_GUESS: Final = 512
READ_THERE_BYTES_MAX: Final = 4 * 1024 * 1024  # from another node at once; a frame holds 16 MiB


class Page(msgspec.Struct, frozen=True):
    """Some records of a partition and where to go on."""

    records: list[Record]
    next_offset: Offset
    start_offset: Offset
    high_watermark: Offset  # committed readers see everything below it
    at_end: bool  # nothing more was there to read


class PageThere(msgspec.Struct, frozen=True):
    """A page of another node's partition, or what could not be read."""

    page: Page | None = None
    problem: str = ""
    is_damaged: bool = False  # else it is as its producer sent it
    continue_at: Offset = Offset(0)


class ReadHere(Verb[PageThere], frozen=True):
    name = "read_partition"
    reply_type = PageThere

    topic_id: UUID
    partition: int
    offset: Offset
    limit: int
    bytes_max: int
    end: Offset | None


class DamagedRecords(CorruptData):
    """Stored records that cannot be read; `continue_at` is the first offset behind them."""

    def __init__(self, text: str, continue_at: Offset) -> None:
        super().__init__(text)
        self.continue_at = continue_at


class UnreadableRecords(CorruptBatch):
    """Records that cannot be decoded, stored as their producer sent them: nothing is damaged.

    `continue_at` is the first offset behind them.
    """

    code = "unreadable_records"

    def __init__(self, text: str, continue_at: Offset) -> None:
        super().__init__(text)
        self.continue_at = continue_at


async def read(
    partition: Partition,
    offset: Offset,
    *,
    limit: int,
    bytes_max: int,
    end: Offset | None = None,
    poll: LongPoll | None = None,
) -> Page:
    """Records from `offset`, at most `limit` and about `bytes_max` bytes, all below `end`.

    Raises `OffsetOutOfRange`, `DamagedRecords`, `UnreadableRecords`, or `TopicNotFound` once
    it is deleted.
    """
    page = await read_page(partition, offset, limit=limit, bytes_max=bytes_max, end=end)
    if page.records or poll is None or _is_reached(page.next_offset, end):
        count_read(partition, page.records)
        return page
    with poll:
        poll.subscribe([partition])
        while (
            not page.records
            and not _is_reached(page.next_offset, end)
            and (not page.at_end or await poll.wait())  # only aborted ones so far: go on
        ):
            page = await read_page(
                partition, page.next_offset, limit=limit, bytes_max=bytes_max, end=end
            )
    count_read(partition, page.records)
    return page


async def read_here(broker: Broker, _: NodeId, request: ReadHere) -> PageThere:
    """For another node: of a partition that this one leads."""
    topic = broker.topic_by_id(request.topic_id)
    partition = await broker.partition(topic.name, request.partition)
    try:
        page = await read_page(
            partition,
            request.offset,
            limit=request.limit,
            bytes_max=request.bytes_max,
            end=request.end,
        )
    except (DamagedRecords, UnreadableRecords) as error:
        is_damaged = isinstance(error, DamagedRecords)
        return PageThere(None, str(error), is_damaged, error.continue_at)
    return PageThere(page)


def _is_reached(offset: Offset, end: Offset | None) -> bool:
    return end is not None and offset >= end


def count_read(
    partition: Readable, records: list[Record], group: str = "", member: str = ""
) -> None:
    """A reader was given these."""
    if records and partition.tracer is not None:
        first, last = records[0].offset, records[-1].offset
        partition.tracer.note_fetched(first, last, group, member)
    partition.messages_out += len(records)
    partition.bytes_out += sum(
        len(record.key or b"") + len(record.value or b"") for record in records
    )


async def _read_there(
    partition: RemotePartition, offset: Offset, limit: int, bytes_max: int, end: Offset | None
) -> Page:
    request = ReadHere(
        partition.topic_id,
        partition.index,
        offset,
        limit,
        min(bytes_max, READ_THERE_BYTES_MAX),
        end,
    )
    found = await partition.others.ask(partition.leader, request)
    if found.page is not None:
        return found.page
    kind = DamagedRecords if found.is_damaged else UnreadableRecords
    raise kind(found.problem, found.continue_at)


async def read_page(
    partition: Readable,
    offset: Offset,
    *,
    limit: int,
    bytes_max: int,
    end: Offset | None = None,
) -> Page:
    """As `read`, without waiting, and nobody was given anything yet."""
    if isinstance(partition, RemotePartition):
        return await _read_there(partition, offset, limit, bytes_max, end)
    log = partition.log
    if log.abandoned:
        raise TopicNotFound(f"topic {partition.topic!r} was deleted")
    partition.check_leader()
    if not log.start_offset <= offset <= log.end_offset:
        raise OffsetOutOfRange(
            f"offset {offset} is outside {log.start_offset} to {log.end_offset}"
            f" of {partition.topic!r} partition {partition.index}"
        )
    if offset >= log.high_watermark and log.failed is None:
        await partition.flush_visible()  # a reader at the end asks for what is written
    else:
        await partition.settle()
    stop = partition.read_limit(committed_only=True)
    if end is not None:
        stop = min(stop, end)
    filling = _Filling(offset, limit, bytes_max, stop)
    while not filling.is_full and filling.offset < stop:
        try:
            chunk = await partition.read(filling.offset, filling.bytes_wanted, stop)
            aborted = log.aborted.between(filling.offset, chunk.next_offset)
            await filling.take(partition, chunk.data, chunk.next_offset, aborted)
        except (CorruptData, UnreadableRecords) as error:
            if filling.records:
                break  # the reader gets what is sound, and the error when it comes back
            raise _describe_damage(error, partition, filling.offset) from error
    return Page(
        filling.records,
        filling.offset,
        log.start_offset,
        partition.read_limit(committed_only=True),
        filling.offset >= stop,
    )


class _Filling:
    """A page while it is being filled."""

    def __init__(self, offset: Offset, limit: int, bytes_max: int, stop: Offset) -> None:
        self.records: list[Record] = []
        self.offset = offset  # the next one to look at
        self.bytes_left = bytes_max
        self._limit = limit
        self._stop = stop

    @property
    def is_full(self) -> bool:
        return len(self.records) >= self._limit or self.bytes_left <= 0

    @property
    def bytes_wanted(self) -> int:
        """A guess at what the records that are still missing take on disk."""
        missing = self._limit - len(self.records)
        return min(self.bytes_left, max(READ_BYTES_MIN, missing * RECORD_BYTES_GUESS))

    async def take(
        self, partition: Partition, data: Buffer, next_offset: Offset, aborted: list[AbortedRange]
    ) -> None:
        """Take what fits from whole batches that end before `next_offset`."""
        for header in batches.headers(data):
            if not header.is_control and not is_aborted(header, aborted):
                await self._take_batch(partition, data, header)
            if self.is_full or self.offset >= self._stop:
                return
            self.offset = header.next_offset
            self.bytes_left -= HEADER_BYTES
        self.offset = next_offset

    async def _take_batch(self, partition: Partition, data: Buffer, header: BatchHeader) -> None:
        """Its bytes are sound, but what a producer put into them may be not."""
        try:
            reader = await partition.record_reader(data, header)
            while not reader.is_done:
                wanted = min(self._limit - len(self.records), batches.SLICE_OBJECTS)
                for record in reader.read(self.offset, wanted):
                    if record.offset >= self._stop or not self._add(record):
                        return
                if not reader.is_done:
                    await asyncio.sleep(0)  # let others have their turn
        except (CorruptBatch, UnsupportedBatch, BatchTooLarge) as error:
            raise UnreadableRecords(
                f"offsets {self.offset} to {header.last_offset} cannot be decoded, although they"
                f" are as the producer sent them: {error}; continue at offset {header.next_offset}",
                header.next_offset,
            ) from error

    def _add(self, record: Record) -> bool:
        """Whether there is room for more after it."""
        self.records.append(record)
        self.offset = Offset(record.offset + 1)
        self.bytes_left -= len(record.key or b"") + len(record.value or b"")
        if record.headers:
            self.bytes_left -= sum(len(name) + len(value or b"") for name, value in record.headers)
        return not self.is_full


def _describe_damage(
    error: GoQueueError, partition: Partition, offset: Offset
) -> DamagedRecords | UnreadableRecords:
    if isinstance(error, DamagedRecords | UnreadableRecords):
        return error
    last = partition.log.damaged.get(offset)
    continue_at = Offset(offset + 1) if last is None else Offset(last + 1)
    return DamagedRecords(str(error), continue_at)
