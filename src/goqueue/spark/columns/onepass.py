# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False
"""The loops over records that are compiled: where fields lie, copying them, and writing them.

Compiled with the types in `onepass.pxd` a record takes some ten nanoseconds to find and as many
to copy.  Interpreted these functions give the same answers a hundred times slower than numpy
does, so only tests run them so.  They take memory views and fill those that they are given:
int64 for offsets, times and tables, int32 for places in a buffer, bytes.

Input is hostile until read.  The compiler checks no bounds here, so each length is compared with
what is left before it is used.  A varint that is cut short gives a position beyond the end, where
whatever is read next fails in the same way: one check at the end of several reads finds it.
"""

from goqueue.model.errors import CorruptBatch
from goqueue.model.record import RECORD_HEADERS_MAX

View = memoryview

_HEADER_BYTES_MIN = 2  # an empty name, no value
_HEADERS_MAX = RECORD_HEADERS_MAX
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_INT64_MIN = -_INT64_MAX - 1
_VECTOR_BYTES = 16
_HASH_MASK = 0xFFFF_FFFF
_HASH_SEED = 0x9747_B28C
_HASH_FACTOR = 0x5BD1_E995

# What `scan` reads beside offset and time: `layout.Depth`.
_KEYS = 1
_VALUES = 2
_HEADERS = 3

_WIDTH = 8  # numbers that describe a block: `blocks.BlockColumns`


