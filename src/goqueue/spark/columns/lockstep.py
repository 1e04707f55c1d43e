"""Records to columns with numpy: the decoder that needs no compiler.

Where a record starts is known only when the one before it was read, but the blocks of a chunk do
not depend on each other.  So all blocks go forward in lock step, one numpy operation for the
first record of every block, one for the second, and so on.  With few blocks left a plain loop is
quicker.  Once all starts are known, each field is read for all records at once.

Little is checked on the way: positions may run wild inside the buffer.  At the end all starts are
compared with the lengths found there; when each record ends where the next begins and the last
where its block does, then every byte read was the record's own.

Bytes are not copied one by one.  A BinaryArray is laid over the whole buffer, whose slots are a
value, what lies between, a value, …; Arrow then takes every other slot.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from goqueue.model.batch import Buffer
from goqueue.model.errors import CorruptBatch
from goqueue.model.record import RECORD_HEADERS_MAX
from goqueue.spark.columns.blocks import BlockColumns, Blocks
from goqueue.spark.columns.fields import Fields, HeaderSlots, Integers, Slots
from goqueue.spark.columns.layout import Depth
from goqueue.spark.columns.varints import Octets, read_slot, read_varint, read_varints


def _strides() -> npt.NDArray[np.int16]:
    """By a record's first two bytes: how far it is to the next one; 0 if the length has more."""
    low, high = np.meshgrid(np.arange(256), np.arange(256), copy=False)
    narrow = 1 + (low >> 1)
    wide = 2 + ((low & 0x7F | high << 7) >> 1)
    return np.where(low < 0x80, narrow, np.where(high < 0x80, wide, 0)).astype(np.int16).reshape(-1)


_STRIDES = _strides()
_LANES_MIN = 24  # fewer blocks or records than this are quicker in a plain loop


def scan(blocks: Blocks, depth: Depth, *, with_timestamps: bool) -> Fields:
    """Find the fields of all records; raises `CorruptBatch`."""
    octets = np.frombuffer(blocks.octets, np.uint8)
    block = blocks.columns()
    last_rows = np.cumsum(block.records) - 1
    rows = _rows(octets, blocks, block, last_rows)
    timestamp_deltas = rows.integers()
    return Fields(
        offsets=_offsets(block, rows.integers(), last_rows),
        timestamps=_timestamps(block, timestamp_deltas) if with_timestamps else None,
        keys=rows.slots() if depth >= Depth.KEYS else None,
        values=rows.slots() if depth >= Depth.VALUES else None,
        headers=_headers(rows, memoryview(blocks.octets)) if depth >= Depth.HEADERS else None,
    )


def gather(octets: Buffer, slots: Slots) -> pa.Array:
    """The bytes of the slots, in an array of their own."""
    count = slots.starts.size
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = slots.starts
    offsets[1::2] = slots.starts + np.maximum(slots.lengths, 0)
    offsets[-1] = offsets[-2] if count else 0
    laid_over = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(octets)]
    )
    every_other = np.arange(0, 2 * count, 2, dtype=np.int32)
    is_null = slots.lengths < 0
    return laid_over.take(pa.array(every_other, mask=is_null if bool(is_null.any()) else None))


# --- where records are --------------------------------------------------------------------------


def _rows(octets: Octets, blocks: Blocks, block: BlockColumns, last_rows: Integers) -> "_Rows":
    """All records, each before its first field.  They must fill their blocks."""
    starts = _record_starts(octets, blocks, block, last_rows)
    length, body = read_varints(octets, starts)
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[last_rows] = block.end
    if bool(((length < 1) | (length != ends - body)).any()):
        raise CorruptBatch("records do not fill their batch as their lengths say")
    return _Rows(octets, body + 1, ends)  # after the attributes, which are unused


