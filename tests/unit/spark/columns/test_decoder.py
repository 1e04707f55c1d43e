"""Fetched bytes become the rows that reading each record by itself gives."""

from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")
pytest.importorskip("numpy", reason="needs goqueue[spark]")

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import batch as batches
from goqueue.model.batch import APPEND_TIME, Buffer
from goqueue.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    GoQueueError,
    InvalidSetting,
    UnsupportedBatch,
)
from goqueue.model.ids import Timestamp
from goqueue.model.record import Record
from goqueue.spark.columns import COLUMN_TYPES, Decoded, Decoder, blocks, decode_batches, engines
from tests.unit.model.record_examples import BASE_TIMESTAMP, EVERY_KIND
from tests.unit.spark.columns.batch_examples import (
    ALL_COLUMNS,
    EVER,
    PARTITION,
    TOPIC,
    batch_of,
    marker_of,
    plain_rows,
    raw_batches,
    rows_of,
    sample,
    values,
)

column_sets = st.permutations(ALL_COLUMNS).flatmap(
    lambda names: st.integers(1, len(names)).map(lambda count: tuple(names[:count]))
)


def decode(raw: Buffer, columns: tuple[str, ...] = ALL_COLUMNS, **wanted) -> Decoded:
    """What both engines make of it, which is the same."""
    numpy, onepass = (
        attempt(engine, raw, columns, {"start": 0, "end": EVER} | wanted)
        for engine in (engines.NUMPY, engines.COMPILED)
    )
    if isinstance(numpy, GoQueueError):
        assert type(onepass) is type(numpy)
        raise numpy
    assert onepass == numpy
    numpy.batch.validate(full=True)
    return numpy


def attempt(
    engine: engines.Engine, raw: Buffer, columns: tuple[str, ...], wanted: dict[str, Any]
) -> Decoded | GoQueueError:
    try:
        return Decoder(TOPIC, PARTITION, columns, engine=engine).decode(raw, **wanted)
    except GoQueueError as error:
        return error


def seen(raw: bytes, **wanted) -> list[str]:
    """The values only, as text."""
    column = decode(raw, ("value",), **wanted).batch["value"]
    return [value.decode() for value in column.to_pylist()]


# --- rows ---------------------------------------------------------------------------------------


@given(raw=raw_batches(), columns=column_sets)
def test_rows_are_those_of_the_plain_reader(raw: bytes, columns: tuple[str, ...]):
    decoded = decode(raw, columns)
    assert rows_of(decoded.batch) == plain_rows(raw, columns=columns)
    assert decoded.batch.schema.names == list(columns)
    assert decoded.batch.schema.types == [COLUMN_TYPES[name] for name in columns]


@given(raw=raw_batches(), data=st.data())
def test_any_range_is_cut_exactly(raw: bytes, data: st.DataObject):
    headers = batches.verified_headers(raw)
    around = st.integers(headers[0].base_offset - 2, headers[-1].next_offset + 2)
    start, end = sorted((max(0, data.draw(around)), max(0, data.draw(around))))
    decoded = decode(raw, start=start, end=end)
    assert rows_of(decoded.batch) == plain_rows(raw, start=start, end=end)
    assert decoded.next_offset == max(start, min(end, headers[-1].next_offset))


@given(raw=raw_batches(batches_max=3), cut=st.integers(1, 200))
def test_a_batch_cut_short_at_the_end_is_left_for_the_next_fetch(raw: bytes, cut: int):
    whole = decode(raw)
    last = batch_of(EVERY_KIND, whole.next_offset)
    decoded = decode(raw + last[: min(cut, len(last) - 1)])
    assert decoded.next_offset == whole.next_offset
    assert decoded.batch.equals(whole.batch)


def test_nothing_fetched_is_no_rows():
    decoded = decode(b"", start=5)
    assert decoded.next_offset == 5
    assert decoded.batch.num_rows == 0
    assert decoded.batch.schema.names == list(ALL_COLUMNS)


def test_a_fetch_that_starts_beyond_the_end_says_the_range_is_empty():
    assert decode(batch_of(EVERY_KIND, 100), start=10, end=20).next_offset == 20


