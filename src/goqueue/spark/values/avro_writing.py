"""Columns as Avro payloads, by Arrow's own operations: no row becomes a Python object.

Each type is a function from a column to a column of bytes; a record is its fields' bytes joined,
a list those of its items.  Fields are found by their names; one that is missing has its default.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.schemas.avro.model import Array, AvroType, Enum, Field, Fixed, Map, Record, Union
from goqueue.schemas.avro.parsing import fits
from goqueue.spark.columns.varints import varint_array
from goqueue.spark.values.avro_columns import is_decimal
from goqueue.spark.values.avro_defaults import default_payload, varint
from goqueue.spark.values.errors import UnwritableRows

EMPTY: Final = b""
NUMBERS: Final = {"int": pa.int32(), "long": pa.int64()}
REALS: Final = {"float": (pa.float32(), 4), "double": (pa.float64(), 8)}
TIMES: Final = {
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}
Encode = Callable[[Any], Any]


def payloads(column: Any, type_: AvroType) -> Any:
    """A binary array; null where the column is.  Raises `UnwritableRows`."""
    found = _encode(column.filter(column.is_valid()) if column.null_count else column, type_, "")
    if not column.null_count:
        return found
    places = np.cumsum(column.is_valid().to_numpy(zero_copy_only=False)) - 1
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    return found.take(pa.array(np.where(nulls, 0, places), pa.int64(), mask=nulls))


def _encode(column: Any, type_: AvroType, path: str) -> Any:
    if isinstance(type_, Union):
        return _union(column, type_, path)
    if column.null_count and type_.kind != "null":
        raise UnwritableRows(f"{path or 'the value'} is null, and its schema has no null there")
    try:
        return _plain(column, type_, path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise UnwritableRows(
            f"{path or 'the value'} is {column.type}, and cannot be written as {type_.name}:"
            f" {str(error)[:200]}"
        ) from error


def _plain(column: Any, type_: AvroType, path: str) -> Any:
    match type_:
        case Record():
            return _record(column, type_, path)
        case Enum():
            return _enum(column, type_, path)
        case Array() if pa.types.is_list(column.type):
            return _blocks(column, _encode(column.flatten(), type_.items, f"{path}[]"))
        case Map() if pa.types.is_map(column.type):
            first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
            keys, items = (each.slice(first, last - first) for each in (column.keys, column.items))
            both = (_add_length(keys.cast(pa.binary())), _encode(items, type_.values, f"{path}[]"))
            return _blocks(column, _join(*both))
        case Fixed():
            return _encode_fixed(column, type_, path)
        case Array() | Map():
            raise UnwritableRows(f"{path} is {column.type}, and its schema says {type_.kind}")
        case _:
            return _primitive(column, type_)


def _primitive(column: Any, type_: AvroType) -> Any:
    logical = "" if type_.logical is None else type_.logical.name
    match type_.kind:
        case "null":
            return pa.array([EMPTY] * len(column), pa.binary())
        case "boolean":
            return _raw(column.cast(pa.bool_()).cast(pa.uint8()), 1)
        case "int" | "long":
            if logical in TIMES and pa.types.is_timestamp(column.type):
                column = column.cast(TIMES[logical], safe=False)
            if logical == "date" and pa.types.is_date(column.type):
                column = column.cast(pa.date32()).cast(pa.int32())
            numbers = column.cast(NUMBERS[type_.kind]).cast(pa.int64())
            return varint_array(numbers.to_numpy(zero_copy_only=False))
        case "float" | "double":
            kind, size = REALS[type_.kind]
            return _raw(column.cast(kind), size)
        case "bytes" if is_decimal(type_):
            return _add_length(_to_unscaled(column, type_))
        case _:
            return _add_length(
                column.cast(pa.string()).cast(pa.binary())
                if _is_text(column, type_)
                else column.cast(pa.binary())
            )


def _is_text(column: Any, type_: AvroType) -> bool:
    return type_.kind == "string" and not pa.types.is_string(column.type)


def _record(column: Any, record: Record, path: str) -> Any:
    if not pa.types.is_struct(column.type):
        raise UnwritableRows(
            f"{path or 'the value'} is {column.type}, and its schema says record"
            f" {record.full_name}: give a struct, as struct(*) makes one"
        )
    given = {each.name: index for index, each in enumerate(column.type)}
    unknown = given.keys() - {each.name for each in record.fields}
    if unknown:
        raise UnwritableRows(
            f"{path or record.full_name} has no field {', '.join(sorted(unknown))} in its schema:"
            " leave the column out, or register a version that has it"
        )
    parts = [
        _encode(column.field(given[each.name]), each.type, f"{path}/{each.name}")
        if each.name in given
        else _default(each, len(column), path)
        for each in record.fields
    ]
    return _join(*parts) if parts else pa.array([EMPTY] * len(column), pa.binary())


def _default(field: Field, count: int, path: str) -> Any:
    if not field.has_default and not fits(None, field.type):
        raise UnwritableRows(
            f"{path}/{field.name} has no default in its schema, and there is no such column"
        )
    value = field.default if field.has_default else None
    return pa.array([default_payload(value, field.type)] * count, pa.binary())


def _enum(column: Any, enum: Enum, path: str) -> Any:
    numbers = pc.index_in(column.cast(pa.string()), value_set=pa.array(enum.symbols, pa.string()))
    if numbers.null_count:
        wrong = column.filter(numbers.is_null())[0].as_py()
        raise UnwritableRows(f"{path}: {wrong!r} is none of {', '.join(enum.symbols)}")
    return varint_array(numbers.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _encode_fixed(column: Any, fixed: Fixed, path: str) -> Any:
    if is_decimal(fixed):
        return _to_unscaled(column, fixed, fixed.size)
    values = column.cast(pa.binary())
    lengths = pc.binary_length(values)
    if len(values) and pc.min_max(lengths).as_py() != {"min": fixed.size, "max": fixed.size}:
        raise UnwritableRows(f"{path}: {fixed.full_name} has {fixed.size} bytes, and a value not")
    return values


def _union(column: Any, union: Union, path: str) -> Any:
    """Null, or the first branch that takes the column as it is."""
    kinds = [each.kind for each in union.branches]
    others = [each for each in union.branches if each.kind != "null"]
    if column.null_count and "null" not in kinds:
        raise UnwritableRows(f"{path or 'the value'} is null, and its schema has no null there")
    if column.null_count == len(column) and "null" in kinds:
        prefix = varint(kinds.index("null"))
        return pa.array([prefix] * len(column), pa.binary())
    objections = []
    for branch in others:
        try:
            return _of_branch(column, union, branch, path)
        except UnwritableRows as error:
            objections.append(str(error))
    raise UnwritableRows(objections[0])


def _of_branch(column: Any, union: Union, branch: AvroType, path: str) -> Any:
    prefix = varint(union.branches.index(branch))
    if not column.null_count:
        return _join(pa.array([prefix] * len(column), pa.binary()), _encode(column, branch, path))
    null = next(i for i, each in enumerate(union.branches) if each.kind == "null")
    return _add_prefix(prefix, column, branch, path).fill_null(varint(null))


def _add_prefix(prefix: bytes, column: Any, branch: AvroType, path: str) -> Any:
    """Of what is not null, with the number of the branch before it."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    some = _encode(column.filter(pa.array(valid)), branch, path)
    joined = _join(pa.array([prefix] * len(some), pa.binary()), some)
    places = np.cumsum(valid) - 1
    return joined.take(pa.array(np.where(valid, places, 0), pa.int64(), mask=~valid))


