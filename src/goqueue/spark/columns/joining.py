"""Rows to records with numpy and Arrow: the encoder that needs no compiler.

A record is bytes one after the other: numbers as varints, key, value, headers.  Each part becomes
an Arrow array over all rows, and Arrow joins them row by row.  The joined rows of a batch lie side
by side, and those bytes are its record block.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.model.batch import Buffer
from goqueue.model.murmur import murmur2
from goqueue.spark.columns.fields import Integers
from goqueue.spark.columns.rows import Bytes, Rows
from goqueue.spark.columns.varints import varint_array

_LANES_MIN = 24  # fewer keys than this are quicker one by one
_SEED = np.uint32(0x9747_B28C)
_FACTOR = np.uint32(0x5BD1_E995)
_EMPTY = b""
_ATTRIBUTES = b"\0"
_NO_HEADERS = b"\0"

Hashes = npt.NDArray[np.uint32]


def pack(rows: Rows, order: Integers, bounds: Integers) -> list[Buffer]:
    """The record blocks of `order[bounds[0]:bounds[1]]`, of `order[bounds[1]:bounds[2]]`, …

    Timestamps are counted from the first record of each block.
    """
    counts = np.diff(bounds)
    firsts = np.repeat(bounds[:-1], counts)
    timestamps = rows.timestamps[order]
    parts = [
        _ATTRIBUTES,
        varint_array(timestamps - timestamps[firsts]),
        varint_array(np.arange(order.size) - firsts),
        *_frame(rows.keys, order),
        *_frame(rows.values, order),
        _NO_HEADERS if rows.headers is None else rows.headers.array.take(pa.array(order)),
    ]
    bodies = Bytes(pc.binary_join_element_wise(*parts, _EMPTY))
    records = Bytes(pc.binary_join_element_wise(varint_array(bodies.lengths), bodies.array, _EMPTY))
    view = memoryview(records.data)
    edges = records.offsets[bounds].tolist()
    return [view[start:end] for start, end in pairwise(edges)]


def _frame(column: Bytes, order: Integers) -> tuple[pa.Array, pa.Array]:
    """Lengths, -1 for null, and bytes."""
    lengths = np.where(column.nulls, -1, column.lengths)[order]
    return varint_array(lengths), column.array.take(pa.array(order)).fill_null(b"")


def key_hashes(keys: Bytes) -> Hashes:
    """Kafka's murmur2 of each key; of a null key, anything."""
    lengths = keys.lengths
    hashed = lengths.astype(np.uint32) ^ _SEED
    starts = keys.offsets[:-1].astype(np.int64)
    padded = np.zeros(len(keys.data) + 4, np.uint8)  # a tail is read as a whole word
    padded[:-4] = np.frombuffer(keys.data, np.uint8)
    words = np.ndarray((len(keys.data) + 1,), np.dtype("<u4"), padded, strides=(1,))
    step = 0
    active = np.flatnonzero(lengths >= 4)
    while active.size >= _LANES_MIN:
        word = words[starts[active] + 4 * step] * _FACTOR
        word ^= word >> np.uint32(24)
        hashed[active] = hashed[active] * _FACTOR ^ word * _FACTOR
        step += 1
        active = active[lengths[active] >= 4 * step + 4]
    _hash_tails(hashed, words, starts, lengths)
    for row in active.tolist():
        hashed[row] = murmur2(keys.array[row].as_py() or b"")
    return hashed


def _hash_tails(
    hashed: Hashes, words: npt.NDArray[np.uint32], starts: Integers, lengths: Integers
) -> None:
    left = lengths & 3
    tails = np.flatnonzero(left)
    bits = (8 * left[tails]).astype(np.uint32)
    tail = words[(starts + lengths - left)[tails]] & ((np.uint32(1) << bits) - np.uint32(1))
    hashed[tails] = (hashed[tails] ^ tail) * _FACTOR
    hashed ^= hashed >> np.uint32(13)
    hashed *= _FACTOR
    hashed ^= hashed >> np.uint32(15)
