"""Which keywords of JSON Schema hold schemas, and whether for the same value or for one inside."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

SAME_ONE: Final = ("not", "if", "then", "else")
SAME_LIST: Final = ("allOf", "anyOf", "oneOf")
SAME_MAP: Final = ("dependentSchemas", "dependencies")
INSIDE_ONE: Final = (
    "additionalProperties",
    "items",
    "contains",
    "propertyNames",
    "additionalItems",
    "unevaluatedItems",
    "unevaluatedProperties",
)
INSIDE_LIST: Final = ("prefixItems", "items")
INSIDE_MAP: Final = ("properties", "patternProperties")
DEFINITIONS: Final = ("definitions", "$defs")
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class Subschema(msgspec.Struct, frozen=True):
    schema: dict[str, Any] | bool
    keyword: str
    key: str | int | None  # of the property, or in the list
    is_inside: bool  # of a value inside the one that the schema around it is for


def subschemas(schema: dict[str, Any]) -> Iterator[Subschema]:
    """Those that apply when the schema does; definitions do not until they are referred to."""
    for keyword in (*SAME_ONE, *INSIDE_ONE):
        if isinstance(schema.get(keyword), dict | bool):
            yield Subschema(schema[keyword], keyword, None, keyword in INSIDE_ONE)
    for keyword in (*SAME_LIST, *INSIDE_LIST):
        if isinstance(schema.get(keyword), list):
            for index, each in enumerate(schema[keyword]):
                if isinstance(each, dict | bool):
                    yield Subschema(each, keyword, index, keyword in INSIDE_LIST)
    for keyword in (*SAME_MAP, *INSIDE_MAP):
        yield from _of_map(schema, keyword, keyword in INSIDE_MAP)


def definitions(schema: dict[str, Any]) -> Iterator[Subschema]:
    for keyword in DEFINITIONS:
        yield from _of_map(schema, keyword, False)


def _of_map(schema: dict[str, Any], keyword: str, is_inside: bool) -> Iterator[Subschema]:
    if isinstance(schema.get(keyword), dict):
        for name, each in schema[keyword].items():
            if isinstance(each, dict | bool):
                yield Subschema(each, keyword, name, is_inside)
