"""A partition as queues read it: blocks of records, and where each priority lies.

    log bytes ──> chunk (kept: the lanes and the reader want the same one) ──> blocks
                     └──> lane index, up to the last committed record

A batch that does not hold the text `gq-ttl-ms` is a plain block: its records need not be looked at
one by one.  One that holds nothing of the lane that is asked for is not even decoded.  Aborted and
control records, and what compaction took, are in no block.

A batch may hold far more records than its size suggests, so it is decoded in slices, a block each.
From the first record that cannot be decoded to its end, a batch is one `Unreadable` record.
"""

import asyncio
import contextlib
from bisect import bisect_left
from typing import Final

import structlog

from goqueue.broker.queues.rates import Rates
from goqueue.broker.storage.partition import Partition
from goqueue.log import AbortedRange, is_aborted
from goqueue.model import batch as batches
from goqueue.model.batch import BatchHeader, RecordReader
from goqueue.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    GoQueueError,
    TopicNotFound,
    UnsupportedBatch,
)
from goqueue.model.ids import Offset
from goqueue.model.record import Buffer, Record
from goqueue.queue import LaneIndex
from goqueue.queue.header_fields import TTL_MARK
from goqueue.queue.lanes import NORMAL, PRIORITY_MARK

READ_BYTES: Final = 256 * 1024
FIND_BYTES: Final = 16 * 1024
SCAN_BYTES: Final = 1024 * 1024
SCAN_BYTES_AT_ONCE: Final = 2 * SCAN_BYTES  # for lanes, before a consumer is served without
READER_BYTES_MAX: Final = 4 * 1024 * 1024  # of a decompressed batch that is kept between slices

Kept = tuple[bytes, int, int]  # bytes, the offset asked for, the first offset behind
NOTHING: Final[Kept] = (b"", 0, 0)
UNREADABLE: Final = (CorruptBatch, UnsupportedBatch, BatchTooLarge)  # a producer's own mistakes

_log = structlog.get_logger("goqueue.queues")


class Unreadable(Record, frozen=True, gc=False, kw_only=True):
    """Stands for the part of a batch that cannot be decoded; its value is the whole batch."""

    problem: str


class RecordBlock:
    """Some records of a batch in order, and the first offset behind what was looked at."""

    __slots__ = ("batch", "is_plain", "next_offset", "records", "size")

    def __init__(
        self,
        records: list[Record],
        next_offset: int,
        batch: Buffer = b"",
        *,
        is_plain: bool = True,
        size: int = 0,
    ) -> None:
        self.records = records
        self.next_offset = next_offset
        self.batch = batch  # the bytes of all its records, and of those in blocks beside it
        self.is_plain = is_plain  # no record has a time to live of its own
        self.size = size  # the bytes of its records, about


