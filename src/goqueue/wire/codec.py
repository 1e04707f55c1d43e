"""Readers and writers made from kio's schema classes, one version's bytes to one class' object.

kio has a dataclass a message and version, whose fields say their Kafka type, whether they may be
null, and their tag.  This module compiles from such a class a reader or a writer.  The class an
object has (`shape`) need not be the class that gives the byte layout (`layout`): fields are matched
by name, so a reader fills the newest class straight from the bytes of an old version, and a writer
takes from a newest object what an old version can say.

    in the layout   in the shape
    yes             yes            read or written, nested classes likewise
    yes             no             read and dropped; written as the layout's default
    no              yes            read as the shape's default; not written

Where an older layout cannot say null and the shape does, null is written as the empty value.

Why not kio's own reader: it trusts an array's length and asks for the memory at once, and when that
is not to be had the whole process ends; and it does not read from a writable buffer.
"""

import contextlib
import dataclasses
import struct
import threading
import types
import typing
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from kio.schema.errors import ErrorCode

from goqueue.wire.errors import MalformedRequest
from goqueue.wire.primitives import (
    INT16,
    INT32,
    INT64,
    Data,
    check_entries,
    count_of,
    end_of,
    nullable_string,
    read_count,
    read_nullable_bytes,
    read_nullable_string,
    read_tag_count,
    read_uuid,
    read_uvarint,
    tagged_fields,
    uvarint,
)

Reader: TypeAlias = Callable[[Data, int], tuple[Any, int]]
Writer: TypeAlias = Callable[[bytearray, Any], None]
F = TypeVar("F", bound=Callable[..., Any])

