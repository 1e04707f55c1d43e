"""The records of a batch: round trips, damage, and agreement with other people's code."""

import itertools
import struct
from collections.abc import Callable, Iterator, Sequence

import aiokafka.record.default_records as aiokafka_records
import crc32c
import kafka.record.default_records as kafka_python_records
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from goqueue.model import batch as batches
from goqueue.model.batch import BatchHeader, RecordReader
from goqueue.model.errors import CorruptBatch, InvalidRecord, InvalidTimestamp
from goqueue.model.record import RECORD_HEADERS_MAX, Record
from goqueue.model.records import (
    decode_records,
    encode_records,
    null_keys,
    read_varlong,
    scan_keys,
    scan_prefixes,
    select_records,
    write_varlong,
)
from tests.unit.model.record_examples import BASE_TIMESTAMP, EVERY_KIND, record_lists

HEADER_BYTES = 61
STRANGERS = pytest.mark.parametrize(
    "stranger", [aiokafka_records, kafka_python_records], ids=["aiokafka", "kafka-python"]
)


def decode(data: bytes, count: int, base_timestamp: int = BASE_TIMESTAMP) -> list[Record]:
    return decode_records(data, count, 0, base_timestamp, -1)


# --- round trips ------------------------------------------------------------------------------


@given(record_lists())
def test_what_is_encoded_is_decoded(records: list[Record]):
    base_timestamp = records[0].timestamp if records else 0
    assert decode(encode_records(records), len(records), base_timestamp) == records


@given(record_lists(min_size=1), st.integers(0, 2**62), st.data())
def test_offsets_with_gaps_are_kept_from_a_given_base(
    records: list[Record], base_offset: int, data: st.DataObject
):
    deltas = st.lists(
        st.integers(0, 2**31 - 1), min_size=len(records), max_size=len(records), unique=True
    )
    offsets = [base_offset + delta for delta in sorted(data.draw(deltas))]
    spread = [
        Record(offset, record.timestamp, record.key, record.value, record.headers)
        for offset, record in zip(offsets, records, strict=True)
    ]
    encoded = encode_records(spread, base_offset, BASE_TIMESTAMP)
    assert decode_records(encoded, len(spread), base_offset, BASE_TIMESTAMP, -1) == spread


@given(record_lists(min_size=1), st.frozensets(st.integers(0, 8)))
def test_only_wanted_records_are_decoded(records: list[Record], wanted: frozenset[int]):
    data, base_timestamp = encode_records(records), records[0].timestamp
    found = decode_records(data, len(records), 0, base_timestamp, -1, wanted)
    assert found == [record for record in records if record.offset in wanted]


def test_own_offsets_do_not_matter_without_a_base():
    scattered = [Record(900, 5, b"a", b"1"), Record(7, 5, b"b", b"2")]
    decoded = decode_records(encode_records(scattered), 2, 40, 5, -1)
    assert [record.offset for record in decoded] == [40, 41]


def test_append_time_replaces_every_timestamp():
    decoded = decode_records(encode_records(EVERY_KIND), len(EVERY_KIND), 0, BASE_TIMESTAMP, 1234)
    assert {record.timestamp for record in decoded} == {1234}


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_buffer_is_decoded(wrap: Callable[[bytes], bytes]):
    data = wrap(encode_records(EVERY_KIND))
    assert decode(data, len(EVERY_KIND)) == EVERY_KIND
    assert len(scan_keys(data, len(EVERY_KIND))) == len(EVERY_KIND)
    assert null_keys(data, len(EVERY_KIND), 9) == [1, 5]


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_varints_round_trip(value: int, before: bytes):
    encoded = write_varlong(value)
    assert len(encoded) <= 10
    assert read_varlong(before + encoded + b"\xff", len(before)) == (
        value,
        len(before) + len(encoded),
    )


def test_varints_fold_the_sign_into_the_lowest_bit():
    assert [write_varlong(value) for value in (0, -1, 1, -2, 63, 64)] == [
        b"\x00",
        b"\x01",
        b"\x02",
        b"\x03",
        b"\x7e",
        b"\x80\x01",
    ]


# --- compaction -------------------------------------------------------------------------------


@given(record_lists())
def test_scan_tells_the_key_the_tombstone_and_the_place_of_each_record(records: list[Record]):
    data = encode_records(records)
    entries = scan_keys(data, len(records))
    assert [entry[:3] for entry in entries] == [
        (record.offset, record.key, record.value is None) for record in records
    ]
    starts = [entry[3] for entry in entries]
    ends = [entry[4] for entry in entries]
    assert [0, *ends] == [*starts, len(data)]


@given(record_lists(), st.data())
def test_selected_records_keep_offset_and_timestamp(records: list[Record], data: st.DataObject):
    encoded = encode_records(records)
    chosen = data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)))
    entries = scan_keys(encoded, len(records))
    ranges = [entry[3:] for entry, keep in zip(entries, chosen, strict=True) if keep]
    kept = [record for record, keep in zip(records, chosen, strict=True) if keep]
    base_timestamp = records[0].timestamp if records else 0
    assert decode(select_records(encoded, ranges), len(kept), base_timestamp) == kept


