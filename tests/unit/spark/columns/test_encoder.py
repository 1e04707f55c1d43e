"""Rows become batches that read back as the same rows, in the partitions where they belong."""

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")
pytest.importorskip("numpy", reason="needs goqueue[spark]")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import batch as batches
from goqueue.model.compression import CODEC_NAMES
from goqueue.model.errors import (
    BatchTooLarge,
    InvalidRecord,
    InvalidRequest,
    InvalidSetting,
    PartitionNotFound,
)
from goqueue.model.partitioner import murmur2_partition
from goqueue.model.record import Record
from goqueue.spark.columns import COLUMN_TYPES, Encoder, check_columns, encoder, engines, stamp
from tests.unit.model.record_examples import BASE_TIMESTAMP, record_lists
from tests.unit.spark.columns.row_examples import ROW_SCHEMA, limit_above, rows_from

COUNTS = {"orders": 3, "events": 5}


@pytest.fixture(scope="module", params=[engines.NUMPY, engines.COMPILED], ids=["numpy", "onepass"])
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "choose", lambda: request.param)
        yield


pytestmark = pytest.mark.usefixtures("engine")

Read = dict[tuple[str, int], list[Record]]


def table(**columns: Any) -> Any:
    return pa.RecordBatch.from_pydict(columns)


def made_from(rows: Any, topic: str | None = "orders", **options: Any) -> list[Any]:
    return list(Encoder(topic, COUNTS.__getitem__, **options).encode(rows))


def read_back(made: list[Any]) -> Read:
    """All records by topic and partition, as the plain reader gives them."""
    found: Read = defaultdict(list)
    for topic, partition, count, raw in made:
        (header,) = batches.verified_headers(raw)
        records = batches.decode(raw, header)
        assert [record.offset for record in records] == list(range(count))
        assert header.max_timestamp == max(record.timestamp for record in records)
        found[topic, partition] += records
    return dict(found)


def body(record: Record) -> tuple[object, ...]:
    return record.timestamp, record.key, record.value, record.headers


def only(rows: Any, **options: Any) -> list[Record]:
    """All records in one list, whatever their partitions."""
    return [record for each in read_back(made_from(rows, **options)).values() for record in each]


# --- contents -----------------------------------------------------------------------------------


@given(
    records=record_lists(min_size=1),
    copies=st.sampled_from((1, 1, 9)),
    codec=st.sampled_from(CODEC_NAMES),
    limit=st.sampled_from((100, 2000, 1_000_000)),
)
def test_rows_read_back_in_the_order_they_had(
    records: list[Record], copies: int, codec: str, limit: int
):
    records = records * copies
    limit = limit_above(records, limit)
    made = made_from(rows_from(records), compression=codec, batch_bytes_max=limit)
    assert max(len(each.raw) for each in made) <= limit
    found = read_back(made)
    keyed: Read = defaultdict(list)
    for record in records:
        if record.key is not None:
            keyed["orders", murmur2_partition(record.key, 3)].append(record)
    for place in {*found, *keyed}:
        with_key = [body(record) for record in found.get(place, ()) if record.key is not None]
        assert with_key == [body(record) for record in keyed[place]]
    without_key = [
        body(record) for place in sorted(found) for record in found[place] if record.key is None
    ]
    assert sorted(map(repr, without_key)) == sorted(
        repr(body(record)) for record in records if record.key is None
    )


@given(records=record_lists(min_size=3), first=st.integers(0, 3), count=st.integers(0, 3))
def test_a_slice_of_rows_is_taken_as_such(records: list[Record], first: int, count: int):
    rows = rows_from(records).slice(first, count)
    found = [body(record) for record in only(rows)]
    assert sorted(map(repr, found)) == sorted(
        repr(body(record)) for record in records[first : first + count]
    )


@given(
    key=st.binary(max_size=70),
    others=st.lists(st.binary(max_size=70), max_size=60),
)
def test_a_key_goes_where_every_kafka_producer_puts_it(key: bytes, others: list[bytes]):
    found = read_back(made_from(table(key=[key, *others], value=[b""] * (len(others) + 1))))
    for (_, partition), records in found.items():
        assert {murmur2_partition(record.key or b"", 3) for record in records} == {partition}


