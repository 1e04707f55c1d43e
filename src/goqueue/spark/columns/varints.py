"""Zigzag varints by the million, with numpy.  `model/records.py` says what they are."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from goqueue.model.errors import CorruptBatch
from goqueue.spark.columns.fields import Integers

_SHIFT_MAX = 63  # of the tenth byte, which may hold one bit
_ONE = np.uint64(1)

Octets = npt.NDArray[np.uint8]


def varint_array(numbers: Integers) -> pa.Array:
    """Each number as its bytes."""
    folded = (numbers << 1 ^ numbers >> 63).view(np.uint64)
    sizes = np.ones(numbers.size, np.int64)
    shift = 7
    while shift <= _SHIFT_MAX and bool((larger := folded >> np.uint64(shift) != 0).any()):
        sizes += larger
        shift += 7
    offsets = np.zeros(numbers.size + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    for step in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > step)
        septet = (folded[rows] >> np.uint64(7 * step)).astype(np.uint8) & 0x7F
        data[offsets[rows] + step] = septet | ((sizes[rows] > step + 1) << 7).astype(np.uint8)
    return pa.BinaryArray.from_buffers(
        pa.binary(), numbers.size, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def read_varints(octets: Octets, position: Integers) -> tuple[Integers, Integers]:
    """The varints at all positions, and the positions after them.

    Most have one or two bytes.  Positions outside the buffer are clipped to it.
    """
    byte = octets.take(position, mode="clip")
    position = position + 1
    goes_on = byte >= 0x80
    if not goes_on.any():
        return _unfold(byte.astype(np.uint64)), position
    folded = (byte & 0x7F).astype(np.uint64)
    byte = octets.take(position, mode="clip")
    folded |= np.where(goes_on, byte & 0x7F, 0).astype(np.uint64) << np.uint64(7)
    position += goes_on
    goes_on &= byte >= 0x80
    if goes_on.any():
        _read_on(octets, position, folded, np.flatnonzero(goes_on))
    return _unfold(folded), position


def _read_on(
    octets: Octets, position: Integers, folded: npt.NDArray[np.uint64], rows: npt.NDArray[np.intp]
) -> None:
    """From the third byte on, for the rows that have one."""
    shift = 14
    while rows.size:
        byte = octets.take(position[rows], mode="clip")
        if shift == _SHIFT_MAX and bool((byte > 1).any()):
            raise CorruptBatch("a varint has more than 64 bits")
        folded[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        position[rows] += 1
        rows = rows[byte >= 0x80]
        shift += 7


def _unfold(folded: npt.NDArray[np.uint64]) -> Integers:
    return ((folded >> _ONE) ^ -(folded & _ONE)).view(np.int64)


def read_slot(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """Where the bytes at `position` start, and how many there are, -1 for null."""
    length, position = read_varint(data, position)
    if not -1 <= length <= end - position:
        raise CorruptBatch(f"length {length} at byte {position}, {end - position} bytes left")
    return position, length


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """The varint at `position`, and the position after it."""
    folded = 0
    shift = 0
    while 0 <= position < len(data):
        byte = data[position]
        position += 1
        folded |= (byte & 0x7F) << shift
        if byte < 0x80:
            if folded >> 64:
                break
            return (folded >> 1) ^ -(folded & 1), position
        if shift == _SHIFT_MAX:
            break
        shift += 7
    raise CorruptBatch(f"varint cut short or of more than 64 bits at byte {position}")
