"""Snapshots inside the log that they shorten: records with a key, between those of the machine.

    value  value │ slice  value  slice  value  value  end │ value  value
                 at                                       whole

A snapshot is the state of all values before its first slice, whose offset names it: `at`.  Values
that are decided while it is written lie between its slices and are not in it.  It counts once its
end is in the log.  A crash, or a leader that is deposed, leaves one without an end, which is passed
over.  Where the end is, all slices are, and all values before `at` once were: an offset and an
epoch name the same records in all replicas.  So whoever copies the log has the snapshot, too.

The key: `GQS`, version (1 byte), kind (`S` or `E`), `at` (8 bytes).  The value of a slice is a
MessagePack array of records, that of the end the number of slices.  Each is a batch of its own.
The machine's own records have no key.
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.model import batch as batches
from goqueue.model.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.model.errors import CorruptData
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.record import Record

MAGIC: Final = b"GQS"
VERSION: Final = 1
SLICE: Final = b"S"
END: Final = b"E"

_KEY: Final = struct.Struct(">3sBcQ")
_PEEK_BYTES: Final = 24  # the key is not far from the start of its record
_decode_slice: Final = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_end: Final = msgspec.msgpack.Decoder(int).decode


class Piece(msgspec.Struct, frozen=True):
    """A slice of a snapshot, or its end."""

    offset: Offset  # of the piece itself
    at: Offset  # the first offset whose value is not in the snapshot
    is_end: bool
    value: bytes
    size: int  # of its batch

    @property
    def records(self) -> list[bytes]:
        """Of the machine; raises `CorruptData`."""
        try:
            return _decode_slice(self.value)
        except msgspec.MsgspecError as error:
            raise CorruptData(f"slice of a snapshot at offset {self.offset}: {error}") from error

    @property
    def slices(self) -> int:
        """How many there are before this end; raises `CorruptData`."""
        try:
            return _decode_end(self.value)
        except msgspec.MsgspecError as error:
            raise CorruptData(f"end of a snapshot at offset {self.offset}: {error}") from error


def encode_slice(at: Offset, records: Sequence[bytes], now: Timestamp) -> bytearray:
    """The batch to append."""
    return _encode(at, SLICE, msgspec.msgpack.encode(records), now)


def encode_end(at: Offset, slices: int, now: Timestamp) -> bytearray:
    """The batch to append."""
    return _encode(at, END, msgspec.msgpack.encode(slices), now)


def _encode(at: Offset, kind: bytes, value: bytes, now: Timestamp) -> bytearray:
    key = _KEY.pack(MAGIC, VERSION, kind, at)
    return batches.encode([Record(0, now, key, value)])


def find_piece(data: Buffer, header: BatchHeader) -> Piece | None:
    """What the batch holds of a snapshot; None for one with the machine's own records.

    Raises `CorruptData` when a later release wrote it.
    """
    start = header.position + HEADER_BYTES
    if header.last_offset_delta or MAGIC not in bytes(data[start : start + _PEEK_BYTES]):
        return None
    (record,) = batches.decode(data, header)
    key = record.key
    if key is None or not key.startswith(MAGIC):
        return None
    if key[3] != VERSION or len(key) != _KEY.size:
        raise CorruptData(
            f"snapshot at offset {record.offset}: format version {key[3]}, this release reads"
            f" {VERSION}"
        )
    _, _, kind, at = _KEY.unpack(key)
    return Piece(Offset(record.offset), Offset(at), kind == END, record.value or b"", header.size)


class Pieces:
    """Looks for a snapshot that is whole, in the pieces of a log in their order."""

    def __init__(self) -> None:
        self._seen: dict[Offset, tuple[int, int]] = {}  # slices and their bytes, by `at`

    def note(self, piece: Piece) -> tuple[Offset, int] | None:
        """Of the snapshot that this piece ends, `at` and bytes; None while none is whole."""
        slices, size = self._seen.get(piece.at, (0, 0))
        if piece.is_end:
            has_begun = bool(slices) or piece.offset == piece.at
            return (piece.at, size) if has_begun and slices == piece.slices else None
        if slices or piece.offset == piece.at:  # or the log begins in the middle of it
            self._seen[piece.at] = slices + 1, size + piece.size
        return None
