"""A program that reads what one Avro schema wrote into the columns of another.

It follows the specification's rules of schema resolution: fields by name or alias, defaults,
promotion of numbers, and branches of unions.  What cannot be resolved becomes a node that fails, so
that only a value which needs it is bad.  `avro_ops.py` has the operations.
"""

import struct
from typing import Any

from goqueue.schemas.avro.compatibility import unreadable
from goqueue.schemas.avro.model import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Record,
    Union,
)
from goqueue.schemas.avro.parsing import fits
from goqueue.spark.values import avro_ops as ops
from goqueue.spark.values.avro_columns import branches_of, merged_branches
from goqueue.spark.values.layout import Leaf, ListOf, MapOf, Node, Struct

INT = (-(1 << 31), (1 << 31) - 1)
LONG = (-(1 << 63), (1 << 63) - 1)


class Program:
    """`code`, and the texts and bytes that its constants stand for."""

    def __init__(self, writer: AvroType, reader: AvroType, root: Node) -> None:
        self.code: list[int] = [ops.STEPS, 1, 0]  # where to begin
        self.constants: list[bytes] = []
        self._skips: dict[int, int] = {}  # node of each writer's record, which may contain itself
        self.code[2] = self._resolve(writer, reader, root)

    def _emit(self, *numbers: int) -> int:
        self.code.extend(numbers)
        return len(self.code) - len(numbers)

    def _fail(self) -> int:
        return self._emit(ops.FAIL)

    # --- resolution -------------------------------------------------------------------------------

    def _resolve(self, writer: AvroType, reader: AvroType, node: Node) -> int:
        if isinstance(writer, Union):
            nodes = [self._resolve(each, reader, node) for each in writer.branches]
            return self._emit(ops.UNION, len(nodes), *nodes)
        if not isinstance(reader, Union):
            return self._resolve_plain(writer, reader, node)
        chosen = _choose(writer, reader)
        if chosen is None:
            return self._fail()
        if chosen.kind == "null":
            return self._null(node)
        branches = branches_of(reader)
        if merged_branches(branches) is not None or len(branches) == 1:
            return self._resolve_plain(writer, chosen, node)
        assert isinstance(node, Struct), "a union of several types"
        member = node.children[branches.index(chosen)]
        inner = self._resolve_plain(writer, chosen, member)
        return self._emit(ops.MEMBER, node.column, node.domain, node.column + 1, node.last, inner)

    def _resolve_plain(self, writer: AvroType, reader: AvroType, node: Node) -> int:
        match writer, reader:
            case Record(), Record():
                return self._record(writer, reader, node)
            case Enum(), Enum():
                return self._enum(writer, reader, node)
            case Fixed(), Fixed() if not unreadable(reader, writer):
                return self._emit(ops.FIXED, node.column, node.domain, ops.PLAIN, writer.size)
            case Array(), Array():
                assert isinstance(node, ListOf), "as it was laid out"
                item = self._resolve(writer.items, reader.items, node.item)
                return self._emit(ops.ARRAY, node.column, node.domain, node.child, item)
            case Map(), Map():
                assert isinstance(node, MapOf), "as it was laid out"
                item = self._resolve(writer.values, reader.values, node.item)
                keys = node.keys.column
                return self._emit(ops.MAP, node.column, node.domain, node.child, item, keys)
            case _ if unreadable(reader, writer):
                return self._fail()
            case _:
                return self._primitive(writer, node)

    def _record(self, writer: Record, reader: Record, node: Node) -> int:
        assert isinstance(node, Struct), "as it was laid out"
        if writer.full_name not in (reader.full_name, *reader.aliases):
            return self._fail()
        written = {each.name: each for each in writer.fields}
        targets: dict[str, tuple[Field, Node]] = {}  # by the writer's names
        defaults: list[int] = []
        for field, child in zip(reader.fields, node.children, strict=True):
            name = next((each for each in (field.name, *field.aliases) if each in written), None)
            if name is not None:
                targets[name] = (field, child)
            elif field.has_default:
                defaults.append(self._default(field.default, field.type, child))
            else:
                return self._fail()
        steps = [
            self._resolve(each.type, targets[each.name][0].type, targets[each.name][1])
            if each.name in targets
            else self._skip(each.type)
            for each in writer.fields
        ]
        steps += defaults
        return self._emit(ops.RECORD, node.column, node.domain, len(steps), *steps)

    def _enum(self, writer: Enum, reader: Enum, node: Node) -> int:
        if writer.full_name not in (reader.full_name, *reader.aliases):
            return self._fail()
        numbers = {symbol: number for number, symbol in enumerate(reader.symbols)}
        default = -1 if reader.default is None else numbers[reader.default]
        known = [numbers.get(each, default) for each in writer.symbols]
        return self._emit(ops.ENUM, node.column, node.domain, ops.PLAIN, len(known), *known)

    def _primitive(self, writer: AvroType, node: Node) -> int:
        place = (node.column, node.domain)
        is_real = isinstance(node, Leaf) and node.kind == "real"
        match writer.kind:
            case "int":
                return self._emit(ops.LONG, *place, ops.WHOLE_NUMBER if is_real else 1, *INT)
            case "long":
                return self._emit(ops.LONG, *place, ops.WHOLE_NUMBER if is_real else 1, *LONG)
            case "float":
                return self._emit(ops.FLOAT, *place, ops.SINGLE)
            case "double":
                return self._emit(ops.DOUBLE, *place, ops.PLAIN)
            case "boolean":
                return self._emit(ops.BOOLEAN, *place, ops.PLAIN)
            case "null":
                return self._null(node)
            case _:
                return self._emit(ops.BYTES, *place, ops.PLAIN)

    def _null(self, node: Node) -> int:
        return self._emit(ops.NULL, node.column, node.last, node.domain)

    # --- what the reader does not want ------------------------------------------------------------

    def _skip(self, type_: AvroType) -> int:
        match type_:
            case Record():
                return self._skip_record(type_)
            case Union():
                nodes = [self._skip(each) for each in type_.branches]
                return self._emit(ops.UNION, len(nodes), *nodes)
            case Array():
                return self._emit(ops.SKIP_ARRAY, self._skip(type_.items))
            case Map():
                return self._emit(ops.SKIP_MAP, self._skip(type_.values))
            case Fixed():
                return self._emit(ops.SKIP_FIXED, type_.size)
            case _:
                return self._skip_primitive(type_)

    def _skip_primitive(self, type_: AvroType) -> int:
        sizes = {"null": 0, "boolean": 1, "float": 4, "double": 8}
        if type_.kind in sizes:
            return self._emit(ops.SKIP_FIXED, sizes[type_.kind])
        is_text = type_.kind in ("string", "bytes")
        return self._emit(ops.SKIP_BYTES if is_text else ops.SKIP_NUMBER)

    def _skip_record(self, record: Record) -> int:
        if id(record) not in self._skips:
            count = len(record.fields)
            node = self._emit(ops.STEPS, count, *([0] * count))
            self._skips[id(record)] = node
            for index, field in enumerate(record.fields):
                self.code[node + 2 + index] = self._skip(field.type)
        return self._skips[id(record)]

    # --- defaults ---------------------------------------------------------------------------------

    def _default(self, value: Any, type_: AvroType, node: Node) -> int:
        """The reader's default, which is JSON; that of a union is of the first branch it fits."""
        if isinstance(type_, Union):
            return self._default_of_union(value, type_, node)
        place = (node.column, node.domain)
        match type_:
            case Record():
                assert isinstance(node, Struct), "as it was laid out"
                steps = [
                    self._default(value.get(each.name, each.default), each.type, child)
                    for each, child in zip(type_.fields, node.children, strict=True)
                ]
                return self._emit(ops.RECORD, *place, len(steps), *steps)
            case Array():
                assert isinstance(node, ListOf), "as it was laid out"
                items = [self._default(each, type_.items, node.item) for each in value]
                return self._emit(ops.CONSTANT_LIST, *place, node.child, len(items), *items)
            case Map():
                return self._default_map(value, type_, node)
            case Enum():
                return self._emit(ops.CONSTANT, *place, ops.PLAIN, type_.symbols.index(value))
            case _:
                return self._default_primitive(value, type_, node)

    def _default_of_union(self, value: Any, type_: Union, node: Node) -> int:
        chosen = next(each for each in type_.branches if fits(value, each))
        if chosen.kind == "null":
            return self._null(node)
        branches = branches_of(type_)
        if merged_branches(branches) is not None or len(branches) == 1:
            return self._default(value, chosen, node)
        assert isinstance(node, Struct), "a union of several types"
        inner = self._default(value, chosen, node.children[branches.index(chosen)])
        return self._emit(ops.MEMBER, node.column, node.domain, node.column + 1, node.last, inner)

    def _default_map(self, value: dict[str, Any], type_: Map, node: Node) -> int:
        assert isinstance(node, MapOf), "as it was laid out"
        items = []
        for key, each in value.items():
            both = (
                self._text(key.encode(), node.keys),
                self._default(each, type_.values, node.item),
            )
            items.append(self._emit(ops.STEPS, 2, *both))
        return self._emit(
            ops.CONSTANT_LIST, node.column, node.domain, node.child, len(items), *items
        )

    def _default_primitive(self, value: Any, type_: AvroType, node: Node) -> int:
        match type_.kind:
            case "null":
                return self._null(node)
            case "string":
                return self._text(value.encode(), node)
            case "bytes" | "fixed":
                return self._text(value.encode("latin-1"), node)
            case "float" | "double":
                cell = _bits(float(value))
            case _:
                cell = int(value)
        return self._emit(ops.CONSTANT, node.column, node.domain, ops.PLAIN, cell)

    def _text(self, value: bytes, node: Node) -> int:
        self.constants.append(value)
        number = -len(self.constants)
        return self._emit(ops.CONSTANT, node.column, node.domain, ops.PLAIN, number)


def _choose(writer: AvroType, reader: Union) -> AvroType | None:
    """The reader's branch for a value of the writer's: one of the same type before another that
    it can be promoted to."""
    same = (each for each in reader.branches if _is_same(writer, each))
    promoted = (each for each in reader.branches if not unreadable(each, writer))
    return next(same, None) or next(promoted, None)


def _is_same(writer: AvroType, reader: AvroType) -> bool:
    if isinstance(writer, Named) and isinstance(reader, Named):
        names = (reader.full_name, *reader.aliases)
        return writer.kind == reader.kind and writer.full_name in names
    return writer.kind == reader.kind


def _bits(value: float) -> int:
    """Those of a double, as a whole number with a sign."""
    number: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return number
