"""Records to columns with numpy: the decoder that needs no compiler.

Where a record starts is known only when the one before it was read, but the blocks of a chunk do
not depend on each other.  So all blocks go forward in lock step, one numpy operation for the
first record of every block, one for the second, and so on.  With few blocks left a plain loop is
quicker.  Once all starts are known, each field is read for all records at once.

Nothing is checked on the way: positions may run wild, and `take` clips them to the buffer.  At
the end all starts are compared with the lengths found there; when each record ends where the next
begins and the last where its block does, then every byte read was the record's own.

Bytes are not copied one by one.  A BinaryArray is laid over the whole buffer, whose slots are a
value, what lies between, a value, …; Arrow then takes every other slot.
"""

import numpy as np
import pyarrow as pa

from goqueue.model.errors import CorruptBatch
from goqueue.spark.columns.blocks import Blocks
from goqueue.spark.columns.fields import Fields, header_lists
from goqueue.spark.columns.layout import Wanted
from goqueue.spark.columns.varints import Integers, Octets, read_slot, read_varint, read_varints

_LANES_MIN = 24  # fewer blocks or records than this are quicker in a plain loop


def decode(blocks: Blocks, wanted: Wanted) -> Fields:
    """The wanted fields of all records; raises `CorruptBatch`."""
    octets = np.frombuffer(blocks.octets, np.uint8)
    counts = np.frombuffer(blocks.counts, np.int64)
    last_rows = np.cumsum(counts) - 1
    rows = _rows(octets, blocks, counts, last_rows)
    timestamp_deltas = rows.integers()
    offsets = _offsets(blocks, rows.integers(), counts, last_rows)
    fields = Fields(offsets)
    if wanted.timestamp:
        fields.timestamps = _timestamps(blocks, timestamp_deltas, counts)
    buffer = pa.py_buffer(blocks.octets)
    if wanted.key or wanted.value or wanted.headers:
        slots = rows.slots()
        if wanted.key:
            fields.keys = _taken(buffer, *slots)
    if wanted.value or wanted.headers:
        slots = rows.slots()
        if wanted.value:
            fields.values = _taken(buffer, *slots)
    if wanted.headers:
        fields.headers = _headers(buffer, memoryview(blocks.octets), rows)
    return fields


# --- where records are --------------------------------------------------------------------------


def _rows(octets: Octets, blocks: Blocks, counts: Integers, last_rows: Integers) -> "_Rows":
    """All records, each before its first field.  They must fill their blocks."""
    starts = _record_starts(octets, blocks, counts, last_rows)
    length, body = read_varints(octets, starts)
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[last_rows] = np.frombuffer(blocks.ends, np.int64)
    # The bound on the length keeps the sums of wild ones from going round.
    if bool(((length < 1) | (length > octets.size) | (length != ends - body)).any()):
        raise CorruptBatch("records do not fill their batch as their lengths say")
    return _Rows(octets, body + 1, ends)  # after the attributes, which are unused


def _record_starts(
    octets: Octets, blocks: Blocks, counts: Integers, last_rows: Integers
) -> Integers:
    """Where the length of each record lies, if the lengths before it are right."""
    starts = np.empty(blocks.rows, np.int64)
    longest_first = np.argsort(-counts, kind="stable")
    counts = counts[longest_first]
    rows = (last_rows + 1)[longest_first] - counts
    position = np.frombuffer(blocks.starts, np.int64)[longest_first]
    step = 0
    lanes = counts.size
    while lanes >= _LANES_MIN:
        shortest = int(counts[lanes - 1])
        for _ in range(step, shortest):
            starts[rows] = position
            rows += 1
            position = _next_starts(octets, position)
        step = shortest
        lanes = int(np.count_nonzero(counts > step))
        rows = rows[:lanes]
        position = position[:lanes]
    data = memoryview(blocks.octets)
    for lane in range(lanes):
        row, count = int(rows[lane]), int(counts[lane]) - step
        starts[row : row + count] = _starts_from(data, int(position[lane]), count)
    return starts


def _next_starts(octets: Octets, position: Integers) -> Integers:
    low = octets.take(position, mode="clip")
    if low.max() < 0x80:
        return position + 1 + (low >> 1)
    high = octets.take(position + 1, mode="clip")
    if (low & high).max() >= 0x80:  # three bytes or more somewhere
        length, body = read_varints(octets, position)
        return body + length
    is_wide = low >= 0x80
    folded = low + is_wide * ((high.astype(np.int64) << 7) - 0x80)
    return position + 1 + is_wide + (folded >> 1)


def _starts_from(data: memoryview, position: int, count: int) -> list[int]:
    starts = []
    for _ in range(count):
        starts.append(position)
        length, position = read_varint(data, position)
        if length < 1:
            raise CorruptBatch(f"record at byte {starts[-1]} has length {length}")
        position += length
    return starts


# --- fields -------------------------------------------------------------------------------------