@given(record_lists())
def test_records_without_a_key_are_named(records: list[Record]):
    missing = [record.offset for record in records if record.key is None]
    data = encode_records(records)
    assert null_keys(data, len(records), len(records) + 1) == missing
    assert null_keys(data, len(records), 1) == missing[:1]


@given(record_lists(), st.integers(0, 5), st.booleans())
def test_runs_of_prefixes_say_the_same_as_the_records(
    records: list[Record], size: int, of_keys: bool
):
    parts = [record.key if of_keys else record.value for record in records]
    firsts = [None if part is None else part[:size] for part in parts]
    runs = [(first, len(list(some))) for first, some in itertools.groupby(firsts)]
    data = encode_records(records)
    assert scan_prefixes(data, len(records), size, of_keys) == runs
    longer = bytearray(b"\x7f" * 5 + data + b"\x7f" * 9)
    end = 5 + len(data)
    assert scan_prefixes(longer, len(records), size, of_keys, start=5, end=end) == runs


# --- damage -----------------------------------------------------------------------------------


def readings(data: bytes, count: int) -> Iterator[Callable[[], object]]:
    yield lambda: decode(data, count)
    yield lambda: scan_keys(data, count)
    yield lambda: null_keys(data, count, 1_000)
    yield lambda: scan_prefixes(data, count, 5, False)


def reads_or_is_corrupt(data: bytes, count: int) -> None:
    for reading in readings(data, count):
        try:
            reading()
        except CorruptBatch:
            continue


def test_every_truncation_is_refused():
    data = encode_records(EVERY_KIND[2:3] + EVERY_KIND[4:5])
    for cut in range(len(data)):
        for reading in readings(data[:cut], 2):
            with pytest.raises(CorruptBatch):
                reading()


def test_every_changed_byte_is_read_or_refused():
    data = encode_records(EVERY_KIND)
    for position in range(len(data)):
        for byte in range(256):
            changed = data[:position] + bytes((byte,)) + data[position + 1 :]
            reads_or_is_corrupt(changed, len(EVERY_KIND))


@given(st.binary(max_size=200), st.integers(-(2**31), 2**31 - 1) | st.integers(0, 20))
def test_any_bytes_are_read_or_refused(data: bytes, count: int):
    reads_or_is_corrupt(data, count)


@pytest.mark.parametrize("count", [-1, len(EVERY_KIND) - 1, len(EVERY_KIND) + 1, 2**31])
def test_a_wrong_count_is_refused(count: int):
    data = encode_records([record for record in EVERY_KIND if record.key is not None])
    for reading in readings(data, count):
        with pytest.raises(CorruptBatch):
            reading()


HEAD = b"\x00\x00\x00"  # attributes, both deltas 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"\x00" + b"\x80" * 10, "varint"),
        (b"\x00" + b"\xff" * 9 + b"\x02" + b"\x00" * 5, "64 bits"),
        (b"\x00\x00\x01" + b"\x01\x01\x00", "offset delta -1"),
        (b"\x00\x00" + write_varlong(2**31) + b"\x01\x01\x00", "offset delta 2147483648"),
        (HEAD + b"\x03\x01\x00", "length -2"),
        (HEAD + write_varlong(2**62) + b"\x01\x00", "length 4611686018427387904"),
        (HEAD + b"\x01\x04\x00", "length 2"),
        (HEAD + b"\x01\x01\x01", "-1 headers"),
        (HEAD + b"\x01\x01" + write_varlong(2**31 - 1) + b"\x00\x01", "2147483647 headers"),
        (HEAD + b"\x01\x01\x02\x01\x01", "without a name"),
        (HEAD + b"\x01\x01\x00" + b"spare", "ends before"),
    ],
)
def test_damage_is_named_with_its_place(body: bytes, words: str):
    with pytest.raises(CorruptBatch, match=words) as raised:
        decode(write_varlong(len(body)) + body, 1)
    assert "at byte" in str(raised.value)


def test_offsets_that_do_not_ascend_are_refused():
    twice = encode_records([Record(0, BASE_TIMESTAMP, b"k", b"v")]) * 2
    for reading in readings(twice, 2):
        with pytest.raises(CorruptBatch, match=r"offset delta 0 at byte .*, it must be from 1"):
            reading()


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1), (1, 2**63 - 1)])
def test_a_timestamp_beyond_64_bits_is_refused(base: int, delta: int):
    data = encode_records([Record(0, delta, b"k", b"v")], 0, 0)
    with pytest.raises(CorruptBatch, match="timestamp"):
        decode(data, 1, base)


def test_timestamps_at_the_ends_of_64_bits_are_read():
    for timestamp in (-(2**63), 2**63 - 1):
        record = Record(0, timestamp, b"k", b"v")
        assert decode(encode_records([record]), 1, timestamp) == [record]


def test_a_base_offset_without_room_is_refused():
    data = encode_records(EVERY_KIND)
    with pytest.raises(CorruptBatch, match="base offset"):
        decode_records(data, len(EVERY_KIND), 2**63 - 2, BASE_TIMESTAMP, -1)


