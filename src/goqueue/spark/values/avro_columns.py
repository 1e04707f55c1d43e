"""An Avro schema as a tree of columns, with the types that Spark's own `from_avro` gives them.

A union with null is its other branch; int with long is a long, float with double a double; any
other union is a struct with a field for each branch (`member0`, `member1`, …), one of them set.
"""

from typing import Any, Final

import pyarrow as pa

from goqueue.schemas.avro.model import Array, AvroType, Enum, Map, Named, Record, Union
from goqueue.spark.values.errors import NoColumns
from goqueue.spark.values.layout import Layout, Leaf, ListOf, MapOf, Node, Struct, struct_type

DECIMAL_DIGITS_MAX: Final = 38
MILLISECOND: Final = 1_000  # microseconds
UTC_TIME: Final = pa.timestamp("us", "UTC")
LOCAL_TIME: Final = pa.timestamp("us")
PLAIN: Final = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "null": pa.string(),  # of which there is never one
}
KINDS: Final = {
    "float": "real",
    "double": "real",
    "boolean": "boolean",
    "string": "bytes",
    "bytes": "bytes",
    "fixed": "bytes",
    "null": "bytes",
}
# What a number stands for: its type in Arrow, and the factor.
TIMES: Final[dict[tuple[str, str], tuple[Any, int]]] = {
    ("int", "date"): (pa.date32(), 1),
    ("long", "timestamp-millis"): (UTC_TIME, MILLISECOND),
    ("long", "timestamp-micros"): (UTC_TIME, 1),
    ("long", "local-timestamp-millis"): (LOCAL_TIME, MILLISECOND),
    ("long", "local-timestamp-micros"): (LOCAL_TIME, 1),
}


def branches_of(type_: AvroType) -> list[AvroType]:
    """The types of a union other than null; of another type, itself."""
    if not isinstance(type_, Union):
        return [type_]
    return [each for each in type_.branches if each.kind != "null"]


def merged_branches(branches: list[AvroType]) -> str | None:
    """The type that holds all branches, where Spark takes one for them."""
    kinds = {each.kind for each in branches}
    if kinds == {"int", "long"}:
        return "long"
    return "double" if kinds == {"float", "double"} else None


class ColumnBuilder:
    """Lays out columns; raises `NoColumns` for a type that contains itself."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._open: list[int] = []  # records around the present one

    def build(self, type_: AvroType, domain: int) -> Node:
        branches = branches_of(type_)
        merged = merged_branches(branches)
        if merged is not None:
            node: Node = self._leaf(AvroType(merged), domain)
        elif not branches:
            node = self._leaf(AvroType("null"), domain)
        elif len(branches) == 1:
            node = self._build(branches[0], domain)
        else:
            names = [f"member{index}" for index in range(len(branches))]
            node = self._struct(names, branches, domain)
        node.last = self._layout.column_count
        return node

    def _build(self, type_: AvroType, domain: int) -> Node:
        match type_:
            case Record():
                if id(type_) in self._open:
                    raise NoColumns(
                        f"{type_.full_name} contains itself, and columns do not: read values as"
                        " bytes (value.format=binary)"
                    )
                self._open.append(id(type_))
                names = [each.name for each in type_.fields]
                node = self._struct(names, [each.type for each in type_.fields], domain)
                self._open.pop()
                return node
            case Array():
                column, child = self._layout.add_list(domain)
                item = self.build(type_.items, child)
                return ListOf(column, domain, pa.list_(item.type), child=child, item=item)
            case Map():
                column, child = self._layout.add_list(domain)
                keys = self._leaf(AvroType("string"), child)
                item = self.build(type_.values, child)
                kind = pa.map_(pa.string(), item.type)
                return MapOf(column, domain, kind, child=child, item=item, keys=keys)
            case _:
                return self._leaf(type_, domain)

    def _struct(self, names: list[str], types: list[AvroType], domain: int) -> Node:
        column = self._layout.add_column(domain)
        children = [self.build(each, domain) for each in types]
        lowered = [name.lower() for name in names]
        if len(set(lowered)) < len(lowered):
            raise NoColumns(
                "the schema has fields that differ only in upper and lower case, which Spark does"
                " not tell apart: read values as bytes (value.format=binary)"
            )
        return Struct(column, domain, struct_type(names, children), children=children)

    def _leaf(self, type_: AvroType, domain: int) -> Leaf:
        column = self._layout.add_column(domain)
        last = column + 1
        if isinstance(type_, Enum):
            return Leaf(column, domain, pa.string(), last, kind="enum", symbols=type_.symbols)
        logical = type_.logical
        if logical is not None and logical.name == "decimal" and is_decimal(type_):
            kind = pa.decimal128(logical.precision, logical.scale)
            return Leaf(column, domain, kind, last, kind="decimal")
        name = logical.name if logical is not None else ""
        if (type_.kind, name) in TIMES:
            kind, factor = TIMES[type_.kind, name]
            return Leaf(column, domain, kind, last, factor=factor)
        read_as = KINDS.get(type_.kind, "long")
        return Leaf(column, domain, PLAIN[type_.kind], last, kind=read_as)


def is_decimal(type_: AvroType) -> bool:
    """Whether it has a precision that Spark has, too; others are bytes."""
    logical = type_.logical
    return (
        logical is not None
        and type_.kind in ("bytes", "fixed")
        and 0 < logical.precision <= DECIMAL_DIGITS_MAX
        and 0 <= logical.scale <= logical.precision
    )


def name_of(type_: AvroType) -> str:
    return type_.full_name if isinstance(type_, Named) else type_.kind
