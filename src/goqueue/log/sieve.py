"""What compaction leaves of one batch.  Bytes in, bytes out; no I/O.

**Last value wins.**  `KeyOffsets` maps each key seen in the dirty part of the log to its last
offset.  A record stays when no later one of its key is known, so whatever the map has not seen
stays too, as do records without a key.  Keys below 16 bytes are kept as they are, longer ones as
their 128-bit BLAKE2b: the two have different lengths and cannot be taken for one another, and
among 2**32 keys the odds of one collision are 2**-65.

**A batch keeps its place** (`model/partial_batch.py`).  One that loses nothing is passed on as the
same bytes.

**Tombstones** (a key without a value) stay for `delete.retention.ms` after the compaction that
first met them, so that a reader who is not further behind than that sees every deletion.  Kafka
writes the moment of removal, the *delete horizon*, where the base timestamp was, and says so in
attribute bit 6 (KIP-534).  Every reader computes timestamps as base plus delta, so all deltas of
that batch are re-encoded; that is done on the varints alone, so keys, values and headers pass
untouched, and once only: later rounds find bit 6 set and copy records as before.  With append
time, deltas mean nothing and stay.

**Transactions.**  Control batches always stay.  Records of aborted transactions go, and must not
supersede anything: whoever fills the map asks `is_aborted` too.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final, Protocol

from goqueue.model import compression, records
from goqueue.model.batch import (
    CODEC_MASK,
    DECOMPRESSED_BYTES_MAX,
    DELETE_HORIZON,
    HEADER_BYTES,
    BatchHeader,
    Buffer,
)
from goqueue.model.errors import BatchTooLarge, CorruptBatch, UnsupportedBatch
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.partial_batch import rebuild, timestamps_of
from goqueue.model.records import KeyEntry

DIGEST_BYTES: Final = 16
ENTRY_BYTES: Final = 216  # of one key in a dict, digest and offset included; measured at its worst
HORIZON_MAX: Final = 2**62  # so that no delta from it leaves 64 bits

IsAborted = Callable[[int, Offset], bool]  # of a producer id, and the offset of a batch of its


class Superseding(Protocol):
    """Knows which records have a later one of their key."""

    def has_room(self, header: BatchHeader) -> bool:
        """Whether it can tell, or learn, about this batch."""

    def add(self, data: Buffer, header: BatchHeader) -> None:
        """Note the batch's keys.  Batches come in the order of their offsets."""

    def drop_superseded(self, entries: list[KeyEntry], base_offset: int) -> list[KeyEntry]: ...


class KeyOffsets:
    """The last offset of every key of some batches, in bounded memory."""

    def __init__(self, bytes_max: int) -> None:
        self._count_max = max(1, bytes_max // ENTRY_BYTES)
        self._last: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._last)

    def has_room(self, header: BatchHeader) -> bool:
        """One batch always fits, or compaction would never get on."""
        return not self._last or len(self._last) + header.count <= self._count_max

    def add(self, data: Buffer, header: BatchHeader) -> None:
        last, base_offset = self._last, header.base_offset
        try:
            _, entries = _unfold(data, header)
        except _UNREADABLE:
            return  # what cannot be read supersedes nothing
        for delta, key, _, _, _ in entries:
            if key is not None:
                if len(key) >= DIGEST_BYTES:
                    key = blake2b(key, digest_size=DIGEST_BYTES).digest()
                last[key] = base_offset + delta

    def drop_superseded(self, entries: list[KeyEntry], base_offset: int) -> list[KeyEntry]:
        last, kept = self._last.get, []
        for entry in entries:
            key = entry[1]
            if key is not None:
                if len(key) >= DIGEST_BYTES:
                    key = blake2b(key, digest_size=DIGEST_BYTES).digest()
                if last(key, -1) > base_offset + entry[0]:
                    continue
            kept.append(entry)
        return kept


class SupersededOffsets:
    """The same, found out by somebody else: a bit an offset from `first_offset`, lowest bit first.

    What it does not cover is not superseded.
    """

    def __init__(self, first_offset: Offset, end_offset: Offset, bits: bytes) -> None:
        assert len(bits) == (end_offset - first_offset + 7) // 8
        self.first_offset = first_offset
        self.end_offset = end_offset
        self._bits = bits

    def has_room(self, header: BatchHeader) -> bool:
        return header.last_offset < self.end_offset

    def add(self, data: Buffer, header: BatchHeader) -> None:
        """Nothing: all is known."""

    def drop_superseded(self, entries: list[KeyEntry], base_offset: int) -> list[KeyEntry]:
        relative = base_offset - self.first_offset
        return [entry for entry in entries if not self._has(relative + entry[0])]

    def _has(self, relative: int) -> bool:
        if not 0 <= relative < self.end_offset - self.first_offset:
            return False
        return bool(self._bits[relative >> 3] >> (relative & 7) & 1)