class _Rows:
    """Where each record stands: its fields up to `position` have been read."""

    def __init__(self, octets: Octets, position: Integers, ends: Integers) -> None:
        self._octets = octets
        self._position = position
        self._ends = ends

    def integers(self) -> Integers:
        """The next field, a number."""
        value, self._position = read_varints(self._octets, self._position)
        if bool((self._position > self._ends).any()):
            raise CorruptBatch("a varint is cut short by the end of its record")
        return value

    def slots(self) -> tuple[Integers, Integers]:
        """The next field, bytes: where they start, and how many there are, -1 for null."""
        length = self.integers()
        left = self._ends - self._position
        if bool(((length < -1) | (length > left)).any()):
            raise CorruptBatch("a length reaches beyond its record")
        start = self._position
        self._position = start + np.maximum(length, 0)
        return start, length

    def subset(self, rows: Integers) -> "_Rows":
        return _Rows(self._octets, self._position[rows], self._ends[rows])

    def put(self, rows: Integers, moved: "_Rows") -> None:
        self._position[rows] = moved._position

    def header_counts(self) -> Integers:
        count = self.integers()
        if bool(((count < 0) | (count > (self._ends - self._position) // 2)).any()):
            raise CorruptBatch("more headers than a record has room for")
        return count

    def headers_of(self, row: int, data: memoryview, count: int) -> list[tuple[int, int, int, int]]:
        """The next headers of one record: name start and length, value start and length."""
        position, end = int(self._position[row]), int(self._ends[row])
        found = []
        for _ in range(count):
            name, name_length = read_slot(data, position, end)
            position = name + max(name_length, 0)
            value, value_length = read_slot(data, position, end)
            position = value + max(value_length, 0)
            found.append((name, name_length, value, value_length))
        self._position[row] = position
        return found

    def check_ended(self) -> None:
        if bool((self._position != self._ends).any()):
            raise CorruptBatch("a record ends before its length says")


def _offsets(blocks: Blocks, deltas: Integers, counts: Integers, last_rows: Integers) -> Integers:
    before = np.empty_like(deltas)
    before[1:] = deltas[:-1]
    before[last_rows - counts + 1] = -1
    last_deltas = np.frombuffer(blocks.last_deltas, np.int64)
    if bool((deltas <= before).any()) or bool((deltas[last_rows] > last_deltas).any()):
        raise CorruptBatch("offsets of records do not ascend to the last offset of their batch")
    return deltas + np.repeat(np.frombuffer(blocks.base_offsets, np.int64), counts)


def _timestamps(blocks: Blocks, deltas: Integers, counts: Integers) -> Integers:
    base = np.repeat(np.frombuffer(blocks.base_timestamps, np.int64), counts)
    own = base + deltas
    went_round = ((base ^ own) & (deltas ^ own)) < 0
    append_timestamps = np.frombuffer(blocks.append_timestamps, np.int64)
    if bool((append_timestamps >= 0).any()):
        given = np.repeat(append_timestamps, counts)
        own = np.where(given >= 0, given, own)
        went_round &= given < 0
    if bool(went_round.any()):
        raise CorruptBatch("the timestamp of a record is beyond 64 bits")
    return own


def _taken(buffer: pa.Buffer, start: Integers, length: Integers) -> pa.Array:
    """The slots of `buffer` as an array of their own; ascending, and inside the buffer."""
    count = start.size
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = start
    offsets[1::2] = start + np.maximum(length, 0)
    offsets[-1] = offsets[-2] if count else 0
    laid_over = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(offsets), buffer]
    )
    every_other = np.arange(0, 2 * count, 2, dtype=np.int32)
    is_null = length < 0
    indices = pa.array(every_other, mask=is_null) if bool(is_null.any()) else every_other
    return laid_over.take(pa.array(indices))


def _headers(buffer: pa.Buffer, data: memoryview, rows: "_Rows") -> pa.Array:
    counts = rows.header_counts()
    offsets = np.zeros(counts.size + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    slots = np.empty((4, int(offsets[-1])), np.int64)  # name start and length, value the same
    active = np.flatnonzero(counts)
    step = 0
    while active.size >= _LANES_MIN:
        lanes = rows.subset(active)
        places = offsets[active] + step
        slots[0:2, places] = lanes.slots()
        slots[2:4, places] = lanes.slots()
        rows.put(active, lanes)
        step += 1
        active = active[counts[active] > step]
    for row in active.tolist():
        place = int(offsets[row]) + step
        found = rows.headers_of(row, data, int(counts[row]) - step)
        slots[:, place : place + len(found)] = np.array(found, np.int64).T
    rows.check_ended()
    if bool((slots[1] < 0).any()):
        raise CorruptBatch("a header has no name")
    return header_lists(
        offsets, _taken(buffer, slots[0], slots[1]), _taken(buffer, slots[2], slots[3])
    )
