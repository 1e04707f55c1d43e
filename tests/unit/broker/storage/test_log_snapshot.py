"""Snapshots inside a log: how their pieces are written, told apart and put together."""

import pytest

from goqueue.broker.storage.log_snapshot import (
    MAGIC,
    Piece,
    Pieces,
    encode_end,
    encode_slice,
    find_piece,
)
from goqueue.model import batch as batches
from goqueue.model.errors import CorruptData
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.record import Record

NOW = Timestamp(1_750_000_000_000)
AT = Offset(2**40)


def found(data: bytearray, offset: int = AT) -> Piece | None:
    batches.stamp(data, batches.header_at(data, 0), offset, 3)
    return find_piece(data, batches.header_at(data, 0))


def test_pieces_keep_their_bytes_on_disk():
    for data, key, value in (
        (encode_slice(AT, [b"a", b"bc"], NOW), b"GQS\x01S", b"\x92\xc4\x01a\xc4\x02bc"),
        (encode_end(AT, 3, NOW), b"GQS\x01E", b"\x03"),
    ):
        (record,) = batches.decode_all(data)
        assert (record.key, record.value) == (key + AT.to_bytes(8, "big"), value)


def test_what_was_written_is_found():
    piece = found(encode_slice(AT, [b"a", b"bc"], NOW), AT + 1)
    assert piece is not None
    assert (piece.at, piece.offset, piece.is_end, piece.records) == (
        AT,
        AT + 1,
        False,
        [b"a", b"bc"],
    )
    end = found(encode_end(AT, 3, NOW))
    assert end is not None
    assert (end.at, end.is_end, end.slices) == (AT, True, 3)


@pytest.mark.parametrize("value", [b"", MAGIC, b"GQS\x01S", b"x" * 100])
def test_values_of_a_machine_are_none(value: bytes):
    assert found(batches.encode([Record(0, NOW, None, value)])) is None
    assert found(batches.encode([Record(0, NOW, None, value)] * 2)) is None


def test_what_a_later_release_wrote_is_refused():
    key = b"GQS\x02S" + AT.to_bytes(8, "big")
    with pytest.raises(CorruptData, match="version 2"):
        found(batches.encode([Record(0, NOW, key, b"?")]))


def piece(offset: int, at: int, slices: int | None = None) -> Piece:
    value = b"12345" if slices is None else bytes([slices])
    return Piece(Offset(offset), Offset(at), slices is not None, value, 5)


def test_a_snapshot_is_whole_when_its_end_is_there_and_all_slices_were():
    pieces = Pieces()
    assert pieces.note(piece(10, 10)) is None
    assert pieces.note(piece(12, 10)) is None
    assert pieces.note(piece(14, 14)) is None, "another one; the first was given up"
    assert pieces.note(piece(15, 14, slices=2)) is None, "one is missing"
    assert pieces.note(piece(16, 10, slices=2)) == (10, 10)


def test_a_snapshot_that_begins_before_the_log_is_not_whole():
    pieces = Pieces()
    assert pieces.note(piece(11, 10)) is None
    assert pieces.note(piece(12, 10, slices=1)) is None
    assert pieces.note(piece(13, 9, slices=0)) is None


def test_damaged_values_are_told():
    with pytest.raises(CorruptData, match="offset 7"):
        _ = Piece(Offset(7), Offset(7), False, b"\xc1", 1).records
    with pytest.raises(CorruptData, match="offset 7"):
        _ = Piece(Offset(7), Offset(7), True, b"\xc1", 1).slices
