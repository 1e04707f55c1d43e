"""Kafka's RecordBatch v2: the one format of records on the wire, on disk and between replicas.

    0   8  base offset          stamped by the broker; outside the checksum
    8   4  batch length         bytes after this field
    12  4  leader epoch         stamped by the broker; outside the checksum
    16  1  magic                2
    17  4  CRC-32C              of everything from `attributes` to the end
    21  2  attributes           bits 0-2 codec, 3 append time, 4 transactional, 5 control, 6 horizon
    23  4  last offset delta
    27  8  base timestamp       the delete horizon of tombstones, when bit 6 is set
    35  8  max timestamp
    43  8  producer id          -1 without one
    51  2  producer epoch
    53  4  base sequence
    57  4  record count
    61     records              see `records.py`; compressed as one block when a codec is set

A broker stamps offsets without touching what the checksum covers, so batches pass through as
bytes.  `BatchHeader` is a view of the fixed part; only who needs records decodes them.
"""

import struct
from collections.abc import Iterator, Sequence
from ctypes import addressof, c_char
from typing import Final

import msgspec
from crc32c import crc32c

from goqueue.model import compression, records
from goqueue.model.errors import BatchTooLarge, CorruptBatch, InvalidRecord, UnsupportedBatch
from goqueue.model.ids import Epoch, Offset, ProducerId, Timestamp
from goqueue.model.record import Record

Buffer = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
LENGTH_OVERHEAD: Final = 12  # base offset and length itself are not counted by `batch length`
MAGIC: Final = 2
DECOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024
BATCH_RECORDS_MAX: Final = 1_000_000  # of a batch from a producer, as in librdkafka's largest
SLICE_OBJECTS: Final = 10_000  # records and headers that are built at a time: some milliseconds

CODEC_AT: Final = 22  # the byte of a batch's attributes that names its compression
CODEC_MASK: Final = 0x07
APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
KNOWN_ATTRIBUTES: Final = CODEC_MASK | APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON

_HEADER = struct.Struct(">qiiBIhiqqqhii")
_OFFSET_LENGTH = struct.Struct(">qi")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_COVERED = struct.Struct(">hiqqqhii")  # from attributes to record count
_CRC_AT: Final = 17
_COVERED_AT: Final = 21
NO_PRODUCER: Final = -1
RESERVED_PRODUCER_MIN: Final = 1 << 62  # ids that are given out count up from 0


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The fixed part of one batch and where it lies in the bytes it was read from."""

    position: int
    size: int  # of the whole batch, header included
    base_offset: Offset
    leader_epoch: Epoch
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: Timestamp
    max_timestamp: Timestamp
    producer_id: ProducerId
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def last_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def end(self) -> int:
        """Position of the first byte after the batch."""
        return self.position + self.size

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def uses_append_time(self) -> bool:
        return bool(self.attributes & APPEND_TIME)

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0


def batch_size_at(data: Buffer, position: int) -> int:
    """Size of the batch that starts at `position`, from its first 12 bytes."""
    _, length = _OFFSET_LENGTH.unpack_from(data, position)
    return int(length) + LENGTH_OVERHEAD


def base_offset_at(data: Buffer, position: int = 0) -> int:
    """The first offset of the batch that starts at `position`."""
    (base_offset,) = _OFFSET.unpack_from(data, position)
    return int(base_offset)


def has_reserved_producer(data: Buffer) -> bool:
    """Whether the first batch in `data` names one of the producer ids that brokers keep."""
    return len(data) >= HEADER_BYTES and RESERVED_PRODUCER_MIN >> 56 <= data[43] < 0x80


def is_transactional(data: Buffer) -> bool:
    """Whether the first batch in `data` says so; False for what is too short to be one."""
    return len(data) >= HEADER_BYTES and bool(data[22] & TRANSACTIONAL)


def header_at(data: Buffer, position: int) -> BatchHeader:
    """The header at `position`; raises `CorruptBatch` or `UnsupportedBatch`.

    Checks that the batch lies wholly in `data`, not its checksum.
    """
    header = _unpack(data, position, position)
    if header.end > len(data):
        raise CorruptBatch(
            f"batch at position {position} claims {header.size} bytes,"
            f" {len(data) - position} are there"
        )
    return header


def header_in_part(head: Buffer, position: int) -> BatchHeader:
    """The header in `head`, the first bytes of a batch that lies at `position` of its file."""
    return _unpack(head, 0, position)


def _unpack(data: Buffer, start: int, position: int) -> BatchHeader:
    if len(data) - start < HEADER_BYTES:
        raise CorruptBatch(
            f"{len(data) - start} bytes at position {position}, a batch has {HEADER_BYTES} or more"
        )
    base_offset, length, epoch, magic, crc, attributes, last_delta, *rest = _HEADER.unpack_from(
        data, start
    )
    if magic != MAGIC:
        raise UnsupportedBatch(
            f"record format (magic) {magic}; only 2 is kept, use a client of 2017 or later"
        )
    size = length + LENGTH_OVERHEAD
    if size < HEADER_BYTES or last_delta < 0 or rest[-1] < 0:
        raise CorruptBatch(f"batch at position {position}: negative count or length")
    return BatchHeader(position, size, base_offset, epoch, crc, attributes, last_delta, *rest)


def checksum_is_right(data: Buffer, header: BatchHeader) -> bool:
    view = memoryview(data)[header.position + _COVERED_AT : header.end]
    return crc32c(view) == header.crc


def verified_header_at(data: Buffer, position: int) -> BatchHeader:
    """As `header_at`, and the checksum is right."""
    header = header_at(data, position)
    if not checksum_is_right(data, header):
        raise CorruptBatch(
            f"batch at position {position} (offset {header.base_offset}): wrong CRC-32C"
        )
    return header


def headers(data: Buffer) -> Iterator[BatchHeader]:
    """The headers of `data`, which must be whole batches one after the other.

    For bytes of our own log.  Bytes that may be damaged or cut off are walked by those who know
    what to do about it.
    """
    position, end = 0, len(data)
    while position < end:
        header = header_at(data, position)
        position = header.end
        yield header


def verified_headers(data: Buffer) -> list[BatchHeader]:
    """The headers of `data`, which must be whole, sound batches one after the other."""
    found = []
    position = 0
    while position < len(data):
        header = verified_header_at(data, position)
        found.append(header)
        position = header.end
    return found


def check_produced(data: Buffer, bytes_max: int) -> list[BatchHeader]:
    """The headers of what a producer sent, checked as far as no record need be decoded."""
    return check_headers(verified_headers(data), bytes_max)


def check_headers(found: list[BatchHeader], bytes_max: int) -> list[BatchHeader]:
    """As `check_produced`, of headers that were read already."""
    if not found:
        raise InvalidRecord("no record batch in the request")
    for header in found:
        if header.size > bytes_max:
            raise BatchTooLarge(
                f"batch of {header.size} bytes, {bytes_max} allowed"
                " (topic setting max.message.bytes)"
            )
        _check_produced_count(header)
        if header.producer_id != NO_PRODUCER:
            _check_producer(header)
        if header.codec > compression.Codec.ZSTD:
            raise UnsupportedBatch(f"compression codec {header.codec} is unknown")
        if header.attributes & ~(KNOWN_ATTRIBUTES):
            raise InvalidRecord(
                f"attributes {header.attributes & 0xFFFF:#06x}: bits 7 to 15 mean nothing in"
                " record format 2, and must be 0"
            )
        if header.attributes & (CONTROL | DELETE_HORIZON):
            raise InvalidRecord("control batches and delete horizons are written by brokers only")
    return found


def _check_produced_count(header: BatchHeader) -> None:
    """Hold the count against what the header tells beside it: no record is looked at."""
    count = header.count
    if count != header.last_offset_delta + 1 or count == 0:
        raise InvalidRecord(
            f"batch says {count} records, and last offset delta {header.last_offset_delta}"
        )
    if count > BATCH_RECORDS_MAX:
        raise BatchTooLarge(
            f"batch of {count} records, {BATCH_RECORDS_MAX} allowed: let the producer send"
            " smaller batches (batch.size; librdkafka: batch.num.messages)"
        )
    size = header.size - HEADER_BYTES
    if not header.codec and count * records.RECORD_BYTES_MIN > size:
        raise InvalidRecord(
            f"batch says {count} records in {size} bytes,"
            f" a record takes {records.RECORD_BYTES_MIN} or more"
        )


def _check_producer(header: BatchHeader) -> None:
    """A producer has an id, an epoch and a sequence, or none of them.

    Kafka takes ids below -1 for none and lets a missing epoch pass; no client sends either.  The
    broker's own transactional batches may be without a sequence: listeners see to the others.
    """
    if header.producer_id < 0:
        raise InvalidRecord(f"producer id {header.producer_id}: it is -1 for none, or 0 and more")
    if header.producer_epoch < 0:
        raise InvalidRecord(
            f"producer {header.producer_id} has epoch {header.producer_epoch}: InitProducerId"
            " gives one"
        )
    if header.base_sequence < 0 and not header.is_transactional:
        raise InvalidRecord(
            f"producer {header.producer_id} has sequence {header.base_sequence}: an idempotent"
            " producer numbers its batches from 0 on"
        )


def stamp(data: bytearray | memoryview, header: BatchHeader, offset: int, epoch: int) -> None:
    """Write the offset and leader epoch into the batch.  Its checksum stays right."""
    _OFFSET.pack_into(data, header.position, offset)
    _EPOCH.pack_into(data, header.position + 12, epoch)


def stamp_append_time(data: bytearray | memoryview, header: BatchHeader, now: Timestamp) -> None:
    """Make `now` the timestamp of every record in the batch.  Renews the checksum."""
    _COVERED.pack_into(
        data,
        header.position + _COVERED_AT,
        header.attributes | APPEND_TIME,
        header.last_offset_delta,
        header.base_timestamp,
        now,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.count,
    )
    _renew_checksum(data, header.position, header.size)


def stamp_producer(
    data: bytearray | memoryview,
    header: BatchHeader,
    *,
    producer: tuple[int, int, int],
    is_transactional: bool,
) -> None:
    """Make `producer` (id, epoch, base sequence) the batch's.  Renews the checksum."""
    _COVERED.pack_into(
        data,
        header.position + _COVERED_AT,
        header.attributes & ~TRANSACTIONAL | (TRANSACTIONAL if is_transactional else 0),
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        *producer,
        header.count,
    )
    _renew_checksum(data, header.position, header.size)