class PartitionReader:
    """Shared by all groups of one isolation; only the event loop's thread touches it."""

    def __init__(self, partition: Partition, *, committed_only: bool = True) -> None:
        self.partition = partition
        self.committed_only = committed_only  # or messages of open and aborted transactions, too
        self.index = LaneIndex(partition.log.start_offset)
        self.is_scanning = False
        self.used_at = 0  # instant
        self.published = Rates()
        self._rated: LaneIndex | None = None  # whose numbers were looked at last, to the end
        self._kept = NOTHING
        self._reader: RecordReader | None = None  # of a batch of which there is more to read

    @property
    def limit(self) -> Offset:
        """Readers see everything below."""
        return self.partition.read_limit(committed_only=self.committed_only)

    @property
    def start(self) -> Offset:
        return self.partition.log.start_offset

    # --- lanes ------------------------------------------------------------------------------------

    def begin_at(self, floor: int) -> None:
        """The lanes must be known from `floor` on."""
        is_new = self.index.end == self.index.start
        if floor < self.index.start or (is_new and floor > self.index.end):
            self.index = LaneIndex(max(floor, self.start))

    async def scan(self, bytes_max: int) -> bool:
        """Bring the lanes up to the last committed record; False when that is too far for now."""
        if self.is_scanning:
            return False
        self.is_scanning = True
        try:
            while self.index.end < self.limit and bytes_max > 0:
                bytes_max -= await self._scan_chunk()
        finally:
            self.is_scanning = False
        return self.index.end >= self.limit

    async def scan_all(self) -> None:
        while not await self.scan(SCAN_BYTES):
            await asyncio.sleep(0)
            if self.is_scanning:
                return

    def look_at_rates(self, now: int) -> None:
        """Only between two looks at all there is: an old backlog was not published just now."""
        index = self.index
        if index.end < self.limit:
            self._rated = None
        elif self._rated is index:
            self.published.observe(index.noted, now)
        else:
            self.published.begin(index.noted, now)
            self._rated = index

    async def _scan_chunk(self) -> int:
        index = self.index
        data, next_offset = await self._read(Offset(max(index.end, self.start)), SCAN_BYTES)
        for header in batches.headers(data):
            if header.is_control or header.next_offset <= index.end:
                continue
            if header.codec != 0 or data.find(PRIORITY_MARK, header.position, header.end) >= 0:
                await self._note_lanes(index, data, header)
            index.note([], header.next_offset)
        index.note([], next_offset)
        return max(1, len(data))

    async def _note_lanes(self, index: LaneIndex, data: bytes, header: BatchHeader) -> None:
        """What cannot be decoded is of the normal lane, which tells of it."""
        with contextlib.suppress(*UNREADABLE):
            reader = await self.partition.record_reader(data, header)
            while not reader.is_done:
                index.note(reader.read(index.end), reader.next_offset)
                if not reader.is_done:
                    await asyncio.sleep(0)

    # --- records ----------------------------------------------------------------------------------

    async def read_blocks(self, offset: int, lane: int | None = None) -> list[RecordBlock]:
        """The next records at or after `offset`, in blocks; empty at the end.

        With a `lane`, only its records, from where the next one is, as far as the lanes are known.
        """
        offset = max(offset, self.start)
        limit = int(self.limit)
        if lane is not None:
            offset, limit = self._next_of(lane, offset), min(limit, self.index.end)
        if offset >= limit:
            return []
        data, next_offset = await self._read(Offset(offset), READ_BYTES)
        aborted = self._find_aborted(offset, next_offset)
        blocks: list[RecordBlock] = []
        unfolded = 0
        for header in batches.headers(data):
            if header.last_offset < offset or (lane is not None and header.next_offset > limit):
                continue
            block, size = await self._read_block(data, header, offset, aborted, lane)
            blocks.append(block)
            unfolded += size
            if block.next_offset < header.next_offset or unfolded > max(READ_BYTES, len(data)):
                return blocks  # there is more in these bytes, for the next time
        if lane is not None:
            next_offset = min(next_offset, limit)
        if not blocks or blocks[-1].next_offset < next_offset:
            blocks.append(RecordBlock([], next_offset))
        return blocks

    async def find(self, offsets: list[int]) -> dict[int, Record]:
        """These records, ascending offsets; what is missing is gone from the log."""
        found: dict[int, Record] = {}
        looked_at = int(self.start)  # everything below
        for offset in offsets:
            if offset < looked_at:
                continue
            data, looked_at = await self._read(Offset(offset), FIND_BYTES)
            aborted = self._find_aborted(offset, looked_at)
            for header in batches.headers(data):
                start = bisect_left(offsets, max(offset, header.base_offset))
                wanted = offsets[start : bisect_left(offsets, header.next_offset)]
                if wanted and not header.is_control and not is_aborted(header, aborted):
                    records = await self._find_in(data, header, frozenset(wanted))
                    found.update((record.offset, record) for record in records)
        return found

    async def _find_in(
        self, data: bytes, header: BatchHeader, wanted: frozenset[int]
    ) -> list[Record]:
        reader: RecordReader | None = None
        found: list[Record] = []
        try:
            reader = await self.partition.record_reader(data, header)
            while not reader.is_done and len(found) < len(wanted):
                found += reader.read(wanted=wanted - {each.offset for each in found})
        except UNREADABLE as error:
            lost = wanted - {each.offset for each in found}
            first = _first_unread(header, reader)
            found += [_unreadable(data, header, each, error) for each in lost if each >= first]
        return found

    def _next_of(self, lane: int, offset: int) -> int:
        if lane == NORMAL:
            return self.index.next_normal(offset) if self.index.size else offset
        found = self.index.next(lane, offset)
        return self.index.end if found is None else found

    async def _read_block(
        self,
        data: bytes,
        header: BatchHeader,
        offset: int,
        aborted: list[AbortedRange],
        lane: int | None,
    ) -> tuple[RecordBlock, int]:
        """The batch's next records from `offset` on, and how many bytes they were found in."""
        if header.is_control or is_aborted(header, aborted):
            return RecordBlock([], header.next_offset), header.size
        wanted, others = self._of_lane(header, offset, lane)
        if wanted is not None and not wanted:
            return RecordBlock([], header.next_offset), header.size
        reader: RecordReader | None = None
        try:
            reader = await self._reader_of(data, header, offset)
            records = reader.read(offset, wanted=wanted)
        except UNREADABLE as error:
            if wanted is not None:  # the normal lane tells of it
                return RecordBlock([], header.next_offset), header.size
            return self._unreadable_block(data, header, offset, reader, error), header.size
        has_more = not reader.is_done and (wanted is None or len(records) < len(wanted))
        self._reader = reader if has_more and reader.size <= READER_BYTES_MAX else None
        block = RecordBlock(
            [each for each in records if each.offset not in others] if others else records,
            reader.next_offset if has_more else header.next_offset,
            memoryview(data)[header.position : header.end],
            is_plain=header.codec == 0 and data.find(TTL_MARK, header.position, header.end) < 0,
            size=header.size * len(records) // header.count if has_more else header.size,
        )
        return block, reader.size

    def _of_lane(
        self, header: BatchHeader, offset: int, lane: int | None
    ) -> tuple[frozenset[int] | None, set[int]]:
        """Which of the batch's offsets are wanted, None for all; and which are not."""
        first, end = max(offset, header.base_offset), header.next_offset
        if lane is None or (lane == NORMAL and not self.index.size):
            return None, set()
        if lane != NORMAL:
            return frozenset(self.index.between(lane, first, end)), set()
        others = self.index.others(first, end)
        return (frozenset() if len(others) == end - first else None), others

    async def _reader_of(self, data: bytes, header: BatchHeader, offset: int) -> RecordReader:
        reader = self._reader
        if (
            reader is not None
            and reader.header.base_offset == header.base_offset
            and reader.next_offset <= offset
        ):
            return reader
        return await self.partition.record_reader(data, header)

    def _unreadable_block(
        self,
        data: bytes,
        header: BatchHeader,
        offset: int,
        reader: RecordReader | None,
        error: GoQueueError,
    ) -> RecordBlock:
        first = max(offset, _first_unread(header, reader))
        _log.error(
            "messages that cannot be decoded become one dead letter",
            partition=str(self.partition),
            first_offset=first,
            last_offset=header.last_offset,
            problem=str(error),
        )
        record = _unreadable(data, header, first, error)
        return RecordBlock([record], header.next_offset, is_plain=False)

    def _find_aborted(self, first: int, end: int) -> list[AbortedRange]:
        aborted = self.partition.log.aborted
        if not self.committed_only or not aborted.count:
            return []
        return aborted.between(Offset(first), Offset(end))

    async def _read(self, offset: Offset, bytes_max: int) -> tuple[bytes, int]:
        """Whole batches from the one that holds `offset`, and the first offset behind them."""
        data, first, next_offset = self._kept
        if first <= offset < next_offset <= self.limit:
            return data, next_offset
        if self.partition.log.abandoned:
            raise TopicNotFound(f"topic {self.partition.topic!r} was deleted")
        chunk = await self.partition.read(offset, bytes_max, self.limit)
        self._kept = bytes(chunk.data), offset, chunk.next_offset
        return self._kept[0], chunk.next_offset

    def evict(self) -> None:
        """Let go of what can be read again."""
        self._kept = NOTHING
        self._reader = None


def _first_unread(header: BatchHeader, reader: RecordReader | None) -> int:
    return header.base_offset if reader is None else reader.next_offset


def _unreadable(data: bytes, header: BatchHeader, first: int, error: GoQueueError) -> Unreadable:
    return Unreadable(
        first,
        header.max_timestamp,
        None,
        data[header.position : header.end],
        problem=f"offsets {first} to {header.last_offset} cannot be decoded: {error}",
    )
