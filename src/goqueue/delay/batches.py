"""Batches of delayed messages: taken apart when they come, put together when they are due.

A producer's batch may hold messages for now and for later.  Both parts keep the places that the
messages had in it, with gaps as compaction leaves them, and both keep its producer and sequence:

    sent         0  1  2  3  4          sequence 20 to 24
    data         0  ·  2  3  ·          the same sequence; empty when all are delayed
    delay log    ·  1  ·  ·  4          the same sequence

So the data knows all sequences of its producers, and a repetition is found in both logs.  The part
for the data is `model/partial_batch.py`.
"""

from collections.abc import Collection, Sequence
from typing import Final

from goqueue.delay.headers import due_of, may_hold_delays, source_offset, waiting_record
from goqueue.delay.machine import Copy
from goqueue.log import DELAYS_PRODUCER
from goqueue.model import batch as batches
from goqueue.model import bodies, records
from goqueue.model.batch import TRANSACTIONAL, BatchHeader, Buffer
from goqueue.model.errors import InvalidRecord, InvalidRecords
from goqueue.model.ids import Timestamp
from goqueue.model.record import Record

_BAD_RECORDS_MAX: Final = 100

Delayed = tuple[Record, Timestamp]  # and when it is due


def find_later(
    data: Buffer, header: BatchHeader, now: Timestamp, left_out: Collection[int] = ()
) -> list[Delayed]:
    """The batch's messages that are for later, but for those at places that are `left_out`.

    Raises `InvalidRecords` for headers that make no sense, and what `record_block` does.
    """
    block = batches.record_block(data, header)
    if not may_hold_delays(block):
        return []
    later, bad, problem = list[Delayed](), list[int](), ""
    reader = batches.RecordReader(header, block)
    while not reader.is_done:
        for record in reader.read():
            place = record.offset - header.base_offset
            if not record.headers or place in left_out:
                continue
            try:
                due = due_of(record.headers, now)
            except InvalidRecord as error:
                bad.append(place)
                problem = problem or str(error)
                continue
            if due > now:
                later.append((record, due))
    if bad:
        raise InvalidRecords(problem, bad[:_BAD_RECORDS_MAX])
    return later


def delay_part(
    header: BatchHeader, later: Sequence[Delayed], *, partition: int, base_offset: int
) -> bytearray:
    """The batch for the delay log, which is appended at `base_offset`."""
    waiting = [
        waiting_record(record, due, partition, base_offset + record.offset - header.base_offset)
        for record, due in later
    ]
    return _assemble_waiting(
        waiting,
        base_offset,
        header.last_offset_delta,
        header.attributes & TRANSACTIONAL,
        (header.producer_id, header.producer_epoch, header.base_sequence),
    )


def waiting_batch(later: Sequence[Delayed], *, partition: int, base_offset: int) -> bytearray:
    """The same for messages that no producer numbered, without gaps."""
    waiting = [
        waiting_record(record, due, partition, base_offset + place)
        for place, (record, due) in enumerate(later)
    ]
    return _assemble_waiting(waiting, base_offset, len(waiting) - 1, 0, (-1, -1, -1))


def _assemble_waiting(
    waiting: Sequence[Record],
    base_offset: int,
    last_offset_delta: int,
    attributes: int,
    producer: tuple[int, int, int],
) -> bytearray:
    return batches.assemble(
        records.encode_records(waiting, base_offset),
        base_offset=0,
        last_offset_delta=last_offset_delta,
        base_timestamp=waiting[0].timestamp,
        max_timestamp=max(record.timestamp for record in waiting),
        count=len(waiting),
        attributes=attributes,
        producer=producer,
    )


def moved_batch(waiting: Sequence[Record], *, base_offset: int, sequence: int) -> bytearray:
    """Copies of messages of the delay log, for its end."""
    copies = [
        Record(base_offset + place, each.timestamp, each.key, each.value, each.headers)
        for place, each in enumerate(waiting)
    ]
    producer = DELAYS_PRODUCER, 0, sequence
    return _assemble_waiting(copies, base_offset, len(copies) - 1, 0, producer)


def find_copies(data: Buffer, header: BatchHeader) -> list[Copy]:
    """Of a batch of the delay log that holds copies; see `moved_batch`."""
    found = []
    for record in batches.decode(data, header):
        offset = source_offset(record)
        if offset is not None:
            found.append(Copy(offset, record.offset, record.timestamp))
    return found


def due_times(data: Buffer, header: BatchHeader) -> tuple[list[int], list[int]]:
    """When the messages of a batch of the delay log are due, and their offsets."""
    block = batches.record_block(data, header)
    times = bodies.scan_times(block, header.count)
    dues = [header.base_timestamp + delta for delta, _ in times]
    return dues, [header.base_offset + delta for _, delta in times]


def due_batch(
    waiting: Sequence[bytes], *, timestamp: Timestamp, sequence: int, codec: int = 0
) -> bytearray:
    """The batch for the data, of bodies from the delay log that are due."""
    return batches.assemble(
        bodies.join_bodies(waiting),
        base_offset=0,
        last_offset_delta=len(waiting) - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        count=len(waiting),
        attributes=codec,
        producer=(DELAYS_PRODUCER, 0, sequence),
    )
