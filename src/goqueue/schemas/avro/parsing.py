"""Avro schemas, by Avro 1.12's specification: JSON to types, with every rule checked."""

import re
from collections.abc import Mapping
from typing import Any, Final

from goqueue.schemas.avro.model import (
    PRIMITIVES,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    Record,
    Union,
)
from goqueue.schemas.documents import compact
from goqueue.schemas.errors import InvalidSchema

FIXED_BYTES_MAX: Final = 1 << 30
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_INT: Final = range(-(1 << 31), 1 << 31)
_LONG: Final = range(-(1 << 63), 1 << 63)

Names = dict[str, AvroType]


def parse(document: Any, names: Names) -> AvroType:
    """The type; what it names is added to `names`, which has those of its references."""
    return _Parser(names).parse(document, "", "")


class _Parser:
    def __init__(self, names: Names) -> None:
        self._names = names

    def parse(self, document: Any, namespace: str, path: str) -> AvroType:
        match document:
            case str():
                return self._find(document, namespace, path)
            case list():
                return self._union(document, namespace, path)
            case {"type": "record" | "error" | "enum" | "fixed"}:
                return self._parse_named(document, namespace, path)
            case {"type": "array"}:
                return Array(self.parse(_need(document, "items", path), namespace, f"{path}/items"))
            case {"type": "map"}:
                return Map(self.parse(_need(document, "values", path), namespace, f"{path}/values"))
            case {"type": inner}:  # {"type": "int", "logicalType": "date"}, say
                return _mark(self.parse(inner, namespace, f"{path}/type"), document)
            case _:
                raise _invalid(path, f"no Avro type: {compact(document)[:100]}")

    def _find(self, name: str, namespace: str, path: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        found = self._names.get(_full_name(name, namespace)) or self._names.get(name)
        if found is None:
            raise _invalid(path, f"unknown type {name!r}; is a reference missing?")
        return found

    def _union(self, document: list[Any], namespace: str, path: str) -> Union:
        if not document:
            raise _invalid(path, "a union has at least one branch")
        branches = []
        for index, each in enumerate(document):
            branches.append(self.parse(each, namespace, f"{path}/{index}"))
        seen = set()
        for branch in branches:
            if branch.kind == "union":
                raise _invalid(path, "a union may not immediately contain another one")
            if branch.name in seen:
                raise _invalid(path, f"two branches of the union are {branch.name!r}")
            seen.add(branch.name)
        return Union(tuple(branches))

    def _parse_named(self, document: dict[str, Any], namespace: str, path: str) -> AvroType:
        name = _need(document, "name", path)
        own = document.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own, str):
            raise _invalid(path, "name and namespace are strings")
        full_name = _full_name(name, own)
        _check_name(full_name, path)
        if full_name in self._names:
            raise _invalid(path, f"{full_name!r} is defined twice")
        namespace = full_name.rpartition(".")[0]
        aliases = tuple(_full_name(each, namespace) for each in _strings(document, "aliases", path))
        match document["type"]:
            case "enum":
                named: AvroType = _enum(document, full_name, aliases, path)
            case "fixed":
                named = _parse_fixed(document, full_name, aliases, path)
                named.logical = _logical(document)
            case _:
                record = Record(full_name, aliases)
                self._names[full_name] = record  # its fields may use it
                self._fields(record, document, namespace, path)
                return record
        self._names[full_name] = named
        return named

    def _fields(self, record: Record, document: dict[str, Any], namespace: str, path: str) -> None:
        fields = _need(document, "fields", path)
        if not isinstance(fields, list):
            raise _invalid(path, "fields is a list")
        seen = set()
        for index, each in enumerate(fields):
            place = f"{path}/fields/{index}"
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                raise _invalid(place, "a field has a name and a type")
            name = each["name"]
            _check_name(name, place, dots=False)
            if name in seen:
                raise _invalid(place, f"two fields are named {name!r}")
            seen.add(name)
            type_ = self.parse(_need(each, "type", place), namespace, f"{place}/type")
            aliases = tuple(_strings(each, "aliases", place))
            field = Field(name, aliases, type_, each.get("default"), "default" in each)
            record.fields.append(field)
        for index, field in enumerate(record.fields):
            if field.has_default and not fits(field.default, field.type):
                place = f"{path}/fields/{index}"
                raise _invalid(place, f"the default of {field.name!r} is no {field.type.name}")


