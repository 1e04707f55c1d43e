"""What objects and arrays may hold beside what a schema names: open, partially open, or closed."""

from typing import Any, Final

import msgspec
import re2

from goqueue.schemas.json.references import Node, References

# Keywords whose properties and items `unevaluated…` counts, beside those of the schema itself.
_EVALUATING: Final = (
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "contains"),
    *("$ref", "$dynamicRef", "$recursiveRef"),
)

Object = dict[str, Any]


class Side(msgspec.Struct, frozen=True):
    """A schema, with what its references mean."""

    node: Node
    references: References

    def within(self, node: Any) -> "Side":
        return Side(node if isinstance(node, dict | bool) else True, self.references)


def properties_of(node: Object) -> Object:
    found = node.get("properties")
    return found if isinstance(found, dict) else {}


def list_of(node: Object, keyword: str) -> list[Any]:
    found = node.get(keyword)
    return found if isinstance(found, list) else []


def items_of(side: Side, *, is_new: bool) -> tuple[list[Side], Side]:
    """The schemas of the first items, and that of the others."""
    assert isinstance(side.node, dict)
    items = side.node.get("items", _find_unevaluated(side.node, "unevaluatedItems", is_new=is_new))
    if isinstance(items, list):  # up to 2019-09
        first, rest = items, side.node.get("additionalItems", True)
    else:
        first, rest = list_of(side.node, "prefixItems"), items
    return [side.within(each) for each in first], side.within(rest)


def additional_of(node: Object, *, is_new: bool) -> Any:
    """What properties must be that are not declared."""
    unevaluated = _find_unevaluated(node, "unevaluatedProperties", is_new=is_new)
    return node.get("additionalProperties", unevaluated)


def _find_unevaluated(node: Object, keyword: str, *, is_new: bool) -> Any:
    """As if nothing else evaluated: too narrow for a new schema, so old ones are taken as open."""
    if not is_new and any(each in node for each in _EVALUATING):
        return True
    return node.get(keyword, True)


def is_open(node: Node, *, is_new: bool) -> bool:
    if isinstance(node, bool):
        return node
    additional = additional_of(node, is_new=is_new)
    return not node.get("patternProperties") and (additional is True or additional == {})


def find_cover(side: Side, name: str, *, is_new: bool) -> Side | None:
    """What a property of the name must be, without having been declared."""
    assert isinstance(side.node, dict)
    for pattern, schema in side.node.get("patternProperties", {}).items():
        if _matches(pattern, name):
            return side.within(schema)
    additional = additional_of(side.node, is_new=is_new)
    return None if additional is False else side.within(additional)


def _matches(pattern: str, name: str) -> bool:
    """In linear time; a pattern that needs more (lookaround) counts as one that matches."""
    try:
        return re2.search(pattern, name) is not None
    except re2.error:
        return True