def _record_starts(
    octets: Octets, blocks: Blocks, block: BlockColumns, last_rows: Integers
) -> Integers:
    """Where the length of each record lies, if the lengths before it are right."""
    starts = np.empty(blocks.rows, np.int64)
    longest_first = np.argsort(-block.records, kind="stable")
    counts = block.records[longest_first]
    rows = (last_rows + 1)[longest_first] - counts
    position = block.start[longest_first]
    pairs = np.ndarray((max(0, octets.size - 1),), np.dtype("<u2"), octets.data, strides=(1,))
    step = 0
    lanes = counts.size
    while lanes >= _LANES_MIN:
        shortest = int(counts[lanes - 1])
        steps = np.empty((shortest - step, lanes), np.int64)
        for row in range(shortest - step):
            steps[row] = position
            position = _next_starts(octets, pairs, position)
        starts[rows + np.arange(shortest - step)[:, None]] = steps
        rows += shortest - step
        step = shortest
        lanes = int(np.count_nonzero(counts > step))
        rows = rows[:lanes]
        position = position[:lanes]
    data = memoryview(blocks.octets)
    for lane in range(lanes):
        row, count = int(rows[lane]), int(counts[lane]) - step
        starts[row : row + count] = _starts_from(data, int(position[lane]), count)
    return starts


def _next_starts(octets: Octets, pairs: npt.NDArray[np.uint16], position: Integers) -> Integers:
    try:
        strides = _STRIDES.take(pairs[position], mode="clip")
    except IndexError as error:
        raise CorruptBatch("the length of a record reaches beyond the batches") from error
    if strides.all():
        return position + strides
    length, body = read_varints(octets, position)
    return body + length


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

    def slots(self) -> Slots:
        """The next field, bytes."""
        length = self.integers()
        left = self._ends - self._position
        if bool(((length < -1) | (length > left)).any()):
            raise CorruptBatch("a length reaches beyond its record")
        start = self._position
        self._position = start + np.maximum(length, 0)
        return Slots(start, length)

    def subset(self, rows: Integers) -> "_Rows":
        return _Rows(self._octets, self._position[rows], self._ends[rows])

    def put(self, rows: Integers, moved: "_Rows") -> None:
        self._position[rows] = moved._position

    def header_counts(self) -> Integers:
        count = self.integers()
        if bool(((count < 0) | (count > (self._ends - self._position) // 2)).any()):
            raise CorruptBatch("more headers than a record has room for")
        if bool((count > RECORD_HEADERS_MAX).any()):
            raise CorruptBatch(f"more headers than the {RECORD_HEADERS_MAX} allowed a record")
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


def _offsets(block: BlockColumns, deltas: Integers, last_rows: Integers) -> Integers:
    before = np.empty_like(deltas)
    before[1:] = deltas[:-1]
    before[last_rows - block.records + 1] = -1
    if bool((deltas <= before).any()) or bool((deltas[last_rows] > block.last_delta).any()):
        raise CorruptBatch("offsets of records do not ascend to the last offset of their batch")
    return deltas + np.repeat(block.base_offset, block.records)


def _timestamps(block: BlockColumns, deltas: Integers) -> Integers:
    base = np.repeat(block.base_timestamp, block.records)
    own = base + deltas
    went_round = ((base ^ own) & (deltas ^ own)) < 0
    if bool((block.append_timestamp >= 0).any()):
        given = np.repeat(block.append_timestamp, block.records)
        own = np.where(given >= 0, given, own)
        went_round &= given < 0
    if bool(went_round.any()):
        raise CorruptBatch("the timestamp of a record is beyond 64 bits")
    return own


def _headers(rows: "_Rows", data: memoryview) -> HeaderSlots:
    counts = rows.header_counts()
    lists = np.zeros(counts.size + 1, np.int32)
    np.cumsum(counts, out=lists[1:])
    slots = np.empty((4, int(lists[-1])), np.int64)  # name start and length, value the same
    active = np.flatnonzero(counts)
    step = 0
    while active.size >= _LANES_MIN:
        lanes = rows.subset(active)
        places = lists[active] + step
        slots[0:2, places] = lanes.slots()
        slots[2:4, places] = lanes.slots()
        rows.put(active, lanes)
        step += 1
        active = active[counts[active] > step]
    for row in active.tolist():
        place = int(lists[row]) + step
        found = rows.headers_of(row, data, int(counts[row]) - step)
        slots[:, place : place + len(found)] = np.array(found, np.int64).T
    rows.check_ended()
    if bool((slots[1] < 0).any()):
        raise CorruptBatch("a header has no name")
    return HeaderSlots(lists, Slots(slots[0], slots[1]), Slots(slots[2], slots[3]))
