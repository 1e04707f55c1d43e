"""Protobuf payloads as columns: parsed by Protobuf itself, then taken apart field by field.

Integers without a sign are of the next larger type, enums their names, `google.protobuf.Timestamp`
a timestamp; other messages are structs.  A field without presence that is not set has its default,
one with presence is null.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from goqueue.schemas.protobuf import ProtobufSchema
from goqueue.schemas.protobuf.validation import find_message, read_indexes
from goqueue.spark.values.errors import NoColumns
from goqueue.spark.values.layout import COLUMNS_MAX
from goqueue.spark.values.payloads import Bad, Payloads, Read

TIMESTAMP: Final = "google.protobuf.Timestamp"
SECOND_US: Final = 1_000_000
SECONDS_MAX: Final = (1 << 63) // SECOND_US - 1
Field = FieldDescriptor
PLAIN: Final = {
    Field.TYPE_DOUBLE: pa.float64(),
    Field.TYPE_FLOAT: pa.float32(),
    Field.TYPE_INT64: pa.int64(),
    Field.TYPE_SINT64: pa.int64(),
    Field.TYPE_SFIXED64: pa.int64(),
    Field.TYPE_UINT64: pa.decimal128(20, 0),
    Field.TYPE_FIXED64: pa.decimal128(20, 0),
    Field.TYPE_INT32: pa.int32(),
    Field.TYPE_SINT32: pa.int32(),
    Field.TYPE_SFIXED32: pa.int32(),
    Field.TYPE_UINT32: pa.int64(),
    Field.TYPE_FIXED32: pa.int64(),
    Field.TYPE_BOOL: pa.bool_(),
    Field.TYPE_STRING: pa.string(),
    Field.TYPE_BYTES: pa.binary(),
    Field.TYPE_ENUM: pa.string(),
}


class ProtobufReader:
    """Reads one message of a schema; fields are found by their numbers, whichever schema wrote."""

    def __init__(self, schema: ProtobufSchema) -> None:
        message = find_message(schema.file, ())
        if message is None:
            raise NoColumns("the Protobuf schema has no message")
        self._message: Descriptor = message
        self._leaves = 0
        self.type: Any = self._struct(message, ())
        self._class = message_factory.GetMessageClass(message)
        self._has_required = _has_required(message, set())

    def read(self, payloads: Payloads, writer: ProtobufSchema) -> Read:
        messages = self._parse_all(payloads, writer)
        if messages is not None:
            return Read(_column(messages, self._message, self.type), Bad())
        bad = Bad()
        found: list[Any] = []
        for row in range(len(payloads.starts)):
            try:
                found.append(self._parse(payloads.payload(row), payloads.is_framed, writer))
            except (DecodeError, ValueError) as error:
                bad[row] = str(error)
                found.append(None)
        return Read(_column(found, self._message, self.type), bad)

    def _parse_all(self, payloads: Payloads, writer: ProtobufSchema) -> list[Any] | None:
        """Where all are the first message of their schema, as most are; None if one is not."""
        starts = payloads.starts
        if payloads.is_framed:
            octets = np.frombuffer(payloads.octets, np.uint8)
            first = find_message(writer.file, ())
            if first is None or first.full_name != self._message.full_name:
                return None
            if bool((starts >= payloads.ends).any()) or bool(octets[starts].any()):
                return None  # a zero stands for the first message
            starts = starts + 1
        data = bytes(payloads.octets)
        parse = self._class.FromString
        ends = payloads.ends.tolist()
        try:
            found = [
                parse(data[start:end]) for start, end in zip(starts.tolist(), ends, strict=True)
            ]
        except DecodeError:
            return None
        if self._has_required and not all(each.IsInitialized() for each in found):
            return None
        return found

    def _parse(self, payload: memoryview, is_framed: bool, writer: ProtobufSchema) -> Any:
        start = 0
        if is_framed:
            found = read_indexes(payload)
            if found is None:
                raise ValueError("the message indexes after the schema id are cut off")
            indexes, start = found
            written = find_message(writer.file, indexes)
            if written is None or written.full_name != self._message.full_name:
                name = f"at {indexes}" if written is None else written.full_name
                raise ValueError(f"message {name} and not {self._message.full_name}")
        parsed = self._class()
        parsed.ParseFromString(bytes(payload[start:]))
        if not parsed.IsInitialized():
            raise ValueError(f"required fields of {self._message.full_name} are missing")
        return parsed

    # --- types ------------------------------------------------------------------------------------

    def _struct(self, message: Descriptor, around: tuple[str, ...]) -> Any:
        if message.full_name in around:
            raise NoColumns(
                f"{message.full_name} contains itself, and columns do not: read values as bytes"
                " (value.format=binary)"
            )
        inside = (*around, message.full_name)
        if not message.fields:
            raise NoColumns(f"{message.full_name} has no fields: read values as bytes")
        return pa.struct(
            [pa.field(each.name, self._field_type(each, inside)) for each in message.fields]
        )

    def _field_type(self, field: FieldDescriptor, around: tuple[str, ...]) -> Any:
        entry = _map_entry(field)
        if entry is not None:
            key, value = (entry.fields_by_name[name] for name in ("key", "value"))
            return pa.map_(self._single(key, around), self._single(value, around))
        kind = self._single(field, around)
        return pa.list_(kind) if field.is_repeated else kind

    def _single(self, field: FieldDescriptor, around: tuple[str, ...]) -> Any:
        message = field.message_type
        if message is not None and message.full_name != TIMESTAMP:
            return self._struct(message, around)
        self._leaves += 1
        if self._leaves > COLUMNS_MAX:
            raise NoColumns(f"the schema has more than {COLUMNS_MAX} columns: read it as bytes")
        return pa.timestamp("us", "UTC") if message is not None else PLAIN[field.type]


def _has_required(message: Descriptor, seen: set[str]) -> bool:
    """Somewhere in it."""
    if message.full_name in seen:
        return False
    seen.add(message.full_name)
    inside = [each.message_type for each in message.fields if each.message_type is not None]
    return any(each.is_required for each in message.fields) or any(
        _has_required(each, seen) for each in inside
    )


def _map_entry(field: FieldDescriptor) -> Descriptor | None:
    message = field.message_type
    return message if message is not None and message.GetOptions().map_entry else None


# --- columns --------------------------------------------------------------------------------------


def _column(messages: Sequence[Any], message: Descriptor, kind: Any) -> Any:
    """A struct for each message; null for None."""
    missing = [each is None for each in messages]
    children = [
        _field_column(messages, field, kind.field(index).type)
        for index, field in enumerate(message.fields)
    ]
    mask = pa.array(missing) if any(missing) else None
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _field_column(messages: Sequence[Any], field: FieldDescriptor, kind: Any) -> Any:
    name = field.name
    if _map_entry(field) is not None:
        return _map_column(messages, field, kind)
    if field.is_repeated:
        lists = [[] if each is None else getattr(each, name) for each in messages]
        items = _values([item for each in lists for item in each], field, kind.value_type)
        return pa.ListArray.from_arrays(_offsets(lists), items)
    get = attrgetter(name)
    if field.has_presence:
        found = [
            get(each) if each is not None and each.HasField(name) else None for each in messages
        ]
    else:
        found = [None if each is None else get(each) for each in messages]
    return _values(found, field, kind)


def _map_column(messages: Sequence[Any], field: FieldDescriptor, kind: Any) -> Any:
    entry = _map_entry(field)
    assert entry is not None, "that is why it is a map"
    maps = [{} if each is None else getattr(each, field.name) for each in messages]
    keys = [key for each in maps for key in each]
    # A message of a map must be asked for by its key.
    values = [each[key] for each in maps for key in each]
    return pa.MapArray.from_arrays(
        _offsets(maps),
        _values(keys, entry.fields_by_name["key"], kind.key_type),
        _values(values, entry.fields_by_name["value"], kind.item_type),
    )


def _offsets(lists: Sequence[Any]) -> Any:
    ends = [0]
    for each in lists:
        ends.append(ends[-1] + len(each))
    return pa.array(ends, pa.int32())


def _values(found: Sequence[Any], field: FieldDescriptor, kind: Any) -> Any:
    if field.message_type is None:
        if field.enum_type is None:
            return pa.array(found, kind)
        names = {each.number: each.name for each in reversed(field.enum_type.values)}
        texts = (None if each is None else names.get(each, str(each)) for each in found)
        return pa.array(texts, kind)
    if field.message_type.full_name == TIMESTAMP:
        return pa.array([_microseconds(each) for each in found], pa.int64()).cast(kind)
    return _column(found, field.message_type, kind)


def _microseconds(moment: Any) -> int | None:
    if moment is None:
        return None
    seconds = max(-SECONDS_MAX, min(SECONDS_MAX, moment.seconds))
    return int(seconds * SECOND_US + moment.nanos // 1000)