class Sieve:
    """Decides on batches below `end_offset`, up to which `offsets` is filled."""

    def __init__(
        self,
        offsets: Superseding,
        end_offset: Offset,
        *,
        now: Timestamp,
        delete_retention_ms: int,
        is_aborted: IsAborted,
    ) -> None:
        self.unreadable_batches = 0  # sound by their checksum, but not records: kept as they are
        self._offsets = offsets
        self._end_offset = end_offset
        self._now = now
        self._horizon = min(now + delete_retention_ms, HORIZON_MAX)
        self._is_aborted = is_aborted

    def sift(self, data: Buffer, header: BatchHeader) -> memoryview | bytearray | None:
        """What stays of the batch: a view of itself, a new one, or None when no record does."""
        whole = memoryview(data)[header.position : header.end]
        if header.is_control or header.base_offset >= self._end_offset:
            return whole
        if header.count == 0 or is_aborted_data(header, self._is_aborted):
            return None
        try:
            block, entries = _unfold(data, header)
        except _UNREADABLE:
            self.unreadable_batches += 1
            return whole
        kept = self._choose_kept(header, entries)
        if not kept:
            return None
        horizon = self._new_horizon(header, block, kept)
        if len(kept) == len(entries) and horizon is None:
            return whole
        return _rebuilt(header, block, kept, horizon)

    def _choose_kept(self, header: BatchHeader, entries: list[KeyEntry]) -> list[KeyEntry]:
        kept = self._offsets.drop_superseded(entries, header.base_offset)
        if header.attributes & DELETE_HORIZON and header.base_timestamp <= self._now:
            return [entry for entry in kept if not _is_tombstone(entry)]
        return kept

    def _new_horizon(self, header: BatchHeader, block: bytes, kept: list[KeyEntry]) -> int | None:
        """When the batch's tombstones may go, if that is to be written into it now."""
        if header.attributes & DELETE_HORIZON or not any(map(_is_tombstone, kept)):
            return None
        if not header.uses_append_time and min(timestamps_of(header, block, kept)) < -HORIZON_MAX:
            return None  # no delta reaches that far: better a tombstone that stays
        return self._horizon


def is_aborted_data(header: BatchHeader, is_aborted: IsAborted) -> bool:
    return (
        header.is_transactional
        and not header.is_control
        and is_aborted(header.producer_id, header.base_offset)
    )


_UNREADABLE: Final = (CorruptBatch, BatchTooLarge, UnsupportedBatch)


def _unfold(data: Buffer, header: BatchHeader) -> tuple[bytes, list[KeyEntry]]:
    """The batch's records, decompressed, and what compaction asks of each."""
    packed = memoryview(data)[header.position + HEADER_BYTES : header.end]
    block = compression.decompress(header.attributes & CODEC_MASK, packed, DECOMPRESSED_BYTES_MAX)
    return block, records.scan_keys(block, header.count, header.last_offset_delta)


def _is_tombstone(entry: KeyEntry) -> bool:
    return entry[2] and entry[1] is not None


def _rebuilt(
    header: BatchHeader, block: bytes, kept: list[KeyEntry], horizon: int | None
) -> bytearray:
    """The batch with only the records `kept`."""
    attributes, base_timestamp = header.attributes, header.base_timestamp
    timestamps = timestamps_of(header, block, kept)
    if horizon is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = Timestamp(horizon)
    if horizon is None or header.uses_append_time:
        content = records.select_records(block, [(start, end) for _, _, _, start, end in kept])
    else:
        content = _with_base_timestamp(block, kept, timestamps, horizon)
    return rebuild(
        header,
        content,
        len(kept),
        max(timestamps),
        attributes=attributes,
        base_timestamp=base_timestamp,
    )


def _with_base_timestamp(
    block: bytes, kept: list[KeyEntry], timestamps: list[int], base_timestamp: int
) -> bytes:
    """The records `kept`, telling their timestamps from another base."""
    pieces: list[bytes] = []
    for (_, _, _, start, end), timestamp in zip(kept, timestamps, strict=True):
        _, attributes_at = records.read_varlong(block, start)
        _, rest_at = records.read_varlong(block, attributes_at + 1)
        delta = records.write_varlong(timestamp - base_timestamp)
        length = 1 + len(delta) + end - rest_at
        pieces += (
            records.write_varlong(length),
            block[attributes_at : attributes_at + 1],
            delta,
            block[rest_at:end],
        )
    return b"".join(pieces)