def scan(
    octets: View, table: View, depth: int, offsets: View, timestamps: View, slots: View, lists: View
) -> None:
    """Find the fields of all records; raises `CorruptBatch`.

    `slots` gets, row after row of the columns' length: key start, key length, value start, value
    length, header start, record end; as many of them as `depth` asks for.  `lists` gets where
    each record's headers begin and end, counted in headers.  `timestamps` may be empty.
    """
    rows = len(offsets)
    row = 0
    header_total = 0
    for block in range(len(table) // _WIDTH):
        position = table[_WIDTH * block]
        end = table[_WIDTH * block + 1]
        count = table[_WIDTH * block + 2]
        base_offset = table[_WIDTH * block + 3]
        last_delta = table[_WIDTH * block + 4]
        base_timestamp = table[_WIDTH * block + 5]
        append_timestamp = table[_WIDTH * block + 6]
        delta_min = _INT64_MIN - base_timestamp if base_timestamp < 0 else _INT64_MIN
        delta_max = _INT64_MAX - base_timestamp if base_timestamp > 0 else _INT64_MAX
        previous_delta = -1
        for _ in range(count):
            length, position = _read(octets, position, end)
            if length < 1 or length > end - position:
                raise _damage_error("length of a record", position)
            record_end = position + length
            timestamp_delta, position = _read(octets, position + 1, record_end)
            offset_delta, position = _read(octets, position, record_end)
            if position > record_end or offset_delta <= previous_delta or offset_delta > last_delta:
                raise _damage_error("offset", position)
            previous_delta = offset_delta
            offsets[row] = base_offset + offset_delta
            if len(timestamps) > 0:
                timestamps[row] = append_timestamp
                if append_timestamp < 0:
                    if timestamp_delta < delta_min or timestamp_delta > delta_max:
                        raise _damage_error("timestamp", position)
                    timestamps[row] = base_timestamp + timestamp_delta
            if depth >= _KEYS:
                length, position = _read(octets, position, record_end)
                if length < -1 or length > record_end - position:
                    raise _damage_error("length of a key", position)
                slots[row] = position
                slots[rows + row] = length
                if length > 0:
                    position += length
            if depth >= _VALUES:
                length, position = _read(octets, position, record_end)
                if length < -1 or length > record_end - position:
                    raise _damage_error("length of a value", position)
                slots[2 * rows + row] = position
                slots[3 * rows + row] = length
                if length > 0:
                    position += length
            if depth >= _HEADERS:
                length, position = _read(octets, position, record_end)
                if length < 0 or length > (record_end - position) // _HEADER_BYTES_MIN:
                    raise _damage_error("number of headers", position)
                if length > _HEADERS_MAX:
                    raise _damage_error("number of headers (too many)", position)
                if length == 0 and position != record_end:
                    raise _damage_error("end of a record", position)
                slots[4 * rows + row] = position
                slots[5 * rows + row] = record_end
                lists[row] = header_total
                header_total += length
            position = record_end
            row += 1
        if position != end:
            raise _damage_error("end of the records", position)
    if depth >= _HEADERS:
        lists[rows] = header_total


def scan_headers(octets: View, lists: View, starts: View, ends: View, slots: View) -> None:
    """Find names and values of all headers; raises `CorruptBatch`.

    `slots` gets, row after row: name start, name length, value start, value length.
    """
    total = len(slots) // 4
    for row in range(len(starts)):
        position = starts[row]
        end = ends[row]
        for header in range(lists[row], lists[row + 1]):
            length, position = _read(octets, position, end)
            if length < 0 or length > end - position:
                raise _damage_error("name of a header", position)
            slots[header] = position
            slots[total + header] = length
            position += length
            length, position = _read(octets, position, end)
            if length < -1 or length > end - position:
                raise _damage_error("value of a header", position)
            slots[2 * total + header] = position
            slots[3 * total + header] = length
            if length > 0:
                position += length
        if position != end:
            raise _damage_error("end of a record", position)


def gather(octets: View, starts: View, lengths: View, ends: View, data: View) -> None:
    """Copy the slots to `data`, one after the other, and where each ends to `ends`."""
    position = 0
    ends[0] = 0
    for row in range(len(starts)):
        length = lengths[row]
        if length > 0:
            _copy(data, position, octets, starts[row], length)
            position += length
        ends[row + 1] = position


# --- writing ------------------------------------------------------------------------------------


def pack(
    order: View,
    bounds: View,
    timestamps: View,
    key_offsets: View,
    keys: View,
    key_nulls: View,
    value_offsets: View,
    values: View,
    value_nulls: View,
    header_offsets: View,
    headers: View,
    output: View,
    edges: View,
) -> None:
    """Write the rows in `order` as records, and where each batch ends to `edges`.

    A batch is `order[bounds[n]:bounds[n + 1]]`.  `output` has room for the framing of every row
    at its longest.  Encoded headers include their count; without any, `header_offsets` is empty.
    """
    position = 0
    edges[0] = 0
    header_start = 0
    header_length = 0
    for batch in range(len(bounds) - 1):
        first = bounds[batch]
        base_timestamp = timestamps[order[first]]
        for index in range(first, bounds[batch + 1]):
            row = order[index]
            timestamp_delta = timestamps[row] - base_timestamp
            key_start = key_offsets[row]
            key_length = -1 if key_nulls[row] else key_offsets[row + 1] - key_start
            value_start = value_offsets[row]
            value_length = -1 if value_nulls[row] else value_offsets[row + 1] - value_start
            if len(header_offsets) > 0:
                header_start = header_offsets[row]
                header_length = header_offsets[row + 1] - header_start
            size = (
                1
                + _varint_size(timestamp_delta)
                + _varint_size(index - first)
                + _varint_size(key_length)
                + (key_length if key_length > 0 else 0)
                + _varint_size(value_length)
                + (value_length if value_length > 0 else 0)
                + (header_length if header_length > 0 else 1)
            )
            position = _write(output, position, size)
            output[position] = 0
            position = _write(output, position + 1, timestamp_delta)
            position = _write(output, position, index - first)
            position = _write(output, position, key_length)
            if key_length > 0:
                _copy(output, position, keys, key_start, key_length)
                position += key_length
            position = _write(output, position, value_length)
            if value_length > 0:
                _copy(output, position, values, value_start, value_length)
                position += value_length
            if header_length > 0:
                _copy(output, position, headers, header_start, header_length)
                position += header_length
            else:
                output[position] = 0
                position += 1
        edges[batch + 1] = position


def hash_keys(offsets: View, keys: View, hashes: View) -> None:
    """Kafka's murmur2 of each key, as `model/murmur.py` has it."""
    for row in range(len(hashes)):
        position = offsets[row]
        end = offsets[row + 1]
        hashed = (_HASH_SEED ^ (end - position)) & _HASH_MASK
        while position + 4 <= end:
            word = (_word(keys, position, 4) * _HASH_FACTOR) & _HASH_MASK
            word ^= word >> 24
            hashed = ((hashed * _HASH_FACTOR) & _HASH_MASK) ^ ((word * _HASH_FACTOR) & _HASH_MASK)
            position += 4
        if position < end:
            tail = _word(keys, position, end - position)
            hashed = ((hashed ^ tail) * _HASH_FACTOR) & _HASH_MASK
        hashed ^= hashed >> 13
        hashed = (hashed * _HASH_FACTOR) & _HASH_MASK
        hashes[row] = hashed ^ (hashed >> 15)


def _word(data: View, position: int, size: int) -> int:
    """`size` bytes (at most 4) from `position`, lowest first."""
    word = 0
    while size > 0:
        size -= 1
        word = (word << 8) | data[position + size]
    return word


# --- bytes and varints --------------------------------------------------------------------------


def _copy(target: View, position: int, source: View, start: int, length: int) -> None:
    """Copy `length` bytes, and a few more where there is room: whole vectors are quicker, and
    whatever is written next goes over the surplus."""
    rounded = (length + _VECTOR_BYTES - 1) & -_VECTOR_BYTES
    if rounded <= len(source) - start and rounded <= len(target) - position:
        length = rounded
    for index in range(length):
        target[position + index] = source[start + index]


def _read(data: View, position: int, end: int) -> tuple[int, int]:
    """The varint at `position` and the position after it, which is beyond `end` for a bad one."""
    if position < end:
        byte = data[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
    folded = 0
    shift = 0
    while position < end:
        byte = data[position]
        position += 1
        if byte < 0x80:
            if shift == 63 and byte > 1:
                break
            folded |= byte << shift
            return (folded >> 1) ^ -(folded & 1), position
        if shift == 63:
            break
        folded |= (byte & 0x7F) << shift
        shift += 7
    return 0, end + 1


def _write(output: View, position: int, value: int) -> int:
    """Write a varint; gives the position after it."""
    folded = _fold(value)
    while folded > 0x7F:
        output[position] = (folded & 0x7F) | 0x80
        folded >>= 7
        position += 1
    output[position] = folded
    return position + 1


def _varint_size(value: int) -> int:
    folded = _fold(value)
    size = 1
    while folded > 0x7F:
        size += 1
        folded >>= 7
    return size


def _fold(value: int) -> int:
    """The sign moved into bit 0, without a step that would overflow 64 bits."""
    if value >= 0:
        folded = value
        return folded << 1
    folded = ~value
    return (folded << 1) | 1


def _damage_error(what: str, position: int) -> CorruptBatch:
    return CorruptBatch(f"{what} is wrong, at byte {position} of the records read")
