"""Rows that are to become records: which columns they may have, and what each one means.

    value        string or binary; a null is a tombstone in a compacted topic
    key          string or binary; decides the partition, and rows without one go in turn
    topic        string; the topic of this row, unless one topic is set for all
    partition    integer; goes before the key
    headers      array of struct<key: string, value: binary>
    timestamp    timestamp; of the record, now where there is none
    priority     string or integer; becomes the header `gq-priority`
    deliver_at   timestamp, integer (milliseconds since 1970) or string; becomes `gq-deliver-at`

Other columns are left alone, as Spark's Kafka sink does.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from goqueue.model.errors import InvalidRecord, InvalidRequest, InvalidTimestamp
from goqueue.model.record import RECORD_HEADERS_MAX
from goqueue.model.records import write_varlong
from goqueue.spark.columns.fields import Integers
from goqueue.spark.columns.varints import varint_array

DELIVER_AT_HEADER = "gq-deliver-at"
FRAMING_BYTES_MAX = 32  # of a record: five varints, attributes, a count of no headers

_PER_MILLISECOND = {"us": 1_000, "ns": 1_000_000}
_EMPTY = b""


class Bytes:
    """A column of bytes, laid open: a slot a row in `data`, from one offset to the next."""

    def __init__(self, array: pa.Array) -> None:
        _, offsets, data = array.buffers()
        self.array = array
        self.data = data if data is not None else pa.py_buffer(b"")
        self.offsets = np.frombuffer(offsets, np.int32)[array.offset :][: len(array) + 1]
        self.nulls = array.is_null().to_numpy(zero_copy_only=False)

    @property
    def lengths(self) -> Integers:
        return np.diff(self.offsets).astype(np.int64)


class Rows:
    """What the records will hold.  `headers` are encoded already, their count included."""

    def __init__(
        self, keys: Bytes, values: Bytes, headers: Bytes | None, timestamps: Integers
    ) -> None:
        self.keys = keys
        self.values = values
        self.headers = headers
        self.timestamps = timestamps

    def sizes(self) -> Integers:
        """Bytes in each row, framing not counted."""
        size = self.keys.lengths + self.values.lengths
        return size if self.headers is None else size + self.headers.lengths


def check_columns(schema: pa.Schema, *, topic: str | None) -> None:
    """Raises `InvalidRequest` that names all that is wrong with the columns."""
    problems = [
        f"column {name!r} is {schema.field(name).type}, it must be {kind}"
        for name, (kind, fits) in _KINDS.items()
        if name in schema.names and not fits(schema.field(name).type)
    ]
    problems += [
        f"column {name!r} is there twice" for name in _KINDS if schema.names.count(name) > 1
    ]
    if "value" not in schema.names:
        problems.append("there is no column 'value', the bytes or text of each message")
    if topic is None and "topic" not in schema.names:
        problems.append("there is no column 'topic', and the option 'topic' is not set either")
    if problems:
        raise InvalidRequest("these rows cannot be messages: " + "; ".join(problems))


def rows_of(batch: pa.RecordBatch, now_ms: int) -> Rows:
    """The rows of a batch whose columns were checked; raises `InvalidRecord`."""
    values = column_of(batch, "value")
    keys = column_of(batch, "key")
    return Rows(
        Bytes(_binary(keys if keys is not None else pa.nulls(len(batch)))),
        Bytes(_binary(values)),
        _encode_headers(batch),
        _timestamps(column_of(batch, "timestamp"), len(batch), now_ms),
    )


def column_of(batch: pa.RecordBatch, name: str) -> Any:
    return batch.column(name) if name in batch.schema.names else None


def _binary(column: pa.Array) -> pa.Array:
    return column.cast(pa.binary())


# --- time ---------------------------------------------------------------------------------------


def _timestamps(column: Any, count: int, now_ms: int) -> Integers:
    if column is None:
        return np.full(count, now_ms, np.int64)
    return _integers(_milliseconds(column).fill_null(now_ms))


def _milliseconds(column: pa.Array) -> pa.Array:
    """Times rounded down, also those before 1970, where a cast would round up."""
    unit = column.type.unit
    if unit == "s":
        try:
            return column.cast(pa.timestamp("ms")).cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InvalidTimestamp(f"a timestamp is beyond 64 bits: {error}") from error
    counted = column.cast(pa.int64())
    if unit == "ms":
        return counted
    floored = _integers(counted.fill_null(0)) // _PER_MILLISECOND[unit]
    return pa.array(floored, mask=column.is_null().to_numpy(zero_copy_only=False))


def _integers(column: pa.Array) -> Integers:
    found: Integers = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


# --- headers ------------------------------------------------------------------------------------


def _encode_headers(batch: pa.RecordBatch) -> Bytes | None:
    """Each row's headers as a record holds them: their count, then name and value of each."""
    lists = column_of(batch, "headers")
    counts = np.zeros(len(batch), np.int64)
    parts = []
    if lists is not None:
        counts += _integers(pc.list_value_length(lists).fill_null(0))
        parts.append(_encode_lists(lists, counts))
    for name, texts in _list_header_columns(batch):
        counts += _integers(texts.is_valid().cast(pa.int64()))
        parts.append(_encode_texts(name, texts))
    if not parts:
        return None
    if counts.size and int(counts.max()) > RECORD_HEADERS_MAX:
        raise InvalidRecord(
            f"a row with {int(counts.max())} headers, {RECORD_HEADERS_MAX} allowed a record"
        )
    return Bytes(pc.binary_join_element_wise(varint_array(counts), *parts, _EMPTY))