def _mark(type_: AvroType, document: dict[str, Any]) -> AvroType:
    """A primitive type as what it stands for: `{"type": "int", "logicalType": "date"}`."""
    if type_.kind in PRIMITIVES and "logicalType" in document:
        return AvroType(type_.kind, _logical(document))
    return type_


def _logical(document: dict[str, Any]) -> Logical | None:
    """The specification has what is wrong about one ignored, and the type taken without it."""
    name = document.get("logicalType")
    if not isinstance(name, str):
        return None
    precision, scale = document.get("precision", 0), document.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    return Logical(name, precision, scale)


def _enum(document: dict[str, Any], name: str, aliases: tuple[str, ...], path: str) -> Enum:
    symbols = _strings(document, "symbols", path)
    if "symbols" not in document:
        raise _invalid(path, "an enum has symbols")
    for symbol in symbols:
        _check_name(symbol, path, dots=False)
    if len(set(symbols)) < len(symbols):
        raise _invalid(path, "the symbols of an enum are unique")
    default = document.get("default")
    if default is not None and default not in symbols:
        raise _invalid(path, f"the default {default!r} is none of the symbols")
    return Enum(name, aliases, tuple(symbols), default)


def _parse_fixed(document: dict[str, Any], name: str, aliases: tuple[str, ...], path: str) -> Fixed:
    size = document.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= FIXED_BYTES_MAX:
        raise _invalid(path, "a fixed has a size in bytes")
    return Fixed(name, aliases, size)


def fits(value: Any, type_: AvroType) -> bool:
    """Whether a default, which is JSON, is a value of the type; one of a union, of any branch."""
    match type_:
        case Union():
            return any(fits(value, branch) for branch in type_.branches)
        case Record():
            return isinstance(value, dict) and all(
                fits(value[each.name], each.type) if each.name in value else each.has_default
                for each in type_.fields
            )
        case Array():
            return isinstance(value, list) and all(fits(each, type_.items) for each in value)
        case Map():
            return isinstance(value, dict) and all(
                fits(each, type_.values) for each in value.values()
            )
        case Enum():
            return value in type_.symbols
        case Fixed():
            return isinstance(value, str) and len(value) == type_.size
        case _:
            return _is_primitive(value, type_.kind)


def _is_primitive(value: Any, kind: str) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int":
            return is_number and isinstance(value, int) and value in _INT
        case "long":
            return is_number and isinstance(value, int) and value in _LONG
        case "float" | "double":
            return is_number or value in ("NaN", "Infinity", "-Infinity")
        case "bytes":
            return isinstance(value, str) and all(ord(each) < 256 for each in value)
        case _:
            return isinstance(value, str)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _check_name(name: str, path: str, *, dots: bool = True) -> None:
    parts = name.split(".") if dots else [name]
    if not all(_NAME.match(part) for part in parts):
        raise _invalid(path, f"{name!r} is no Avro name: letters, digits and _, no digit first")
    if name in PRIMITIVES and dots:
        raise _invalid(path, f"{name!r} is the name of a primitive type")


def _strings(document: Mapping[str, Any], key: str, path: str) -> list[str]:
    values = document.get(key, [])
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise _invalid(path, f"{key} is a list of strings")
    return values


def _need(document: Mapping[str, Any], key: str, path: str) -> Any:
    if key not in document:
        raise _invalid(path, f"{key!r} is missing")
    return document[key]


def _invalid(path: str, text: str) -> InvalidSchema:
    return InvalidSchema(f"invalid Avro schema at {path or '/'}: {text}")
