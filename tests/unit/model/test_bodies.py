"""Bodies of records are cut out and joined as they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import batch as batches
from goqueue.model import bodies, records
from goqueue.model.errors import CorruptBatch
from goqueue.model.record import Record

texts = st.none() | st.binary(max_size=200)
some_records = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(0, 2**50),
        key=texts,
        value=texts,
        headers=st.lists(st.tuples(st.text(max_size=5), texts), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=200,
)


@given(some_records)
def test_bodies_mean_the_same_in_another_batch(given_records: list[Record]):
    data = batches.encode(given_records)
    header = batches.header_at(data, 0)
    block = batches.record_block(data, header)
    times = bodies.scan_times(block, header.count)
    assert [header.base_timestamp + delta for delta, _ in times] == [
        record.timestamp for record in given_records
    ]
    assert [delta for _, delta in times] == list(range(len(given_records)))
    found = bodies.take_bodies(block, header.count, 50, frozenset(range(50, 1000, 2)))
    joined = bodies.join_bodies(list(found.values()))
    again = records.decode_records(joined, len(found), 0, 7, -1)
    assert [(each.key, each.value, each.headers) for each in again] == [
        (each.key, each.value, each.headers) for each in given_records[::2]
    ]
    assert {each.timestamp for each in again} <= {7}


@pytest.mark.parametrize("cut", [1, 3, 10])
def test_damage_is_told(cut: int):
    data = batches.encode([Record(0, 1, b"key", b"value")] * 2)
    block = batches.record_block(data, batches.header_at(data, 0))
    with pytest.raises(CorruptBatch):
        bodies.scan_times(block[:-cut], 2)
    with pytest.raises(CorruptBatch):
        bodies.take_bodies(block[:-cut], 2, 0, frozenset((0, 1)))