MILLISECOND: Final = timedelta(milliseconds=1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_NULL_TIME = -1
_NULL_ENTITY = -1

_NUMBERS: Final = {
    "int8": struct.Struct(">b"),
    "int16": INT16,
    "int32": INT32,
    "int64": INT64,
    "uint8": struct.Struct(">B"),
    "uint16": struct.Struct(">H"),
    "uint32": struct.Struct(">I"),
    "uint64": struct.Struct(">Q"),
    "float64": struct.Struct(">d"),
    "bool": struct.Struct(">?"),
}

_IMPLICIT_DEFAULTS: Final[dict[str, Any]] = {
    **dict.fromkeys(_NUMBERS, 0),
    "float64": 0.0,
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": None,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": EPOCH,
}


class _Reading(threading.local):
    """What this thread read of one request; clients read responses in threads of their own."""

    entries: float = float("-inf")  # of arrays; not counted outside `counted_entries`


_reading = _Reading()


@contextlib.contextmanager
def counted_entries() -> Iterator[None]:
    """Readers refuse what has more entries than a request may have."""
    _reading.entries = 0
    try:
        yield
    finally:
        _reading.entries = float("-inf")


def memoize(function: F) -> F:
    """`functools.cache`, keeping the signature: mypy holds that a `type[Any]` cannot be hashed."""
    return cast(F, cache(function))


class FieldSchema(NamedTuple):
    """One field of a schema class, as its annotation and metadata describe it."""

    name: str
    kafka_type: str  # "" for a nested class
    nested: type[Any] | None
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: Any


@memoize
def schema_of(cls: type[Any]) -> dict[str, FieldSchema]:
    """The fields of a schema class by name, in the order of the bytes."""
    hints = typing.get_type_hints(cls)
    return {field.name: _field(field, hints[field.name]) for field in dataclasses.fields(cls)}


def _field(field: dataclasses.Field[Any], annotation: Any) -> FieldSchema:
    members = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    is_nullable = types.NoneType in members
    (inner,) = (member for member in members if member is not types.NoneType)
    is_array = typing.get_origin(inner) is tuple
    item = typing.get_args(inner)[0] if is_array else inner
    nested = cast(type[Any], item) if dataclasses.is_dataclass(item) else None
    return FieldSchema(
        name=field.name,
        kafka_type="" if nested else field.metadata["kafka_type"],
        nested=nested,
        is_array=is_array,
        is_nullable=is_nullable,
        tag=field.metadata.get("tag"),
        default=_default(field, nested, is_array, is_nullable),
    )


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (types.UnionType, typing.Union)


def _default(
    field: dataclasses.Field[Any], nested: type[Any] | None, is_array: bool, is_nullable: bool
) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if is_nullable:
        return None
    if is_array:
        return ()
    if nested is not None:
        return nested(**defaults_of(nested))
    return _IMPLICIT_DEFAULTS[field.metadata["kafka_type"]]


@memoize
def defaults_of(cls: type[Any]) -> dict[str, Any]:
    """Every field's default: the protocol's own, or zero, empty or null."""
    return {name: field.default for name, field in schema_of(cls).items()}


# --- reading ----------------------------------------------------------------------------------


@memoize
def entity_reader(layout: type[Any], shape: type[Any]) -> Reader:
    """A reader of `layout`'s bytes that gives an object of class `shape`."""
    flexible: bool = layout.__flexible__
    wanted = schema_of(shape)
    readers: list[tuple[str | None, Reader]] = []
    tagged: dict[int, tuple[str | None, Reader]] = {}
    for name, field in schema_of(layout).items():
        kept = name if name in wanted else None
        reader = _field_reader(field, wanted.get(name, field), flexible)
        if field.tag is None:
            readers.append((kept, reader))
        else:
            tagged[field.tag] = (kept, reader)
    defaults = defaults_of(shape)

    def read_entity(data: Data, at: int) -> tuple[Any, int]:
        values = defaults.copy()
        for name, read in readers:
            value, at = read(data, at)
            if name is not None:
                values[name] = value
        if flexible:
            at = _read_tagged_fields(data, at, tagged, values)
        return shape(**values), at

    return read_entity


def _read_tagged_fields(
    data: Data, at: int, known: dict[int, tuple[str | None, Reader]], values: dict[str, Any]
) -> int:
    count, at = read_tag_count(data, at)
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        end = end_of(data, at, size)
        if tag in known:
            name, read = known[tag]
            value, _ = read(data[at:end], 0)
            if name is not None:
                values[name] = value
        at = end
    return at


def _field_reader(field: FieldSchema, target: FieldSchema, flexible: bool) -> Reader:
    if field.nested is not None:
        assert target.nested is not None, f"{field.name}: a class in one version, not in another"
        read_item = entity_reader(field.nested, target.nested)
        if not field.is_array:
            return _nullable_entity_reader(read_item) if field.is_nullable else read_item
    else:
        is_nullable = field.is_nullable and not field.is_array
        read_item = _primitive_reader(field.kafka_type, is_nullable, flexible)
    return _array_reader(read_item, field.is_nullable, flexible) if field.is_array else read_item


def _array_reader(read_item: Reader, is_nullable: bool, flexible: bool) -> Reader:
    def read_array(data: Data, at: int) -> tuple[Any, int]:
        count, at = read_count(data, at, flexible=flexible)
        if count < 0:
            return _checked_null(is_nullable), at
        if count:
            _reading.entries += count
            check_entries(_reading.entries)
        items = []
        for _ in range(count):
            item, at = read_item(data, at)
            items.append(item)
        return tuple(items), at

    return read_array


def _nullable_entity_reader(read_entity: Reader) -> Reader:
    def read(data: Data, at: int) -> tuple[Any, int]:
        (marker,) = _NUMBERS["int8"].unpack_from(data, at)
        return (None, at + 1) if marker == _NULL_ENTITY else read_entity(data, at + 1)

    return read


def _primitive_reader(kafka_type: str, is_nullable: bool, flexible: bool) -> Reader:
    match kafka_type:
        case "string":
            return _string_reader(is_nullable, flexible)
        case "bytes" | "records":
            return _bytes_reader(is_nullable, flexible)
        case "uuid":
            return _read_uuid_or_none
        case "error_code":
            return _converting_reader(INT16, ErrorCode)
        case "timedelta_i32":
            return _converting_reader(INT32, _duration)
        case "timedelta_i64":
            return _converting_reader(INT64, _duration)
        case "datetime_i64":
            return _converting_reader(INT64, _nullable_instant if is_nullable else _instant)
        case _:
            return _number_reader(_NUMBERS[kafka_type])


def _string_reader(is_nullable: bool, flexible: bool) -> Reader:
    def read(data: Data, at: int) -> tuple[Any, int]:
        value, at = read_nullable_string(data, at, flexible=flexible)
        return (_checked_null(is_nullable) if value is None else value), at

    return read


def _bytes_reader(is_nullable: bool, flexible: bool) -> Reader:
    def read(data: Data, at: int) -> tuple[Any, int]:
        value, at = read_nullable_bytes(data, at, flexible=flexible)
        return (_checked_null(is_nullable) if value is None else bytes(value)), at

    return read


def _number_reader(layout: struct.Struct) -> Reader:
    unpack_from, size = layout.unpack_from, layout.size

    def read(data: Data, at: int) -> tuple[Any, int]:
        return unpack_from(data, at)[0], at + size

    return read


def _converting_reader(layout: struct.Struct, convert: Callable[[int], Any]) -> Reader:
    unpack_from, size = layout.unpack_from, layout.size

    def read(data: Data, at: int) -> tuple[Any, int]:
        return convert(unpack_from(data, at)[0]), at + size

    return read


def _read_uuid_or_none(data: Data, at: int) -> tuple[Any, int]:
    value, at = read_uuid(data, at)
    return (value if value.int else None), at  # the zero id stands for none, as in kio


def _checked_null(is_nullable: bool) -> Any:
    if not is_nullable:
        raise MalformedRequest("null where a value must be")
    return None


def _duration(milliseconds: int) -> timedelta:
    """A duration; one too long for a timedelta (some client's "for ever") is the longest."""
    try:
        return timedelta(milliseconds=milliseconds)
    except OverflowError:
        return timedelta.max if milliseconds > 0 else timedelta.min


def _instant(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def _nullable_instant(milliseconds: int) -> datetime | None:
    return None if milliseconds == _NULL_TIME else _instant(milliseconds)


# --- writing ----------------------------------------------------------------------------------


@memoize
def entity_writer(layout: type[Any], shape: type[Any]) -> Writer:
    """A writer of `layout`'s bytes from an object of class `shape`."""
    flexible: bool = layout.__flexible__
    present = schema_of(shape)
    writers: list[tuple[str, Writer]] = []
    tagged: list[tuple[int, str, Any, Writer]] = []
    for name, field in schema_of(layout).items():
        source = present.get(name)
        write = _field_writer(field, source, flexible)
        if field.tag is None:
            known = source is not None
            writers.append((name, write) if known else ("__class__", _constant(field, write)))
        elif source is not None:
            tagged.append((field.tag, name, source.default, write))
    tagged.sort(key=lambda entry: entry[0])

    def write_entity(out: bytearray, entity: Any) -> None:
        for name, write in writers:
            write(out, getattr(entity, name))
        if flexible:
            _write_tagged_fields(out, entity, tagged)

    return write_entity


def _write_tagged_fields(
    out: bytearray, entity: Any, known: list[tuple[int, str, Any, Writer]]
) -> None:
    fields = []
    for tag, name, default, write in known:
        value = getattr(entity, name)
        if value != default:
            encoded = bytearray()
            write(encoded, value)
            fields.append((tag, bytes(encoded)))
    out += tagged_fields(fields)


def _constant(field: FieldSchema, write: Writer) -> Writer:
    """Writes the default, whatever it is given: the shape has no such field."""
    constant = bytearray()
    write(constant, field.default)

    def write_constant(out: bytearray, _: Any) -> None:
        out += constant

    return write_constant


def _field_writer(field: FieldSchema, source: FieldSchema | None, flexible: bool) -> Writer:
    if field.nested is not None:
        shape = source.nested if source is not None else field.nested
        assert shape is not None, f"{field.name}: a class in one version, not in another"
        write = entity_writer(field.nested, shape)
        if field.is_nullable and not field.is_array:
            write = _nullable_entity_writer(write)
    else:
        write = _primitive_writer(field.kafka_type, flexible)
    if field.is_array:
        write = _array_writer(write, flexible)
    if source is not None and source.is_nullable and not field.is_nullable:
        return _empty_for_null_writer(write, field.default)
    return write


def _empty_for_null_writer(write: Writer, empty: Any) -> Writer:
    def write_value(out: bytearray, value: Any) -> None:
        write(out, empty if value is None else value)

    return write_value


def _array_writer(write_item: Writer, flexible: bool) -> Writer:
    def write_array(out: bytearray, items: Any) -> None:
        if items is None:
            out += count_of(-1, flexible=flexible)
            return
        out += count_of(len(items), flexible=flexible)
        for item in items:
            write_item(out, item)

    return write_array


def _nullable_entity_writer(write_entity: Writer) -> Writer:
    def write(out: bytearray, entity: Any) -> None:
        if entity is None:
            out += b"\xff"
            return
        out += b"\x01"
        write_entity(out, entity)

    return write


def _primitive_writer(kafka_type: str, flexible: bool) -> Writer:
    match kafka_type:
        case "string":
            return _string_writer(flexible)
        case "bytes" | "records":
            return _bytes_writer(flexible)
        case "uuid":
            return _write_uuid
        case "error_code":
            return _number_writer(INT16)
        case "timedelta_i32":
            return _duration_writer(INT32)
        case "timedelta_i64":
            return _duration_writer(INT64)
        case "datetime_i64":
            return _write_instant
        case _:
            return _number_writer(_NUMBERS[kafka_type])


def _string_writer(flexible: bool) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        out += nullable_string(value, flexible=flexible)

    return write


def _bytes_writer(flexible: bool) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        size = -1 if value is None else len(value)
        out += uvarint(size + 1) if flexible else INT32.pack(size)
        out += value or b""

    return write


def _number_writer(layout: struct.Struct) -> Writer:
    pack = layout.pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write


def _duration_writer(layout: struct.Struct) -> Writer:
    pack = layout.pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(value // MILLISECOND)

    return write


def _write_instant(out: bytearray, value: Any) -> None:
    out += INT64.pack(_NULL_TIME if value is None else (value - EPOCH) // MILLISECOND)


def _write_uuid(out: bytearray, value: Any) -> None:
    out += bytes(16) if value is None else value.bytes
