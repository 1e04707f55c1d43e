"""Whether whatever an old JSON Schema allows is allowed by a new one, by Confluent's rules.

A new schema reads old data if it is nowhere narrower.  Rules have the names that Confluent's
registry gives to the differences.  What an object may have beside its `properties` is its content
model: open (anything), partially open (`patternProperties`, or a schema of
`additionalProperties`), or closed.  A property can be added only where old data cannot have had
another one of that name, so not to an open one; and removed only where it may go on to be there.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.json.content_model import (
    Object,
    Side,
    additional_of,
    find_cover,
    is_open,
    items_of,
    list_of,
    properties_of,
)
from goqueue.schemas.json.references import Node
from goqueue.schemas.json.value_rules import Found, allowed_values, compare_values
from goqueue.schemas.limits import COMPARISONS_MAX
from goqueue.schemas.schema import Incompatibility

TYPES: Final = ("null", "boolean", "object", "array", "number", "integer", "string")
# Keywords that must not come or change, for nothing is known of what they allow.
_OPAQUE: Final = ("if", "then", "else", "contains", "propertyNames")
_CHANGED: Final = "_CHANGED"


def unreadable(old: Side, new: Side) -> Found:
    return _Comparison().compare(old, new, "#")


class _Comparison:
    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Found] = {}
        self._kept: list[Side] = []  # keys are addresses: what they are of must live on
        self._comparisons = 0

    def compare(self, old: Side, new: Side, path: str) -> Found:
        """A pair that is under comparison further up counts as allowed: recursive schemas are."""
        self._comparisons += 1
        if self._comparisons > COMPARISONS_MAX:
            raise InvalidSchema(f"the schemas take more than {COMPARISONS_MAX} comparisons")
        old, new = _dereference(old), _dereference(new)
        if isinstance(new.node, bool) or isinstance(old.node, bool):
            return _compare_trivial(old.node, new.node, path)
        pair = id(old.node), id(new.node)
        if pair not in self._known:
            self._kept += (old, new)
            self._known[pair] = []
            self._known[pair] = self._look(old, new, path)
        return self._known[pair]

    def _look(self, old: Side, new: Side, path: str) -> Found:
        assert isinstance(old.node, dict)
        assert isinstance(new.node, dict)
        branches = _alternatives(old)
        if branches is not None:  # each of them must be allowed by the new one
            return self._compare_branches(old, branches, new, path)
        found = self._compare_combined(old, new, path)
        found += _compare_types(old.node, new.node, path)
        if not found:
            found += compare_values(old.node, new.node, path)
        types = _types(old.node)
        if "object" in types:
            found += self._compare_objects(old, new, path)
        if "array" in types:
            found += self._compare_arrays(old, new, path)
        return found

    # --- combined schemas -------------------------------------------------------------------------

    def _compare_branches(self, old: Side, branches: list[Side], new: Side, path: str) -> Found:
        others = _alternatives(new)
        if others is None:
            found: Found = []
            for branch in branches:
                found += self.compare(branch, new, path)
            return found
        for index, branch in enumerate(branches):
            if not any(not self.compare(branch, other, path) for other in others):
                text = f"no branch of the new schema allows what branch {index} did"
                return [Incompatibility("SUM_TYPE_NARROWED", path, text)]
        return []

    def _compare_combined(self, old: Side, new: Side, path: str) -> Found:
        assert isinstance(new.node, dict)
        assert isinstance(old.node, dict)
        found: Found = []
        others = _alternatives(new)
        # Old data is all that each of them says: one that is allowed now is enough.
        parts = [old, *(old.within(part) for part in list_of(old.node, "allOf"))]
        if others is not None and not any(
            not self.compare(part, each, path) for part in parts for each in others
        ):
            text = "none of the new alternatives allows what the old schema did"
            found.append(Incompatibility("COMBINED_TYPE_CHANGED", path, text))
        for index, each in enumerate(list_of(new.node, "allOf")):
            if not any(not self.compare(part, new.within(each), path) for part in parts):
                text = "the new schema demands more than the old one"
                found.append(
                    Incompatibility("PRODUCT_TYPE_EXTENDED", f"{path}/allOf/{index}", text)
                )
        found += self._compare_not(old, new, path)
        for keyword in _OPAQUE:
            if keyword in new.node and new.node[keyword] != old.node.get(keyword):
                rule = f"{_rule(keyword)}{_CHANGED}"
                found.append(
                    Incompatibility(rule, f"{path}/{keyword}", f"{keyword} was added or changed")
                )
        return found

    def _compare_not(self, old: Side, new: Side, path: str) -> Found:
        assert isinstance(new.node, dict)
        assert isinstance(old.node, dict)
        if "not" not in new.node:
            return []
        if "not" in old.node:  # what is refused now must have been refused
            wider = self.compare(new.within(new.node["not"]), old.within(old.node["not"]), path)
            if not wider:
                return []
        text = "the new schema refuses more than the old one"
        return [Incompatibility("NOT_TYPE_EXTENDED", f"{path}/not", text)]

    # --- objects ----------------------------------------------------------------------------------

    def _compare_objects(self, old: Side, new: Side, path: str) -> Found:
        assert isinstance(new.node, dict)
        assert isinstance(old.node, dict)
        found = _compare_required(old.node, new, path)
        before, after = properties_of(old.node), properties_of(new.node)
        for name in {**before, **after}:
            place = f"{path}/properties/{name}"
            if name not in after:
                found += self._compare_removed(old.within(before[name]), new, name, place)
            elif name not in before:
                found += self._compare_added(old, new, name, place)
            else:
                found += self.compare(old.within(before[name]), new.within(after[name]), place)
        found += self._compare_pattern_properties(old, new, path)
        found += self._compare_additional(old, new, path, "additionalProperties")
        return found + _compare_dependencies(old, new, path)

    def _compare_removed(self, before: Side, new: Side, name: str, place: str) -> Found:
        if is_open(new.node, is_new=True):
            return []
        cover = find_cover(new, name, is_new=True)
        if cover is None:
            if before.node is False:
                return []
            text = f"property {name!r} was removed, and others are not allowed"
            return [Incompatibility("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", place, text)]
        found = self.compare(before, cover, place)
        if not found:
            return []
        text = f"property {name!r} was removed, and what is allowed instead is narrower"
        rule = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return [*found, Incompatibility(rule, place, text)]

    def _compare_added(self, old: Side, new: Side, name: str, place: str) -> Found:
        assert isinstance(new.node, dict)
        after = new.within(properties_of(new.node)[name])
        if is_open(old.node, is_new=False):
            if after.node is True or after.node == {}:
                return []
            text = f"old data may have anything as {name!r}, for other properties were allowed"
            return [Incompatibility("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", place, text)]
        found: Found = []
        cover = find_cover(old, name, is_new=False)
        if cover is not None:
            found = self.compare(cover, after, place)
            if found:
                text = f"property {name!r} is narrower than what was allowed as it"
                rule = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
                found = [*found, Incompatibility(rule, place, text)]
        if name in list_of(new.node, "required") and not _has_default(after):
            text = f"property {name!r} is required, has no default, and old data has none"
            rule = "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"
            found = [*found, Incompatibility(rule, place, text)]
        return found

    def _compare_pattern_properties(self, old: Side, new: Side, path: str) -> Found:
        assert isinstance(new.node, dict)
        assert isinstance(old.node, dict)
        before, after = (each.get("patternProperties", {}) for each in (old.node, new.node))
        found: Found = []
        for pattern, schema in after.items():
            place = f"{path}/patternProperties/{pattern}"
            if pattern in before:
                found += self.compare(old.within(before[pattern]), new.within(schema), place)
            elif is_open(old.node, is_new=False) and schema not in (True, {}):
                text = "old data may have anything under names of the pattern"
                found.append(Incompatibility("PATTERN_PROPERTY_ADDED", place, text))
        return found

    def _compare_additional(self, old: Side, new: Side, path: str, keyword: str) -> Found:
        assert isinstance(new.node, dict)
        assert isinstance(old.node, dict)
        before, after = additional_of(old.node, is_new=False), additional_of(new.node, is_new=True)
        place = f"{path}/{keyword}"
        if after is True or after == {} or before is False:
            return []
        if after is False:
            text = f"{keyword} were allowed"
            return [Incompatibility(f"{_rule(keyword)}_REMOVED", place, text)]
        if before is True or before == {}:
            text = f"{keyword} of any kind were allowed"
            return [Incompatibility(f"{_rule(keyword)}_NARROWED", place, text)]
        return self.compare(old.within(before), new.within(after), place)

    # --- arrays -----------------------------------------------------------------------------------

    def _compare_arrays(self, old: Side, new: Side, path: str) -> Found:
        assert isinstance(new.node, dict)
        assert isinstance(old.node, dict)
        first, rest = items_of(old, is_new=False)
        new_first, new_rest = items_of(new, is_new=True)
        found: Found = []
        for index in range(max(len(first), len(new_first))):
            before = first[index] if index < len(first) else rest
            after = new_first[index] if index < len(new_first) else new_rest
            found += self.compare(before, after, f"{path}/items/{index}")
        return found + self.compare(rest, new_rest, f"{path}/items")


# --- keywords -------------------------------------------------------------------------------------


def _compare_trivial(old: Node, new: Node, path: str) -> Found:
    if new is True or old is False or new == {}:
        return []
    if new is False:
        return [Incompatibility("TYPE_NARROWED", path, "nothing is allowed any more")]
    return _compare_types({}, new, path) or compare_values({}, new, path) or _demands(new, path)


def _demands(new: Node, path: str) -> Found:
    """Whether it has keywords that narrow what was anything."""
    narrowing = {"required", "properties", "items", "allOf", "anyOf", "oneOf", "not", *_OPAQUE}
    narrowing |= {"additionalProperties", "patternProperties", "dependencies"}
    narrowing |= {"unevaluatedProperties", "unevaluatedItems", "prefixItems", "dependentSchemas"}
    if isinstance(new, dict) and narrowing & new.keys():
        return [Incompatibility("SCHEMA_ADDED", path, "anything was allowed")]
    return []


def _compare_types(old: Object, new: Object, path: str) -> Found:
    before, after = _types(old), _types(new)
    missing = [each for each in before if each not in after]
    if "integer" in missing and "number" in after:
        missing.remove("integer")
    if not missing:
        return []
    disjoint = not any(each in after for each in before)
    rule = "TYPE_CHANGED" if disjoint else "TYPE_NARROWED"
    text = f"{', '.join(missing)} was allowed; now {', '.join(after)}"
    return [Incompatibility(rule, f"{path}/type" if "type" in new else path, text)]


def _compare_required(old: Object, new: Side, path: str) -> Found:
    assert isinstance(new.node, dict)
    found: Found = []
    after = properties_of(new.node)
    for name in list_of(new.node, "required"):
        if name in list_of(old, "required") or _has_default(new.within(after.get(name))):
            continue
        if name in after and name not in properties_of(old):
            continue  # an added property: looked at with the others
        text = f"property {name!r} was optional, and has no default"
        found.append(Incompatibility("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}", text))
    return found


def _compare_dependencies(old: Side, new: Side, path: str) -> Found:
    assert isinstance(new.node, dict)
    assert isinstance(old.node, dict)
    found: Found = []
    for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
        before, after = old.node.get(keyword, {}), new.node.get(keyword, {})
        for name, demanded in after.items():
            known = before.get(name)
            if isinstance(demanded, list) and isinstance(known, list):
                fine = set(demanded) <= set(known)
            else:
                fine = known == demanded or demanded in ([], True, {})
            if not fine:
                text = f"what {name!r} demands was added or extended"
                rule = "DEPENDENCY_EXTENDED" if known is not None else "DEPENDENCY_ADDED"
                found.append(Incompatibility(rule, f"{path}/{keyword}/{name}", text))
    return found


# --- looking at a schema --------------------------------------------------------------------------


def _dereference(side: Side) -> Side:
    """Follow `$ref`; keywords beside it count as one more part, as 2020-12 has it."""
    seen = 0
    while isinstance(side.node, dict) and isinstance(side.node.get("$ref"), str):
        seen += 1
        target = side.references.resolve(side.node, side.node["$ref"])
        if seen > COMPARISONS_MAX:
            raise InvalidSchema("the schema refers to itself for the same value")
        side = side.within(target)
    return side


def _alternatives(side: Side) -> list[Side] | None:
    if isinstance(side.node, bool):
        return None
    for keyword in ("oneOf", "anyOf"):
        branches = list_of(side.node, keyword)
        if branches:
            return [side.within(each) for each in branches]
    return None


def _types(node: Object) -> list[str]:
    declared = node.get("type")
    if isinstance(declared, str):
        types: Iterable[str] = (declared,)
    elif isinstance(declared, list):
        types = declared
    elif (values := allowed_values(node)) is not None:
        types = {_type_of(each) for each in values}
    else:
        return list(TYPES)
    found = [each for each in TYPES if each in types]
    return [*found, "integer"] if "number" in found and "integer" not in found else found


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _has_default(side: Side) -> bool:
    node = _dereference(side).node
    return isinstance(node, dict) and "default" in node


def _rule(keyword: str) -> str:
    """ADDITIONAL_PROPERTIES, say."""
    return re.sub(r"([A-Z])", r"_\1", keyword).upper()
