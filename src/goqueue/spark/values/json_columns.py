"""A JSON Schema as Arrow's types.

`properties` are a struct, `items` a list, `additionalProperties` alone a map; null beside another
type only says that it may be missing.  What may be anything is JSON text.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from goqueue.schemas.json import JsonSchema
from goqueue.spark.values.errors import NoColumns
from goqueue.spark.values.layout import COLUMNS_MAX

DEPTH_MAX: Final = 16
PLAIN: Final[Mapping[str, Any]] = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
}
ALTERNATIVES: Final = ("anyOf", "oneOf")


class Columns:
    """The type of a schema's values, and whether Arrow's own parser can fill it."""

    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema
        self._leaves = 0
        self.is_plain = True
        self.is_struct = False
        self.type: Any = self._type(schema.document, 0)
        if pa.types.is_struct(self.type):
            self.is_struct = True
        else:
            self.is_plain = False

    def _type(self, node: Any, depth: int) -> Any:
        node = self._resolve(node)
        if not isinstance(node, dict) or depth > DEPTH_MAX:
            return self._text()
        for keyword in ALTERNATIVES:
            if keyword in node and "properties" not in node:
                return self._alternatives(node[keyword], depth)
        match _kind(node):
            case "object":
                return self._object(node, depth)
            case "array" if isinstance(node.get("items"), dict):
                return pa.list_(self._type(node["items"], depth + 1))
            case str() as kind if kind in PLAIN:
                self._count()
                return PLAIN[kind]
            case _:
                return self._text()

    def _resolve(self, node: Any) -> Any:
        """Behind its references, and with what `allOf` adds to it."""
        seen = 0
        while isinstance(node, dict) and isinstance(node.get("$ref"), str) and seen < DEPTH_MAX:
            node = self._schema.references.resolve(node, node["$ref"])
            seen += 1
        if not isinstance(node, dict) or not isinstance(node.get("allOf"), list):
            return node
        merged = {name: value for name, value in node.items() if name != "allOf"}
        for each in node["allOf"]:
            part = self._resolve(each)
            if isinstance(part, dict):
                properties = {**part.get("properties", {}), **merged.get("properties", {})}
                merged = {**part, **merged}
                if properties:
                    merged["properties"] = properties
        return merged

    def _alternatives(self, nodes: Any, depth: int) -> Any:
        others = [each for each in map(self._resolve, nodes) if not _is_null(each)]
        return self._type(others[0], depth) if len(others) == 1 else self._text()

    def _object(self, node: dict[str, Any], depth: int) -> Any:
        properties = node.get("properties")
        if isinstance(properties, dict) and properties:
            names = {name.lower() for name in properties}
            if len(names) < len(properties):
                raise NoColumns(
                    "the schema has properties that differ only in upper and lower case, which"
                    " Spark does not tell apart: read values as bytes (value.format=binary)"
                )
            return pa.struct(
                [pa.field(name, self._type(each, depth + 1)) for name, each in properties.items()]
            )
        if isinstance(node.get("additionalProperties"), dict):
            self.is_plain = False
            return pa.map_(pa.string(), self._type(node["additionalProperties"], depth + 1))
        return self._text()

    def _text(self) -> Any:
        """JSON as it is; told from a string by being a large one, until rows are made."""
        self._count()
        self.is_plain = False
        return pa.large_string()

    def _count(self) -> None:
        self._leaves += 1
        if self._leaves > COLUMNS_MAX:
            raise NoColumns(f"the schema has more than {COLUMNS_MAX} columns: read it as bytes")


def _kind(node: dict[str, Any]) -> str | None:
    """Its one type, null aside; told by what it has, where it does not say."""
    given = node.get("type")
    names = [each for each in (given if isinstance(given, list) else [given]) if each != "null"]
    if len(names) == 1 and isinstance(names[0], str):
        return names[0]
    if given is None and isinstance(node.get("properties"), dict):
        return "object"
    kinds = set(_kinds_of_values(node))
    return kinds.pop() if given is None and len(kinds) == 1 else None


def _kinds_of_values(node: dict[str, Any]) -> Iterator[str]:
    values = node.get("enum", [node["const"]] if "const" in node else [])
    names = {str: "string", bool: "boolean", int: "integer", float: "number"}
    for each in values:
        if each is not None:
            yield names.get(type(each), "")


def _is_null(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") == "null"


def spark_type(kind: Any) -> Any:
    """With JSON text as what it is to others: a string."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, spark_type(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), spark_type(kind.item_type))
    return pa.list_(spark_type(kind.value_type)) if pa.types.is_list(kind) else kind