def _encode_lists(lists: pa.Array, counts: Integers) -> pa.Array:
    names, values = lists.flatten().flatten()
    if names.null_count:
        row = int(np.searchsorted(np.cumsum(counts), names.is_null().index(True).as_py(), "right"))
        raise InvalidRecord(f"a header in row {row} has no name")
    pairs = Bytes(_encode_pairs(names, values))
    # The pairs of a row lie side by side: the row's bytes begin where its first pair does.
    first_pairs = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(counts, out=first_pairs[1:])
    offsets = np.ascontiguousarray(pairs.offsets[first_pairs])
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(lists), [None, pa.py_buffer(offsets), pairs.data]
    )


def _encode_pairs(names: pa.Array, values: pa.Array) -> pa.Array:
    """Name and value, each after its length, -1 for null."""
    parts = []
    for column in (_binary(names), _binary(values)):
        opened = Bytes(column)
        parts += [varint_array(np.where(opened.nulls, -1, opened.lengths)), column.fill_null(b"")]
    return pc.binary_join_element_wise(*parts, _EMPTY)


def _encode_texts(name: str, texts: pa.Array) -> pa.Array:
    """A header of that name for each text, nothing for null."""
    framed_name = pa.scalar(write_varlong(len(name)) + name.encode(), pa.binary())
    lengths = varint_array(Bytes(_binary(texts)).lengths)
    pairs = pc.binary_join_element_wise(framed_name, lengths, _binary(texts), _EMPTY)
    return pairs.fill_null(b"")


def _list_header_columns(batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
    """The columns that travel as headers: name, and the text of each row or null."""
    found = []
    if (priority := column_of(batch, "priority")) is not None:
        from goqueue.queue.lanes import PRIORITY_HEADER  # with all of a queue: only who needs it

        found.append((PRIORITY_HEADER, _priorities(priority)))
    if (moment := column_of(batch, "deliver_at")) is not None:
        counted = _milliseconds(moment) if types.is_timestamp(moment.type) else moment
        found.append((DELIVER_AT_HEADER, counted.cast(pa.string())))
    return found


def _priorities(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    from goqueue.queue.lanes import NAMES

    allowed = [*NAMES, *map(str, range(len(NAMES)))]
    known = pc.or_(pc.is_in(texts, pa.array(allowed)), texts.is_null())
    row = known.index(False).as_py()
    if row >= 0:
        raise InvalidRecord(
            f"priority {texts[row].as_py()!r} in row {row}: use one of {', '.join(allowed)}"
        )
    return texts


# --- types --------------------------------------------------------------------------------------


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_null(kind)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        _is_text(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _is_headers(kind: pa.DataType) -> bool:
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    pair = kind.value_type
    return bool(
        types.is_struct(pair)
        and pair.num_fields == 2
        and _is_text(pair.field(0).type)
        and _is_bytes(pair.field(1).type)
    )


def _is_whole_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_null(kind))


def _is_moment(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind) or _is_whole_number(kind) or _is_text(kind))


_KINDS = {
    "value": ("string or binary", _is_bytes),
    "key": ("string or binary", _is_bytes),
    "topic": ("string", _is_text),
    "partition": ("integer", _is_whole_number),
    "headers": ("array of struct<key: string, value: binary>", _is_headers),
    "timestamp": ("timestamp", types.is_timestamp),
    "priority": ("string or integer", lambda kind: _is_text(kind) or _is_whole_number(kind)),
    "deliver_at": ("timestamp, integer or string", _is_moment),
}
