"""A partition as queues read it: lots of records, and where each priority lies.

    log bytes ──> chunk (kept: the lanes and the reader want the same one) ──> lots
                     └──> lane index, up to the last committed record

A batch that does not hold the text `gq-ttl-ms` is a plain lot: its records need not be looked at
one by one.  One that holds nothing of the lane that is asked for is not even decoded.  Aborted and
control records, and what compaction took, are in no lot.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

import structlog

from goqueue.broker.partition import Partition
from goqueue.broker.queue_rates import Rates
from goqueue.log.aborted import AbortedRange
from goqueue.model import batch as batches
from goqueue.model.batch import BatchHeader
from goqueue.model.errors import BatchTooLarge, CorruptBatch, TopicNotFound, UnsupportedBatch
from goqueue.model.ids import Offset
from goqueue.model.record import Buffer, Record
from goqueue.queue.lane_index import MARK, LaneIndex
from goqueue.queue.lanes import NORMAL
from goqueue.queue.marks import TTL_MARK

READ_BYTES: Final = 256 * 1024
FIND_BYTES: Final = 16 * 1024
SCAN_BYTES: Final = 1024 * 1024
SCAN_BYTES_AT_ONCE: Final = 2 * SCAN_BYTES  # for lanes, before a consumer is served without

Kept = tuple[bytes, int, int]  # bytes, the offset asked for, the first offset behind
NOTHING: Final[Kept] = (b"", 0, 0)

_log = structlog.get_logger("goqueue.queues")


class Lot:
    """Some records of a batch in order, and the first offset behind what was looked at."""

    __slots__ = ("batch", "is_plain", "next_offset", "records")

    def __init__(
        self, records: list[Record], next_offset: int, batch: Buffer = b"", *, is_plain: bool = True
    ) -> None:
        self.records = records
        self.next_offset = next_offset
        self.batch = batch  # the bytes of all its records
        self.is_plain = is_plain  # no record has a time to live of its own


class Stock:
    """Shared by all groups; only the event loop's thread touches it."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.index = LaneIndex(partition.log.start_offset)
        self.is_scanning = False
        self.used_at = 0  # instant
        self.published = Rates()
        self._rated: LaneIndex | None = None  # whose numbers were looked at last, to the end
        self._kept = NOTHING

    @property
    def limit(self) -> Offset:
        """Readers see everything below."""
        return self.partition.log.stable_offset

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
        for header in _headers(data):
            if header.is_control or header.next_offset <= index.end:
                continue
            may_have = header.codec != 0 or data.find(MARK, header.position, header.end) >= 0
            index.note(self._decoded(data, header) if may_have else [], header.next_offset)
        index.note([], next_offset)
        return max(1, len(data))

    # --- records ----------------------------------------------------------------------------------

    async def lots_from(self, offset: int, lane: int | None = None) -> list[Lot]:
        """The next records at or after `offset`, in lots; empty at the end.

        With a `lane`, only its records, from where the next one is, as far as the lanes are known.
        """
        offset = max(offset, self.start)
        limit = int(self.limit)
        if lane is not None:
            offset, limit = self._next_of(lane, offset), min(limit, self.index.end)
        if offset >= limit:
            return []
        data, next_offset = await self._read(Offset(offset), READ_BYTES)
        aborted = self._aborted(offset, next_offset)
        lots = [
            self._lot(data, header, offset, aborted, lane)
            for header in _headers(data)
            if header.last_offset >= offset and (lane is None or header.next_offset <= limit)
        ]
        if lane is not None:
            next_offset = min(next_offset, limit)
        if not lots or lots[-1].next_offset < next_offset:
            lots.append(Lot([], next_offset))
        return lots

    async def find(self, offsets: list[int]) -> dict[int, Record]:
        """These records, ascending offsets; what is missing is gone from the log."""
        found: dict[int, Record] = {}
        looked_at = int(self.start)  # everything below
        for offset in offsets:
            if offset < looked_at:
                continue
            data, looked_at = await self._read(Offset(offset), FIND_BYTES)
            aborted = self._aborted(offset, looked_at)
            for header in _headers(data):
                start = bisect_left(offsets, max(offset, header.base_offset))
                wanted = offsets[start : bisect_left(offsets, header.next_offset)]
                if wanted and not header.is_control and not _is_aborted(header, aborted):
                    records = self._decoded(data, header, frozenset(wanted))
                    found.update((record.offset, record) for record in records)
        return found

    def _next_of(self, lane: int, offset: int) -> int:
        if lane == NORMAL:
            return self.index.next_normal(offset) if self.index.size else offset
        found = self.index.next(lane, offset)
        return self.index.end if found is None else found

    def _lot(
        self,
        data: bytes,
        header: BatchHeader,
        offset: int,
        aborted: list[AbortedRange],
        lane: int | None,
    ) -> Lot:
        records: list[Record] = []
        if not header.is_control and not _is_aborted(header, aborted):
            records = _from(self._of_lane(data, header, lane), offset)
        is_plain = header.codec == 0 and data.find(TTL_MARK, header.position, header.end) < 0
        batch = memoryview(data)[header.position : header.end]
        return Lot(records, header.next_offset, batch, is_plain=is_plain)

    def _of_lane(self, data: bytes, header: BatchHeader, lane: int | None) -> list[Record]:
        first, end = header.base_offset, header.next_offset
        if lane is None or (lane == NORMAL and not self.index.size):
            return self._decoded(data, header)
        if lane == NORMAL:
            others = self.index.others(first, end)
            if len(others) == header.count:
                return []
            records = self._decoded(data, header)
            return [each for each in records if each.offset not in others] if others else records
        wanted = self.index.between(lane, first, end)
        if not wanted:
            return []
        return [each for each in self._decoded(data, header) if each.offset in wanted]

    def _decoded(
        self, data: bytes, header: BatchHeader, wanted: frozenset[int] | None = None
    ) -> list[Record]:
        """The batch's records; none when a producer put something into it that cannot be read."""
        try:
            return batches.decode(data, header, wanted)
        except (CorruptBatch, UnsupportedBatch, BatchTooLarge) as error:
            _log.error(
                "messages that cannot be decoded are passed over",
                partition=str(self.partition),
                first_offset=header.base_offset,
                last_offset=header.last_offset,
                problem=str(error),
            )
            return []

    def _aborted(self, first: int, end: int) -> list[AbortedRange]:
        aborted = self.partition.log.aborted
        return aborted.between(Offset(first), Offset(end)) if aborted.count else []

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

    def rest(self) -> None:
        """Let go of what can be read again."""
        self._kept = NOTHING


def _headers(data: bytes) -> Iterator[BatchHeader]:
    position = 0
    while position < len(data):
        header = batches.header_at(data, position)
        yield header
        position = header.end


def _from(records: list[Record], offset: int) -> list[Record]:
    if not records or records[0].offset >= offset:
        return records
    return [record for record in records if record.offset >= offset]


def _is_aborted(header: BatchHeader, aborted: list[AbortedRange]) -> bool:
    return header.is_transactional and any(
        each.producer_id == header.producer_id
        and each.first_offset <= header.base_offset < each.marker_offset
        for each in aborted
    )
