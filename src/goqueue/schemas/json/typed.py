"""Many JSON Schemas as msgspec types: one pass over the bytes decodes and accepts a payload.

A type is never wider than its schema: what it accepts is valid.  What it refuses may be valid all
the same (1.0 as an integer, a property for which `additionalProperties` has a schema), and is left
to the complete validator, as are schemas with keywords that have no type here.  So the verdict is
the complete validator's, and costs half for documents that are as their schema says.

Properties that an open schema does not name are skipped.  msgspec checks the syntax of what it
skips, but neither that its text is UTF-8, nor how deep it is: whoever uses such a type does.
"""

from typing import Annotated, Any, Final, Literal, Union

import msgspec

from goqueue.schemas.json.keywords import REFERENCES
from goqueue.schemas.json.references import Node, References

OBJECTS_MAX: Final = 200  # of a schema: each is a class of Python
FIELDS_MAX: Final = 2_000
FLOAT_INT_MAX: Final = 2**53  # whole numbers up to this are the same as a float

# Keywords that say what is valid, in any draft.  What is none of them is no matter.
_ASSERTIONS: Final = frozenset(
    (
        *("additionalItems", "additionalProperties", "allOf", "anyOf", "const", "contains"),
        *("contentEncoding", "contentMediaType", "contentSchema", "dependencies"),
        *("dependentRequired", "dependentSchemas", "disallow", "divisibleBy", "else", "enum"),
        *("exclusiveMaximum", "exclusiveMinimum", "extends", "format", "if", "items"),
        *("maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains"),
        *("minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf"),
        *("pattern", "patternProperties", "prefixItems", "properties", "propertyNames"),
        *("required", "then", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
    )
)
_BY_TYPE: Final = {
    "null": frozenset[str](),
    "boolean": frozenset[str](),
    "string": frozenset(("minLength", "maxLength")),
    "integer": frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
    "number": frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")),
    "array": frozenset(("items", "minItems", "maxItems")),
    "object": frozenset(
        ("properties", "required", "additionalProperties", "minProperties", "maxProperties")
    ),
}
_BOUNDS: Final = (
    ("minimum", "ge"),
    ("maximum", "le"),
    ("exclusiveMinimum", "gt"),
    ("exclusiveMaximum", "lt"),
)


class Typed(msgspec.Struct, frozen=True):
    """Accepts valid payloads only, if those that it `skips` parts of are UTF-8 and not deep."""

    decoder: msgspec.json.Decoder[Any]
    skips: bool


def find_type(document: Node, references: References) -> Typed | None:
    """None for a schema that has no type."""
    types = _Types(references)
    try:
        decoder = msgspec.json.Decoder(types.of(document))
        return Typed(decoder, types.is_open)
    except (_Untyped, TypeError, ValueError, RecursionError, OverflowError):
        return None  # also what msgspec has no room for: two kinds of objects in a union, say


class _Untyped(Exception):
    """The schema says something that no type does."""


class _Types:
    def __init__(self, references: References) -> None:
        self._references = references
        self._above: set[int] = set()  # that refer to what is looked at: no type is recursive
        self._objects = 0
        self._fields = 0
        self.is_open = False  # some object may have properties that its schema does not name

    def of(self, node: Node) -> Any:
        if not isinstance(node, dict) or id(node) in self._above:
            raise _Untyped
        self._above.add(id(node))
        try:
            return self._of(node)
        finally:
            self._above.discard(id(node))

    def _of(self, node: dict[str, Any]) -> Any:
        said = node.keys() & _ASSERTIONS
        if node.keys() & set(REFERENCES):
            if said or node.keys() & {*REFERENCES, "$id"} != {"$ref"}:
                raise _Untyped
            return self.of(self._references.resolve(node, node["$ref"]))
        for keyword in ("oneOf", "anyOf"):
            if said == {keyword}:
                return self._alternatives(node[keyword])
        if said <= {"enum", "const", "type"} and said & {"enum", "const"}:
            return _values(node)
        kinds = node.get("type")
        names = [kinds] if isinstance(kinds, str) else kinds
        if not isinstance(names, list) or not all(each in _BY_TYPE for each in names):
            raise _Untyped
        allowed = frozenset[str]().union(*(_BY_TYPE[each] for each in names))
        if not said - {"type"} <= allowed:
            raise _Untyped
        return _union([self._kind(each, node) for each in names])

    def _alternatives(self, branches: Any) -> Any:
        """Of different types, so that at most one of them fits."""
        kinds = [each.get("type") if isinstance(each, dict) else None for each in branches]
        if not all(isinstance(each, str) for each in kinds) or len(set(kinds)) < len(kinds):
            raise _Untyped
        if {"integer", "number"} <= set(kinds):
            raise _Untyped
        return _union([self.of(each) for each in branches])

    def _kind(self, name: str, node: dict[str, Any]) -> Any:
        match name:
            case "null":
                return None
            case "boolean":
                return bool
            case "string":
                return _with(str, _lengths(node, "minLength", "maxLength"))
            case "integer":
                return _with(int, _bounds(node))
            case "number":
                return Union[_with(int, _bounds(node)), _with(float, _bounds(node, is_float=True))]  # noqa: UP007 # of values
            case "array":
                item = self.of(node["items"]) if "items" in node else _refuse()
                return _with(list[item], _lengths(node, "minItems", "maxItems"))  # type: ignore[valid-type]
            case _:
                return self._object(node)

    def _object(self, node: dict[str, Any]) -> Any:
        properties, required = node.get("properties", {}), node.get("required", [])
        if not properties and not required:
            return self._map(node)
        if "minProperties" in node or "maxProperties" in node or set(required) - set(properties):
            raise _Untyped
        self._objects += 1
        self._fields += len(properties)
        if self._objects > OBJECTS_MAX or self._fields > FIELDS_MAX:
            raise _Untyped
        fields: list[tuple[str, Any, Any]] = []
        for number, (name, schema) in enumerate(properties.items()):
            kind = self.of(schema)
            if name in required:
                fields.append((f"f{number}", kind, msgspec.field(name=name)))
            else:
                optional = _union([kind, msgspec.UnsetType])
                fields.append(
                    (f"f{number}", optional, msgspec.field(name=name, default=msgspec.UNSET))
                )
        is_open = node.get("additionalProperties", True) is True
        self.is_open |= is_open
        return msgspec.defstruct(
            "Document", fields, forbid_unknown_fields=not is_open, kw_only=True
        )

    def _map(self, node: dict[str, Any]) -> Any:
        values = node.get("additionalProperties", True)
        if not isinstance(values, dict):
            raise _Untyped
        return _with(dict[str, self.of(values)], _lengths(node, "minProperties", "maxProperties"))  # type: ignore[misc] # known when it runs


def _union(kinds: list[Any]) -> Any:
    return Union[tuple(kinds)]  # noqa: UP007 # of values


def _with(kind: Any, limits: dict[str, Any]) -> Any:
    return Annotated[kind, msgspec.Meta(**limits)] if limits else kind


def _lengths(node: dict[str, Any], low: str, high: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for keyword, name in ((low, "min_length"), (high, "max_length")):
        if keyword in node:
            if type(node[keyword]) is not int:
                raise _Untyped
            found[name] = node[keyword]
    return found


def _bounds(node: dict[str, Any], *, is_float: bool = False) -> dict[str, Any]:
    """Those that mean the same for whole numbers and for others."""
    found: dict[str, Any] = {}
    for keyword, name in _BOUNDS:
        bound = node.get(keyword)
        if bound is None:
            continue
        if type(bound) is float and bound.is_integer():
            bound = int(bound)
        if type(bound) is not int or abs(bound) > FLOAT_INT_MAX:
            raise _Untyped
        found[name] = float(bound) if is_float else bound
    if {"ge", "gt"} <= found.keys() or {"le", "lt"} <= found.keys():
        raise _Untyped
    return found


def _values(node: dict[str, Any]) -> Any:
    """Texts and whole numbers: others compare in ways of their own."""
    wanted = node.get("enum", [node.get("const")])
    if "enum" in node and "const" in node:
        raise _Untyped
    kinds = {type(each) for each in wanted}
    expected = {"string": {str}, "integer": {int}}.get(node.get("type", ""), kinds)
    if not wanted or kinds - {str, int} or kinds != expected:
        raise _Untyped
    if node.get("type", "string") not in ("string", "integer"):
        raise _Untyped
    return Literal[tuple(wanted)]


def _refuse() -> Any:
    raise _Untyped