def test_a_batch_that_compaction_emptied_is_passed():
    emptied = bytes(
        batches.assemble(
            b"",
            base_offset=10,
            last_offset_delta=4,
            base_timestamp=0,
            max_timestamp=0,
            count=0,
            attributes=0,
            producer=(7, 0, 0),
        )
    )
    decoded = decode(emptied + batch_of(values("after"), 15), start=10)
    assert decoded.batch["offset"].to_pylist() == [15]
    assert decode(emptied, start=10).next_offset == 15


def test_append_time_is_the_time_of_every_record():
    batch = bytearray(batch_of(EVERY_KIND, attributes=APPEND_TIME))
    batches.stamp_append_time(batch, batches.header_at(batch, 0), Timestamp(BASE_TIMESTAMP + 9))
    rows = rows_of(decode(bytes(batch)).batch)
    assert {row["timestamp"] for row in rows} == {(BASE_TIMESTAMP + 9) * 1000}
    assert {row["timestampType"] for row in rows} == {1}


def test_a_time_that_microseconds_cannot_hold_becomes_the_last_that_they_can():
    raw = batch_of([Record(0, 2**63 - 1, None, b"far")])
    assert rows_of(decode(raw).batch)[0]["timestamp"] == (2**63 - 1) // 1000 * 1000


def test_a_header_name_that_is_not_utf_8_is_readable_all_the_same():
    odd = batch_of([Record(0, 0, None, b"", (("name", b"1"),))]).replace(b"name", b"na\xffe")
    (row,) = rows_of(decode(_with_checksum(odd)).batch)
    assert row["headers"] == [{"key": "na\N{REPLACEMENT CHARACTER}e", "value": b"1"}]


def test_other_kinds_of_buffers_are_read_too():
    raw = sample()
    expected = decode(raw).batch
    assert decode(memoryview(b"x" + raw)[1:]).batch.equals(expected)
    assert decode(bytearray(raw)).batch.equals(expected)


def test_long_records_and_many_headers():
    headers = tuple((f"name {number}", bytes(number)) for number in range(300))
    records = [Record(0, BASE_TIMESTAMP, b"k" * 10_000, b"v" * 20_000, headers)] * 30
    raw = b"".join(batch_of([record], offset) for offset, record in enumerate(records))
    assert rows_of(decode(raw).batch) == plain_rows(raw)


@pytest.mark.parametrize("columns", [("value", "size"), ("value", "value")])
def test_columns_that_cannot_be(columns: tuple[str, ...]):
    with pytest.raises(InvalidSetting):
        Decoder(TOPIC, PARTITION, columns)


# --- transactions -------------------------------------------------------------------------------


def test_control_batches_are_never_rows():
    raw = batch_of(values("a"), 0, producer_id=1) + marker_of(1, 1, commits=True)
    assert seen(raw) == ["a"]
    assert seen(raw, read_committed=False) == ["a"]
    assert decode(raw).next_offset == 2


def test_aborted_transactions_are_left_out_when_reading_committed():
    raw = b"".join(
        (
            batch_of(values("a0"), 0, producer_id=1),
            batch_of(values("b1"), 1, producer_id=2),
            batch_of(values("plain"), 2),
            marker_of(1, 3, commits=False),
            batch_of(values("a4"), 4, producer_id=1),
            marker_of(2, 5, commits=True),
            marker_of(1, 6, commits=True),
            batch_of(values("a7"), 7, producer_id=1),
            marker_of(1, 8, commits=False),
        )
    )
    aborted = [(1, 7), (1, 0)]  # in any order
    assert seen(raw, aborted=aborted) == ["b1", "plain", "a4"]
    assert seen(raw, aborted=aborted, read_committed=False) == ["a0", "b1", "plain", "a4", "a7"]
    assert seen(raw, aborted=aborted, start=4) == ["a4"]
    assert decode(raw, aborted=aborted).next_offset == 9


def test_a_transaction_that_began_before_the_fetch_is_left_out_up_to_its_marker():
    raw = b"".join(
        (
            batch_of(values("a"), 10, producer_id=1),
            marker_of(1, 11, commits=False),
            batch_of(values("b"), 12, producer_id=1),
        )
    )
    assert seen(raw, start=10, aborted=[(1, 3)]) == ["b"]


