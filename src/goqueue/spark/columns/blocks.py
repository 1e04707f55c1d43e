"""From fetched bytes to the record blocks that are to be read.

A fetch answers with whole batches that overlap what was asked for, and often one more that is cut
short.  `Walk` gives the batches whose records count: checksum right, not a control batch, not of
an aborted transaction.  `collect` then lays their records, decompressed, into one buffer for the
decoders, which know nothing of batches.

Compressed bytes may unfold a thousandfold, and Arrow's columns end at 2 GiB.  So a collection
takes no more than some batches' worth; what is left is said by `more`.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from goqueue.model import compression, markers
from goqueue.model.batch import (
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    BatchHeader,
    Buffer,
    batch_size_at,
    verified_header_at,
)
from goqueue.model.errors import BatchTooLarge, CorruptBatch
from goqueue.spark.columns.fields import Integers

COLLECTED_BYTES = 128 * 1024 * 1024  # no further batch is taken beyond this
BLOCK_BYTES_MAX = 1024 * 1024 * 1024
ROWS_MAX = 8_000_000  # times the longest topic name it stays below 2 GiB

_RECORD_BYTES_MIN = 7
_OFFSET_MAX = 2**63 - 2**31

Aborted = Sequence[tuple[int, int]]  # producer id, first offset of the transaction


class Walk:
    """The batches of `raw` that have records for a reader of offsets `start` to `end`."""

    def __init__(
        self, raw: Buffer, *, start: int, end: int, aborted: Aborted, read_committed: bool
    ) -> None:
        self.next_offset = start  # every batch below was given or is not for this reader
        self._raw = raw
        self._start = start
        self._end = end
        self._read_committed = read_committed
        # Aborted transactions by first offset, the next one last; and whose has begun.
        self._ahead = sorted(aborted, key=lambda each: each[1], reverse=True)
        self._aborting: set[int] = set()

    def __iter__(self) -> Iterator[BatchHeader]:
        """`next_offset` passes a batch when the one after it is asked for."""
        position = 0
        lowest = 0
        while self._is_whole(position):
            header = verified_header_at(self._raw, position)
            _check_offsets(header, lowest)
            if header.base_offset >= self._end:
                self.next_offset = self._end
                return
            if self._counts(header) and header.last_offset >= self._start:
                yield header
            lowest = header.next_offset
            self.next_offset = max(self._start, min(self._end, lowest))
            position = header.end
        if position == 0 and len(self._raw):
            raise CorruptBatch(
                f"{len(self._raw)} bytes were fetched at offset {self._start}, and no whole batch"
                " is in them, although brokers send the first one whole"
            )

    def _is_whole(self, position: int) -> bool:
        left = len(self._raw) - position
        return left >= LENGTH_OVERHEAD and batch_size_at(self._raw, position) <= left

    def _counts(self, header: BatchHeader) -> bool:
        if self._read_committed:
            while self._ahead and self._ahead[-1][1] <= header.last_offset:
                self._aborting.add(self._ahead.pop()[0])
        if header.is_control:
            self._end_transaction(header)
            return False
        return not (header.is_transactional and header.producer_id in self._aborting)

    def _end_transaction(self, header: BatchHeader) -> None:
        if header.producer_id not in self._aborting:
            return
        marker = markers.decode(self._raw, header)
        if marker is not None and not marker.commits:
            self._aborting.discard(header.producer_id)


class BlockColumns(NamedTuple):
    """What a decoder must know of each block: a number a block."""

    start: Integers  # of its records in the buffer
    end: Integers
    records: Integers
    base_offset: Integers
    last_delta: Integers
    base_timestamp: Integers
    append_timestamp: Integers  # -1: the records have their own
    timestamp_type: Integers


class Blocks:
    """Record blocks in one buffer, none without records, and a table with a row a block."""

    def __init__(self, octets: Buffer) -> None:
        self.octets = octets
        self.table = array("q")
        self.rows = 0

    def add(self, header: BatchHeader, start: int, end: int) -> None:
        row = (
            start,
            end,
            header.count,
            header.base_offset,
            header.last_offset_delta,
            header.base_timestamp,
            header.max_timestamp if header.uses_append_time else -1,
            int(header.uses_append_time),
        )
        self.table.extend(row)
        self.rows += header.count

    def columns(self) -> BlockColumns:
        table = np.frombuffer(self.table, np.int64).reshape(-1, len(BlockColumns._fields))
        return BlockColumns(*table.T)


def collect(raw: Buffer, walk: Walk) -> tuple[Blocks, bool]:
    """The records of the walk's batches, and whether `raw` holds more than was taken."""
    taken: list[tuple[BatchHeader, Buffer]] = []
    size = 0
    rows = 0
    for header in walk:
        if rows and (size >= COLLECTED_BYTES or rows + header.count > ROWS_MAX):
            return _join(raw, taken), True
        block = _block(raw, header)
        if header.count:
            taken.append((header, block))
            size += len(block)
            rows += header.count
    return _join(raw, taken), False


def _join(raw: Buffer, taken: list[tuple[BatchHeader, Buffer]]) -> Blocks:
    if not any(header.codec for header, _ in taken):  # then they lie in `raw` as they should
        blocks = Blocks(raw)
        for header, _ in taken:
            blocks.add(header, header.position + HEADER_BYTES, header.end)
        return blocks
    blocks = Blocks(b"".join([block for _, block in taken]))
    start = 0
    for header, block in taken:
        blocks.add(header, start, start + len(block))
        start += len(block)
    return blocks


def _block(raw: Buffer, header: BatchHeader) -> Buffer:
    """The batch's records, decompressed, with as many bytes as their number needs."""
    block: Buffer = memoryview(raw)[header.position + HEADER_BYTES : header.end]
    if header.codec:
        block = compression.decompress(header.codec, block, DECOMPRESSED_BYTES_MAX)
    size = len(block)
    if size > BLOCK_BYTES_MAX or header.count > ROWS_MAX:
        raise BatchTooLarge(
            f"batch at offset {header.base_offset} has {header.count} records in {size} bytes,"
            f" {ROWS_MAX} in {BLOCK_BYTES_MAX} can be read"
        )
    if header.count > size // _RECORD_BYTES_MIN or (size and not header.count):
        raise CorruptBatch(f"{header.count} records said to be in {size} bytes")
    return block


def _check_offsets(header: BatchHeader, lowest: int) -> None:
    """Offsets lie outside the checksum, and a reader's place in the log hangs on them."""
    if not lowest <= header.base_offset <= _OFFSET_MAX:
        raise CorruptBatch(
            f"batch at position {header.position} says offset {header.base_offset},"
            f" after a batch that ended below {lowest}"
        )
