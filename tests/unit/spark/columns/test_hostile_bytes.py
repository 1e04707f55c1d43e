"""Bytes that nobody vouches for give a named error or rows, the same from every reader."""

import random
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")
pytest.importorskip("numpy", reason="needs goqueue[spark]")

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import batch as batches
from goqueue.model.batch import APPEND_TIME
from goqueue.model.errors import CorruptBatch, GoQueueError
from goqueue.model.record import RECORD_HEADERS_MAX, Record
from goqueue.model.records import write_varlong
from goqueue.spark.columns import Decoder, decode_batches, engines
from tests.unit.model.record_examples import BASE_TIMESTAMP, EVERY_KIND
from tests.unit.spark.columns.batch_examples import (
    ALL_COLUMNS,
    EVER,
    PARTITION,
    TOPIC,
    batch_of,
    plain_rows,
    rows_of,
)

COLUMN_SETS = [ALL_COLUMNS, ("value",), ("key", "timestamp"), ("offset",)]
TELLING = (0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF)  # varints break at these
MANY = 26  # blocks: enough for the numpy decoder to go in lock step

LIMITS = (2**63 - 1, -(2**63), 2**62, 2**31, 2**31 - 1, -(2**31), 2**20)

# A record's worth of bytes, with varints at the limits of every size among them.
blocks = st.lists(
    st.sampled_from(LIMITS).map(write_varlong)
    | st.lists(st.sampled_from(TELLING), min_size=1, max_size=9).map(bytes)
    | st.binary(min_size=1, max_size=9),
    max_size=6,
).map(b"".join)

Outcome = list[dict[str, Any]] | type[GoQueueError]


def outcome(engine: engines.Engine, raw: bytes, columns: tuple[str, ...]) -> Outcome:
    try:
        decoded = Decoder(TOPIC, PARTITION, columns, engine=engine).decode(raw, start=0, end=EVER)
    except GoQueueError as error:
        return type(error)
    decoded.batch.validate(full=True)
    return rows_of(decoded.batch)


def plain_outcome(raw: bytes) -> Outcome:
    try:
        return plain_rows(raw)
    except GoQueueError as error:
        return type(error)


def agree(raw: bytes) -> None:
    for columns in COLUMN_SETS:
        assert outcome(engines.NUMPY, raw, columns) == outcome(engines.COMPILED, raw, columns)


def framed(block: bytes, count: int, base_offset: int = 0, **changed: Any) -> bytes:
    """Any bytes as the records of a batch that is sound otherwise."""
    header: dict[str, Any] = {
        "base_offset": base_offset,
        "last_offset_delta": 100,
        "base_timestamp": BASE_TIMESTAMP,
        "max_timestamp": BASE_TIMESTAMP,
        "count": count,
        "attributes": 0,
        "producer": (-1, -1, -1),
    }
    return bytes(batches.assemble(block, **header | changed))


def with_checksums(damaged: bytearray) -> bytes:
    position = 0
    while len(damaged) - position >= batches.HEADER_BYTES:
        size = batches.batch_size_at(damaged, position)
        if size < batches.HEADER_BYTES or position + size > len(damaged):
            break
        batches._renew_checksum(damaged, position, size)
        position += size
    return bytes(damaged)


@given(
    kinds=st.lists(st.tuples(blocks, st.integers(-1, 6)), min_size=1, max_size=3),
    base_timestamp=st.sampled_from((BASE_TIMESTAMP, 2**63 - 1, -(2**63))),
    append_time=st.sampled_from((0, APPEND_TIME)),
    copies=st.sampled_from((1, MANY)),
)
def test_any_bytes_as_records(
    kinds: list[tuple[bytes, int]], base_timestamp: int, append_time: int, copies: int
):
    raw = b"".join(
        framed(block, count, 101 * number, base_timestamp=base_timestamp, attributes=append_time)
        for number, (block, count) in enumerate(kinds * copies)
    )
    agree(raw)
    assert outcome(engines.NUMPY, raw, ALL_COLUMNS) == plain_outcome(raw)


def test_lengths_that_go_round_64_bits():
    """Many blocks go on side by side to places that no buffer has, and few of them further on."""
    far = write_varlong(2**63 - 1) + bytes(20)
    raw = b"".join(framed(far, 1 + number % 3, 101 * number) for number in range(2 * MANY))
    for columns in COLUMN_SETS:
        assert outcome(engines.NUMPY, raw, columns) is CorruptBatch
    agree(raw)


@given(raw=st.binary(max_size=200))
def test_any_bytes_at_all(raw: bytes):
    agree(raw)


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("copies", [1, MANY])
def test_damaged_batches_with_checksums_put_right(codec: int, copies: int):
    chance = random.Random(f"{codec} {copies}")
    size = len(EVERY_KIND)
    sound = b"".join(batch_of(EVERY_KIND, size * n, codec=codec) for n in range(copies))
    for _ in range(200 if copies == 1 else 20):
        damaged = bytearray(sound)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.choice(TELLING)
        raw = with_checksums(damaged)
        agree(raw)
        with suppress(GoQueueError):
            decode_batches(raw, partition=0, start=0, end=EVER).batch.validate(full=True)


def test_a_long_list_of_headers_costs_no_more_than_its_bytes():
    """One record with many headers leaves the decoders nothing to do side by side."""
    headers = tuple((str(number), None) for number in range(10_000))
    raw = batch_of([Record(0, BASE_TIMESTAMP, None, None, headers)])
    agree(raw)
    assert outcome(engines.NUMPY, raw, ALL_COLUMNS) == plain_outcome(raw)


@pytest.mark.parametrize("excess", [0, 1])
@pytest.mark.parametrize("copies", [1, MANY])
def test_no_reader_takes_more_headers_than_a_record_may_have(excess: int, copies: int):
    count = RECORD_HEADERS_MAX + excess
    body = b"\x00\x00\x00\x01\x01" + write_varlong(count) + b"\x00\x01" * count
    block = write_varlong(len(body)) + body
    raw = b"".join(framed(block, 1, 101 * copy) for copy in range(copies))
    agree(raw)
    expected = CorruptBatch if excess else plain_rows(raw)
    assert outcome(engines.NUMPY, raw, ALL_COLUMNS) == plain_outcome(raw) == expected