def find_array(data: Buffer) -> tuple[bytearray, int] | None:
    """The array under a view, and where in it the view begins; None for what lies in none."""
    if isinstance(data, bytearray):
        return data, 0
    if not isinstance(data, memoryview) or not isinstance(data.obj, bytearray):
        return None
    if data.readonly or not data.contiguous or not data.nbytes:
        return None
    # No view tells where it begins: its address does.
    first, own = c_char.from_buffer(data.obj), c_char.from_buffer(data)
    return data.obj, addressof(own) - addressof(first)


def record_block(data: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The batch's records, decompressed to at most `limit` bytes.

    Raises `CorruptBatch`, `BatchTooLarge` or `UnsupportedBatch`.
    """
    block = memoryview(data)[header.position + HEADER_BYTES : header.end]
    return compression.decompress(header.codec, block, limit) if header.codec else bytes(block)


def decode(data: Buffer, header: BatchHeader) -> list[Record]:
    """The records of a batch, decompressed.  Raises as `record_block`.

    Only for batches that this broker wrote itself: others may hold more records than fit memory.
    """
    return records.decode_records(
        record_block(data, header),
        header.count,
        header.base_offset,
        header.base_timestamp,
        _append_time(header),
        None,
        header.last_offset_delta,
    )


class RecordReader:
    """The records of one batch, some at a time: a small batch may hold very many.

    What comes before damage is given first; `read` raises when nothing but damage is left.
    """

    def __init__(self, header: BatchHeader, block: bytes) -> None:
        """`block` is the batch's `record_block`."""
        self.header = header
        self._block = block
        self._position = 0
        self._index = 0
        self._delta = -1  # of the last record that was read

    @property
    def block(self) -> bytes:
        """All its records, decompressed."""
        return self._block

    @property
    def size(self) -> int:
        """Bytes of all its records, decompressed."""
        return len(self._block)

    @property
    def is_done(self) -> bool:
        return self._index >= self.header.count

    @property
    def next_offset(self) -> Offset:
        """Every record below it was given, or passed over."""
        if self.is_done:
            return self.header.next_offset
        return Offset(self.header.base_offset + self._delta + 1)

    def scan_prefixes(self, size: int, *, of_keys: bool) -> list[records.PrefixRun]:
        """The first bytes of all keys or values, and how many in a row have them."""
        header = self.header
        return records.scan_prefixes(
            self._block, header.count, size, of_keys, header.last_offset_delta
        )

    def read(
        self,
        start_offset: int = 0,
        objects_max: int = SLICE_OBJECTS,
        wanted: frozenset[int] | None = None,
    ) -> list[Record]:
        """The next records from `start_offset` on, up to `objects_max` with their headers.

        Only those that are `wanted`, if given.  Raises `CorruptBatch`.
        """
        header = self.header
        found, self._position, self._index, self._delta, damage = records.decode_slice(
            self._block,
            header.count,
            header.base_offset,
            header.base_timestamp,
            _append_time(header),
            header.last_offset_delta,
            self._position,
            self._index,
            self._delta,
            start_offset,
            objects_max,
            wanted,
        )
        if damage is not None and not found:
            raise damage
        return found


def decode_slices(data: Buffer, header: BatchHeader) -> Iterator[list[Record]]:
    """All records of a batch, `SLICE_OBJECTS` or so at a time.  Raises as `record_block`."""
    reader = RecordReader(header, record_block(data, header))
    while not reader.is_done:
        yield reader.read()


def decode_all(data: Buffer) -> Iterator[Record]:
    """Every data record of consecutive batches, control batches left out."""
    for header in headers(data):
        if not header.is_control:
            for some in decode_slices(data, header):
                yield from some


def _append_time(header: BatchHeader) -> int:
    return header.max_timestamp if header.uses_append_time else -1


def encode(
    batch: Sequence[Record],
    *,
    codec: int = 0,
    attributes: int = 0,
    base_offset: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytearray:
    """A batch of `batch`'s records with offsets 0, 1, 2, … ready to be stamped."""
    assert batch, "an empty batch cannot be appended"
    base_timestamp = batch[0].timestamp
    block = records.encode_records(batch)
    max_timestamp = max(record.timestamp for record in batch)
    return assemble(
        block,
        base_offset=base_offset,
        last_offset_delta=len(batch) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        count=len(batch),
        attributes=attributes | codec,
        producer=producer,
    )


def assemble(
    block: Buffer,
    *,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    attributes: int,
    producer: tuple[int, int, int],
    leader_epoch: int = -1,
) -> bytearray:
    """A batch around an uncompressed record block; compresses it as `attributes` say."""
    codec = attributes & CODEC_MASK
    if codec:
        block = compression.compress(codec, block)
    size = HEADER_BYTES + len(block)
    data = bytearray(size)
    producer_id, producer_epoch, base_sequence = producer
    _HEADER.pack_into(
        data,
        0,
        base_offset,
        size - LENGTH_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    data[HEADER_BYTES:] = block
    _renew_checksum(data, 0, size)
    return data


def _renew_checksum(data: bytearray | memoryview, position: int, size: int) -> None:
    covered = memoryview(data)[position + _COVERED_AT : position + size]
    _CRC.pack_into(data, position + _CRC_AT, crc32c(covered))