def test_text_is_bytes_and_a_missing_timestamp_is_now():
    before = datetime.now(UTC)
    (record,) = only(table(value=["größe"], key=["k"]))
    assert record.value == "größe".encode()
    assert record.key == b"k"
    assert before - timedelta(seconds=1) < datetime.fromtimestamp(record.timestamp / 1000, UTC)


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary_view(), pa.large_string()])
def test_other_kinds_of_bytes_are_taken(kind: Any):
    assert only(table(value=pa.array(["a", None], kind)))[0].value == b"a"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_any_unit_are_rounded_down(unit: str):
    moments = pa.array([datetime(1969, 12, 31, 23, 59, 58), None], pa.timestamp(unit))
    first, second = only(table(value=["a", "b"], timestamp=moments))
    assert first.timestamp == -2000
    assert second.timestamp > BASE_TIMESTAMP
    if unit == "us":
        odd = pa.array([-1], pa.int64()).cast(pa.timestamp("us"))
        assert only(table(value=["a"], timestamp=odd))[0].timestamp == -1


def test_priority_and_delivery_time_travel_as_headers():
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(["a", "b", "c"]),
            pa.array([[{"key": "x", "value": b"1"}], None, []], COLUMN_TYPES["headers"]),
            pa.array(["high", None, "4"]),
            pa.array([None, BASE_TIMESTAMP, None], pa.int64()).cast(pa.timestamp("ms")),
        ],
        names=["value", "headers", "priority", "deliver_at"],
    )
    a, b, c = only(rows)
    assert a.headers == (("x", b"1"), ("gq-priority", b"high"))
    assert b.headers == (("gq-deliver-at", str(BASE_TIMESTAMP).encode()),)
    assert c.headers == (("gq-priority", b"4"),)
    assert only(table(value=["a"], priority=[0]))[0].headers == (("gq-priority", b"0"),)
    in_words = table(value=["a"], deliver_at=["2030-01-01T00:00:00Z"])
    assert only(in_words)[0].headers == (("gq-deliver-at", b"2030-01-01T00:00:00Z"),)


# --- places -------------------------------------------------------------------------------------


def test_a_partition_that_is_named_goes_before_the_key():
    rows = table(value=["a", "b"], key=["k", "k"], partition=[0, 2])
    found = read_back(made_from(rows))
    assert {place: [each.value for each in records] for place, records in found.items()} == {
        ("orders", 0): [b"a"],
        ("orders", 2): [b"b"],
    }
    unnamed = table(value=["a"], key=["k"], partition=pa.array([None], pa.int32()))
    assert list(read_back(made_from(unnamed))) == [("orders", murmur2_partition(b"k", 3))]


def test_rows_name_their_topics():
    rows = table(value=["a", "b", "c"], topic=["orders", "events", "orders"], partition=[1, 4, 1])
    found = read_back(made_from(rows, topic=None))
    assert {place: [each.value for each in records] for place, records in found.items()} == {
        ("orders", 1): [b"a", b"c"],
        ("events", 4): [b"b"],
    }
    assert {topic for topic, _ in read_back(made_from(rows, topic="events"))} == {"events"}


def test_rows_without_a_key_fill_a_batch_and_go_on_with_the_next_partition():
    encoder = Encoder("orders", COUNTS.__getitem__, batch_bytes_max=1000, first_partition=1)
    rows = table(value=["x" * 100] * 13)
    places = [(each.partition, each.records) for each in encoder.encode(rows)]
    assert places == [(1, 7), (2, 6)]
    assert [each.partition for each in encoder.encode(table(value=["y"]))] == [0]


# --- bounds -------------------------------------------------------------------------------------


def test_a_batch_keeps_its_limit_whatever_the_rows_and_the_codec():
    incompressible = [bytes((7 * n + m * m) % 256 for m in range(90)) for n in range(200)]
    for codec in CODEC_NAMES:
        made = made_from(table(value=incompressible), compression=codec, batch_bytes_max=2000)
        assert all(len(each.raw) <= 2000 for each in made)
        assert sum(each.records for each in made) == 200


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_what_compression_makes_larger_goes_as_it_is(codec: str):
    rows = table(value=[random.Random(7).randbytes(400)])
    (plain,) = made_from(rows)
    (made,) = made_from(rows, compression=codec, batch_bytes_max=len(plain.raw))
    assert len(made.raw) == len(plain.raw)
    assert batches.header_at(made.raw, 0).codec == 0


