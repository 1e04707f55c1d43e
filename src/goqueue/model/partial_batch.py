"""A batch without some of its records.  It keeps its place.

Base offset, last offset delta, leader epoch, producer and sequence stay as they were, also when
records between are gone, and the records that stay are copied as they are.  Only count, largest
timestamp, length and checksum are new.  So a producer's sequences have no gap, a repeat of the
batch is known for one, and readers step over the offsets that are missing.  Compaction leaves such
batches behind; a broker that puts records elsewhere, before it appends the rest, makes them too.
"""

from collections.abc import Collection, Mapping, Sequence

from goqueue.model import batch as batches
from goqueue.model import records
from goqueue.model.batch import APPEND_TIME, TRANSACTIONAL, BatchHeader, Buffer
from goqueue.model.records import KeyEntry

# Places of records by the number of their batch; the first of each is 0.
LeftOut = Mapping[int, Collection[int]]


def without_records(data: Buffer, header: BatchHeader, places: Collection[int]) -> bytearray:
    """The batch without the records at `places`; the first one's is 0.

    Raises as `batch.record_block` does, and for records that are damaged.
    """
    block = batches.record_block(data, header)
    entries = records.scan_keys(block, header.count, header.last_offset_delta)
    kept = [entry for place, entry in enumerate(entries) if place not in places]
    if not kept:
        return empty_batch(header)
    content = records.select_records(block, [(start, end) for _, _, _, start, end in kept])
    return rebuild(header, content, len(kept), max(timestamps_of(header, block, kept)))


def leave_out(
    data: bytearray | memoryview, headers: Sequence[BatchHeader], left_out: LeftOut
) -> tuple[bytearray, list[BatchHeader]]:
    """Batches one after the other, without those records."""
    output = bytearray()
    for number, header in enumerate(headers):
        places = left_out.get(number)
        if places:
            output += without_records(data, header, places)
        else:
            output += memoryview(data)[header.position : header.end]
    return output, list(batches.headers(output))


def empty_batch(header: BatchHeader) -> bytearray:
    """The batch without its records: it still tells its offsets, producer and sequence."""
    return batches.assemble(
        b"",
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.max_timestamp,
        max_timestamp=header.max_timestamp,
        count=0,
        attributes=header.attributes & (APPEND_TIME | TRANSACTIONAL),
        producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        leader_epoch=header.leader_epoch,
    )


def rebuild(
    header: BatchHeader,
    content: Buffer,
    count: int,
    max_timestamp: int,
    *,
    attributes: int | None = None,
    base_timestamp: int | None = None,
) -> bytearray:
    """The batch around other records, whose deltas are from the same base unless one is given."""
    return batches.assemble(
        content,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp if base_timestamp is None else base_timestamp,
        max_timestamp=max_timestamp,
        count=count,
        attributes=header.attributes if attributes is None else attributes,
        producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        leader_epoch=header.leader_epoch,
    )


def timestamps_of(header: BatchHeader, block: bytes, kept: Sequence[KeyEntry]) -> list[int]:
    """Of those records of a batch; one for all where the broker stamps them."""
    if header.uses_append_time:
        return [header.max_timestamp]
    base, read = header.base_timestamp, records.read_varlong
    # A record starts with its length, one byte of attributes, and the timestamp's delta.
    return [base + read(block, read(block, entry[3])[1] + 1)[0] for entry in kept]
