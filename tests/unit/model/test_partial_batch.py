"""A batch without some of its records keeps its offsets, producer and sequence."""

import pytest

from goqueue.model import batch as batches
from goqueue.model.compression import Codec
from goqueue.model.partial_batch import leave_out, without_records
from goqueue.model.record import Record

RECORDS = [Record(n, 100 + n, b"k%d" % n, b"v%d" % n, (("h", b"x"),)) for n in range(5)]
PRODUCER = (7, 3, 40)


def encode(codec: int = 0, **more: int) -> tuple[bytearray, batches.BatchHeader]:
    data = batches.encode(RECORDS, codec=codec, producer=PRODUCER, **more)
    return data, batches.header_at(data, 0)


@pytest.mark.parametrize("codec", list(Codec))
def test_the_rest_keeps_its_place(codec: Codec):
    data, header = encode(codec)
    rest = without_records(data, header, {0, 4})
    (left,) = batches.verified_headers(rest)
    assert batches.decode(rest, left) == RECORDS[1:4]
    assert (left.last_offset_delta, left.count, left.max_timestamp) == (4, 3, 103)
    assert (left.producer_id, left.producer_epoch, left.base_sequence) == PRODUCER
    assert left.codec == codec


def test_a_batch_without_any_record_still_tells_its_sequence():
    data, header = encode(attributes=batches.TRANSACTIONAL)
    (left,) = batches.verified_headers(without_records(data, header, range(5)))
    assert (left.count, left.last_offset_delta, left.base_sequence) == (0, 4, 40)
    assert left.is_transactional


def test_of_several_batches_only_the_named_ones_change():
    data = encode()[0] + encode()[0]
    output, headers = leave_out(data, batches.verified_headers(data), {1: {0, 1, 2, 3}})
    assert [header.count for header in headers] == [5, 1]
    assert batches.decode(output, headers[1]) == RECORDS[4:]
    assert output[: headers[1].position] == encode()[0]