def test_a_message_too_large_for_any_batch_is_refused_with_its_size():
    with pytest.raises(BatchTooLarge, match="1000 are allowed"):
        made_from(table(value=["x" * 1000]), batch_bytes_max=1000)
    assert only(table(value=["x" * 1000]), batch_bytes_max=1000, compression="zstd")


def test_a_lone_large_message_is_a_batch_of_its_own():
    encoder = Encoder("orders", COUNTS.__getitem__, batch_bytes_max=1000, message_bytes_max=6000)
    values = ["a"] * 20 + ["x" * 5000] + ["b"] * 20
    made = list(encoder.encode(table(value=values, partition=[0] * 41)))
    assert [each.records for each in made] == [20, 1, 20]
    assert [each.value for each in read_back(made)["orders", 0]] == [v.encode() for v in values]
    with pytest.raises(BatchTooLarge, match="6000 are allowed"):
        list(encoder.encode(table(value=["x" * 7000])))


def test_a_large_message_does_not_scatter_the_small_ones():
    encoder = Encoder("orders", COUNTS.__getitem__, batch_bytes_max=1000, message_bytes_max=6000)
    made = list(encoder.encode(table(value=["x" * 5000] + ["a"] * 20)))
    assert max(each.records for each in made) >= 10


def test_more_rows_than_fit_into_a_column_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(encoder, "ROWS_BYTES_MAX", 500)
    rows = table(value=[f"{number:050}" for number in range(40)], partition=[0] * 40)
    made = made_from(rows)
    assert len(made) > 4
    found = read_back(made)["orders", 0]
    assert [record.value for record in found] == [f"{n:050}".encode() for n in range(40)]


def test_no_rows_make_no_batches():
    assert made_from(table(value=["a"]).slice(0, 0)) == []


# --- mistakes -----------------------------------------------------------------------------------


def test_all_that_is_wrong_with_the_columns_is_told_at_once():
    schema = pa.schema(
        [("key", pa.int64()), ("partition", pa.string()), ("timestamp", pa.date32())]
    )
    with pytest.raises(InvalidRequest) as told:
        check_columns(schema, topic=None)
    for part in ("'key' is int64", "'partition'", "'timestamp'", "'value'", "option 'topic'"):
        assert part in str(told.value)
    check_columns(ROW_SCHEMA, topic="orders")


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (table(value=["a", "b"], topic=["orders", None]), "row 1 has no topic"),
        (table(value=["a"], topic=["orders"], priority=["urgent"]), "'urgent' in row 0"),
        (
            table(
                value=["a", "b"],
                topic=["orders", "orders"],
                headers=pa.array(
                    [[], [{"key": "k", "value": b""}, {"key": None, "value": b""}]],
                    COLUMN_TYPES["headers"],
                ),
            ),
            "row 1 has no name",
        ),
    ],
)
def test_a_row_that_cannot_be_a_record_is_named(rows: Any, told: str):
    with pytest.raises(InvalidRecord, match=told):
        made_from(rows, topic=None)


def test_a_partition_that_is_not_there_is_told():
    with pytest.raises(PartitionNotFound, match="row 1 names partition 3"):
        made_from(table(value=["a", "b"], partition=[0, 3]))


def test_settings_that_cannot_be():
    with pytest.raises(InvalidSetting):
        Encoder("orders", COUNTS.__getitem__, "brotli")
    with pytest.raises(InvalidSetting):
        Encoder("orders", COUNTS.__getitem__, batch_bytes_max=60)


# --- the producer -------------------------------------------------------------------------------


def test_a_stamp_names_the_producer_and_keeps_the_batch_sound():
    (made,) = made_from(table(value=["a" * 99, "b"]), compression="gzip")
    stamped = stamp(made.raw, producer_id=2**40, epoch=3, sequence=77, transactional=True)
    (header,) = batches.check_produced(stamped, 10_000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 3, 77)
    assert header.is_transactional
    again = stamp(made.raw, producer_id=5, epoch=0, sequence=0, transactional=False)
    (header,) = batches.check_produced(again, 10_000)
    assert (header.producer_id, header.is_transactional, header.codec) == (5, False, 1)
    assert [record.value for record in batches.decode(again, header)] == [b"a" * 99, b"b"]