def test_a_header_name_that_is_not_utf8_does_not_hide_its_record():
    data = encode_records([Record(0, BASE_TIMESTAMP, None, b"v", (("ab", b"1"),))])
    (record,) = decode(data.replace(b"ab", b"a\xff"), 1)
    assert record.headers == (("a\N{REPLACEMENT CHARACTER}", b"1"),)


def test_what_cannot_be_written_is_refused():
    with pytest.raises(InvalidRecord, match="header name"):
        encode_records([Record(0, 0, None, None, (("\ud800", b""),))])
    with pytest.raises(InvalidTimestamp):
        encode_records([Record(0, -1, None, None), Record(1, 2**63 - 1, None, None)])
    with pytest.raises(InvalidTimestamp):
        encode_records([Record(0, 0, None, None), Record(1, 2**80, None, None)])


# --- bounds -----------------------------------------------------------------------------------


def with_headers(count: int) -> bytes:
    """One record with so many headers of two bytes each, as no encoder of ours would write it."""
    body = HEAD + b"\x01\x01" + write_varlong(count) + b"\x00\x01" * count
    return write_varlong(len(body)) + body


def test_a_record_has_no_more_headers_than_are_allowed():
    (record,) = decode(with_headers(RECORD_HEADERS_MAX), 1)
    assert len(record.headers) == RECORD_HEADERS_MAX
    with pytest.raises(CorruptBatch, match=r"10001 headers .* 10000 allowed"):
        decode(with_headers(RECORD_HEADERS_MAX + 1), 1)
    with pytest.raises(InvalidRecord, match="10001 headers, 10000 allowed"):
        encode_records([Record(0, 0, None, None, (("", None),) * (RECORD_HEADERS_MAX + 1))])


@pytest.mark.parametrize("deltas", [(0, 2, 4), (0, 1, 3), (1, 2, 3), (2, 3, 4)])
def test_records_stay_within_the_offsets_of_their_batch(deltas: tuple[int, ...]):
    records = [Record(delta, BASE_TIMESTAMP, b"k", b"v") for delta in deltas]
    data = encode_records(records, 0, BASE_TIMESTAMP)
    for reading in (
        lambda: decode_records(data, 3, 0, BASE_TIMESTAMP, -1, None, 2),
        lambda: scan_keys(data, 3, 2),
        lambda: null_keys(data, 3, 9, 2),
        lambda: scan_prefixes(data, 3, 5, False, 2),
    ):
        with pytest.raises(CorruptBatch, match="offset delta"):
            reading()
    assert decode_records(data, 3, 0, BASE_TIMESTAMP, -1, None, 4) == records  # compacted


@given(record_lists(min_size=1), st.integers(1, 5), st.integers(0, 9))
def test_slices_give_the_same_records(records: list[Record], objects_max: int, start: int):
    reader = RecordReader(*batch_to_read(records))
    found: list[Record] = []
    while not reader.is_done:
        some = reader.read(start, objects_max)
        assert sum(1 + len(each.headers) for each in some[:-1]) < objects_max
        found += some
        assert reader.next_offset > (found[-1].offset if found else -1)
    assert found == [record for record in records if record.offset >= start]


def test_records_before_the_damage_are_read():
    header, block = batch_to_read(EVERY_KIND)
    reader = RecordReader(header, block[:-1])
    assert reader.read() == EVERY_KIND[:-1]
    assert reader.next_offset == len(EVERY_KIND) - 1
    with pytest.raises(CorruptBatch):
        reader.read()


def batch_to_read(records: list[Record]) -> tuple[BatchHeader, bytes]:
    data = batches.encode(records)
    header = batches.header_at(data, 0)
    return header, batches.record_block(data, header)


# --- other people's code ----------------------------------------------------------------------


@STRANGERS
@given(records=record_lists(min_size=1))
def test_what_strangers_encode_is_decoded(stranger, records: list[Record]):
    assume(records[0].timestamp >= 0)  # aiokafka takes a first one of -1 for not yet set
    builder = stranger.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**20,
    )
    for record in records:
        builder.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
    data = bytes(builder.build())[HEADER_BYTES:]
    assert decode(data, len(records), records[0].timestamp) == records
    assert encode_records(records) == data


@STRANGERS
@given(records=record_lists(min_size=1))
def test_strangers_decode_what_is_encoded(stranger, records: list[Record]):
    batch = stranger.DefaultRecordBatch(batch_of(records))
    assert batch.validate_crc()
    assert [
        Record(found.offset, found.timestamp, found.key, found.value, tuple(found.headers))
        for found in batch
    ] == records


def batch_of(records: Sequence[Record]) -> bytes:
    """An uncompressed batch by hand, so that this test leans on nothing else of ours."""
    payload = encode_records(records)
    times = [record.timestamp for record in records]
    checked = (
        struct.pack(
            ">hiqqqhii", 0, len(records) - 1, times[0], max(times), -1, -1, -1, len(records)
        )
        + payload
    )
    return struct.pack(">qiibI", 0, 9 + len(checked), 0, 2, crc32c.crc32c(checked)) + checked