# --- bounds -------------------------------------------------------------------------------------


def test_a_chunk_that_unfolds_too_far_is_given_in_pieces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blocks, "COLLECTED_BYTES", 300)
    raw = b"".join(batch_of(EVERY_KIND, 6 * each, codec=4) for each in range(10))
    pieces = [decode(raw)]
    while pieces[-1].more:
        pieces.append(decode(raw, start=pieces[-1].next_offset))
    assert len(pieces) == 5
    assert [row for piece in pieces for row in rows_of(piece.batch)] == plain_rows(raw)


def test_no_more_rows_at_once_than_a_column_of_names_can_hold(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blocks, "ROWS_MAX", 13)
    raw = b"".join(batch_of(EVERY_KIND, 6 * each) for each in range(3))
    first = decode(raw)
    assert (first.batch.num_rows, first.next_offset, first.more) == (12, 12, True)
    second = decode(raw, start=12)
    assert (second.batch.num_rows, second.next_offset, second.more) == (6, 18, False)


def test_a_batch_of_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(blocks, "ROWS_MAX", 5)
    with pytest.raises(BatchTooLarge, match="6 records"):
        decode(batch_of(EVERY_KIND))


# --- damage -------------------------------------------------------------------------------------


def test_a_wrong_checksum_is_told_with_its_place():
    raw = bytearray(batch_of(EVERY_KIND, 0) + batch_of(EVERY_KIND, 6))
    raw[-1] ^= 1
    with pytest.raises(CorruptBatch, match="offset 6"):
        decode(bytes(raw))


def test_bytes_without_a_whole_batch_are_refused():
    """A reader that asked again from the same offset would get them again, and so on."""
    with pytest.raises(CorruptBatch, match="no whole batch"):
        decode(batch_of(EVERY_KIND, 7)[:-1], start=7)


def test_batches_that_go_back_are_refused():
    with pytest.raises(CorruptBatch, match="says offset 5"):
        decode(batch_of(EVERY_KIND, 0) + batch_of(EVERY_KIND, 5))


def test_a_record_beyond_the_last_offset_of_its_batch_is_refused():
    damaged = bytearray(batch_of(values("a", "b")))
    damaged[23:27] = bytes(4)  # last offset delta 0
    with pytest.raises(CorruptBatch):
        decode(_with_checksum(damaged))


def test_an_unknown_codec_is_refused():
    damaged = bytearray(batch_of(EVERY_KIND))
    damaged[22] |= 7
    with pytest.raises(UnsupportedBatch):
        decode(_with_checksum(damaged))


def _with_checksum(data: bytes | bytearray) -> bytes:
    renewed = bytearray(data)
    batches._renew_checksum(renewed, 0, len(renewed))
    return bytes(renewed)


# --- batches as rows ----------------------------------------------------------------------------


def test_batches_as_rows_have_their_bytes():
    first, marker, second = (
        batch_of(EVERY_KIND, 0, codec=4, producer_id=1),
        marker_of(1, 6, commits=True),
        batch_of(values("x"), 7),
    )
    decoded = decode_batches(first + marker + second, partition=3, start=0, end=EVER)
    assert decoded.next_offset == 8
    rows = decoded.batch.to_pylist()
    assert [row["batch"] for row in rows] == [first, second]
    assert [(row["partition"], row["baseOffset"], row["lastOffset"]) for row in rows] == [
        (3, 0, 5),
        (3, 7, 7),
    ]
    assert [row["records"] for row in rows] == [6, 1]


@given(cut=st.integers(0, 30))
def test_ranges_that_meet_share_no_batch_and_lose_none(cut: int):
    raw = b"".join(batch_of(EVERY_KIND, 6 * each) for each in range(5))
    left = decode_batches(raw, partition=0, start=0, end=cut)
    right = decode_batches(raw, partition=0, start=cut, end=EVER)
    assert left.next_offset == cut
    found = left.batch["batch"].to_pylist() + right.batch["batch"].to_pylist()
    assert b"".join(found) == raw
