"""What a producer's batch is held against before it is appended: its header, never its records."""

import pytest

from goqueue.model import batch as batches
from goqueue.model.batch import BATCH_RECORDS_MAX, KNOWN_ATTRIBUTES, check_produced, find_array
from goqueue.model.compression import Codec
from goqueue.model.errors import BatchTooLarge, GoQueueError, InvalidRecord
from goqueue.model.record import Record

BYTES_MAX = 1_000_000
RECORDS = [Record(number, 5, b"k", b"v") for number in range(3)]


def assemble(block: bytes, count: int, attributes: int = 0) -> bytearray:
    return batches.assemble(
        block,
        base_offset=0,
        last_offset_delta=count - 1,
        base_timestamp=0,
        max_timestamp=0,
        count=count,
        attributes=attributes,
        producer=(-1, -1, -1),
    )


def refusal(data: bytearray) -> GoQueueError:
    with pytest.raises(GoQueueError) as raised:
        check_produced(data, BYTES_MAX)
    return raised.value


@pytest.mark.parametrize("codec", list(Codec))
def test_a_sound_batch_is_taken(codec: Codec):
    (header,) = check_produced(batches.encode(RECORDS, codec=codec), BYTES_MAX)
    assert header.count == len(RECORDS)


@pytest.mark.parametrize("count", [2, 2_000, 2**31 - 1])
def test_more_records_than_the_bytes_have_room_for_are_refused(count: int):
    error = refusal(assemble(bytes(13), count))
    assert isinstance(error, InvalidRecord | BatchTooLarge)
    assert f"{count} records" in str(error)


def test_the_number_of_records_is_bounded_also_when_they_are_compressed():
    data = assemble(b"what these are is not looked at", BATCH_RECORDS_MAX + 1, Codec.ZSTD)
    error = refusal(data)
    assert isinstance(error, BatchTooLarge)
    assert "1000001 records, 1000000 allowed" in str(error)
    assert "batch.num.messages" in str(error)
    check_produced(assemble(b"the same", BATCH_RECORDS_MAX, Codec.ZSTD), BYTES_MAX)


@pytest.mark.parametrize("bit", [bit for bit in range(16) if not KNOWN_ATTRIBUTES & 1 << bit])
def test_attributes_that_mean_nothing_are_refused(bit: int):
    attributes = 1 << bit if bit < 15 else -(1 << 15)
    error = refusal(batches.encode(RECORDS, attributes=attributes))
    assert isinstance(error, InvalidRecord)
    assert f"attributes {1 << bit:#06x}" in str(error)


@pytest.mark.parametrize(
    ("producer", "told"),
    [
        ((-2, 0, 0), "producer id -2"),
        ((-(2**63), -1, -1), "producer id -9223372036854775808"),
        ((7, -1, 0), "epoch -1"),
        ((7, 0, -1), "sequence -1"),
        ((7, 0, -5), "sequence -5"),
    ],
)
def test_half_of_a_producer_is_refused(producer: tuple[int, int, int], told: str):
    error = refusal(batches.encode(RECORDS, producer=producer))
    assert isinstance(error, InvalidRecord)
    assert told in str(error)


@pytest.mark.parametrize("producer", [(-1, -1, -1), (-1, 0, 0), (0, 0, 0), (2**40, 3, 2**31 - 1)])
def test_a_producer_may_be_any_or_none(producer: tuple[int, int, int]):
    check_produced(batches.encode(RECORDS, producer=producer), BYTES_MAX)


def test_the_array_under_a_view_is_found():
    array = bytearray(b"0123456789")
    view = memoryview(array)
    for start in range(10):
        assert find_array(view[start:]) == (array, start)
        assert find_array(view[start:][: 10 - start]) == (array, start)
    assert find_array(array) == (array, 0)
    for other in (b"01", memoryview(b"01"), view.toreadonly(), view[::2], view[3:3]):
        assert find_array(other) is None