# --- bytes ----------------------------------------------------------------------------------------


def _join(*columns: Any) -> Any:
    return pc.binary_join_element_wise(*columns, EMPTY)


def _add_length(values: Any) -> Any:
    """With their lengths before them."""
    lengths = pc.binary_length(values).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return _join(varint_array(lengths), values)


def _raw(column: Any, size: int) -> Any:
    """The numbers' bytes as they lie in memory."""
    data = column.buffers()[1].slice(column.offset * size, len(column) * size)
    offsets = np.arange(0, (len(column) + 1) * size, size, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(offsets), data])


def _blocks(column: Any, items: Any) -> Any:
    """One block with all items, and the end; an empty list is just the end."""
    lengths = (
        pc.list_value_length(column if pa.types.is_list(column.type) else _as_list(column))
        .to_numpy(zero_copy_only=False)
        .astype(np.int64)
    )
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), items), EMPTY)
    end = pa.array([b"\0"] * len(column), pa.binary())
    filled = _join(varint_array(lengths), joined, end)
    return pc.if_else(pa.array(lengths > 0), filled, end)


def _as_list(column: Any) -> Any:
    return pa.ListArray.from_arrays(column.offsets, column.keys)


def _to_unscaled(column: Any, type_: AvroType, size: int | None = None) -> Any:
    """Whole numbers in two's complement, highest byte first."""
    assert type_.logical is not None, "a decimal has digits"
    kind = pa.decimal128(type_.logical.precision, type_.logical.scale)
    given = column if not pa.types.is_string(column.type) else column.cast(kind)
    scale = type_.logical.scale
    values = (int(each.scaleb(scale)) for each in given.cast(kind).to_pylist())
    return pa.array(
        [
            each.to_bytes(size or (each.bit_length() // 8 + 1), "big", signed=True)
            for each in values
        ],
        pa.binary(),
    )
