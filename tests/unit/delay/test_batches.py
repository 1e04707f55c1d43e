"""Batches are taken apart into what is for now and for later, and keep their sequence."""

import pytest

from goqueue.delay.batches import (
    delay_part,
    due_batch,
    due_times,
    find_later,
    waiting_batch,
)
from goqueue.delay.headers import source_offset
from goqueue.log import DELAYS_PRODUCER
from goqueue.model import batch as batches
from goqueue.model import bodies
from goqueue.model.compression import Codec
from goqueue.model.errors import InvalidRecords
from goqueue.model.ids import Timestamp
from goqueue.model.partial_batch import without_records
from goqueue.model.record import Record

NOW = Timestamp(1_800_000_000_000)
LATER = (("gq-delay-ms", b"1000"),)


def mixed(codec: int = 0) -> bytearray:
    records = [
        Record(0, NOW - 5, b"a", b"now"),
        Record(0, NOW - 5, b"b", b"later", LATER),
        Record(0, NOW - 5, None, b"past", (("gq-deliver-at", b"5"),)),
        Record(0, NOW - 5, b"d", b"later too", (("gq-delay-ms", b"2000"), ("own", b"x"))),
    ]
    return batches.encode(records, codec=codec, producer=(7, 1, 20))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD, Codec.LZ4, Codec.SNAPPY])
def test_a_mixed_batch_is_two_batches_with_its_sequence(codec: int):
    data = mixed(codec)
    header = batches.header_at(data, 0)
    later_ones = find_later(data, header, NOW)
    rest = without_records(data, header, [record.offset for record, _ in later_ones])
    (now,) = batches.verified_headers(rest)
    assert (now.count, now.last_offset_delta, now.codec) == (2, 3, codec)
    assert (now.producer_id, now.producer_epoch, now.base_sequence) == (7, 1, 20)
    assert [(each.offset, each.value) for each in batches.decode(rest, now)] == [
        (0, b"now"),
        (2, b"past"),
    ]
    waiting = delay_part(header, later_ones, partition=3, base_offset=100)
    (later,) = batches.verified_headers(waiting)
    assert (later.count, later.last_offset_delta, later.base_sequence) == (2, 3, 20)
    assert due_times(waiting, later) == ([NOW + 1000, NOW + 2000], [1, 3])
    records = batches.decode(waiting, later)
    assert [source_offset(each) for each in records] == [101, 103]
    assert records[1].headers[0] == ("own", b"x")


def test_a_batch_of_which_all_is_delayed_leaves_an_empty_one():
    data = batches.encode([Record(0, NOW, None, b"x", LATER)] * 3, codec=1, producer=(7, 1, 0))
    header = batches.header_at(data, 0)
    later_ones = find_later(data, header, NOW)
    rest = without_records(data, header, [record.offset for record, _ in later_ones])
    (empty,) = batches.verified_headers(rest)
    assert (empty.count, empty.last_offset_delta, empty.codec) == (0, 2, 0)
    assert batches.decode(rest, empty) == []


def test_a_batch_without_delays_is_left_alone():
    data = batches.encode([Record(0, NOW, None, b"gq-delay-ms in a value")])
    assert find_later(data, batches.header_at(data, 0), NOW) == []


def test_what_went_elsewhere_is_not_delayed():
    data = batches.encode([Record(0, NOW, None, b"x", LATER)] * 3)
    found = find_later(data, batches.header_at(data, 0), NOW, left_out={1})
    assert [record.offset for record, _ in found] == [0, 2]


def test_records_with_bad_headers_are_named():
    bad = Record(0, NOW, None, b"x", (("gq-delay-ms", b"soon"),))
    data = batches.encode([Record(0, NOW, None, b"x", LATER), bad])
    with pytest.raises(InvalidRecords, match="not a number") as raised:
        find_later(data, batches.header_at(data, 0), NOW)
    assert raised.value.indexes == [1]


def test_what_is_due_is_passed_on_as_it_is():
    later = [(Record(0, 5, b"k", b"v", LATER), Timestamp(NOW + 1)) for _ in range(300)]
    waiting = waiting_batch(later, partition=0, base_offset=40)
    batches.stamp(waiting, batches.header_at(waiting, 0), 40, 0)
    header = batches.header_at(waiting, 0)
    block = batches.record_block(waiting, header)
    wanted = frozenset((41, 339))
    found = bodies.take_bodies(block, header.count, header.base_offset, wanted)
    batch = due_batch([found[41], found[339]], timestamp=NOW, sequence=9, codec=Codec.GZIP)
    (due,) = batches.verified_headers(batch)
    assert (due.producer_id, due.base_sequence, due.count) == (DELAYS_PRODUCER, 9, 2)
    records = batches.decode(batch, due)
    assert [(each.offset, each.timestamp, each.value) for each in records] == [
        (0, NOW, b"v"),
        (1, NOW, b"v"),
    ]
    assert [source_offset(each) for each in records] == [41, 339]
