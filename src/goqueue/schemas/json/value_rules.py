"""Rules of JSON Schema's keywords that bound single values: enums, lengths, limits, patterns."""

from typing import Any, Final

from goqueue.schemas.documents import canonical
from goqueue.schemas.json.content_model import Object
from goqueue.schemas.schema import Incompatibility

# keyword, its rule's name, +1: an upper bound, -1: a lower one
_BOUNDS: Final = (
    ("maxLength", "MAX_LENGTH", 1),
    ("minLength", "MIN_LENGTH", -1),
    ("maximum", "MAXIMUM", 1),
    ("minimum", "MINIMUM", -1),
    ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", 1),
    ("exclusiveMinimum", "EXCLUSIVE_MINIMUM", -1),
    ("maxItems", "MAX_ITEMS", 1),
    ("minItems", "MIN_ITEMS", -1),
    ("maxProperties", "MAX_PROPERTIES", 1),
    ("minProperties", "MIN_PROPERTIES", -1),
)

Found = list[Incompatibility]


def compare_values(old: Object, new: Object, path: str) -> Found:
    found = _compare_enums(old, new, path)
    for keyword, rule, sign in _BOUNDS:
        found += _compare_bound(old.get(keyword), new.get(keyword), sign, rule, f"{path}/{keyword}")
    found += _compare_contained(old, new, path)
    if "pattern" in new and new["pattern"] != old.get("pattern"):
        rule = "PATTERN_CHANGED" if "pattern" in old else "PATTERN_ADDED"
        found.append(Incompatibility(rule, f"{path}/pattern", "strings need not have matched it"))
    if new.get("uniqueItems") is True and old.get("uniqueItems") is not True:
        text = "items could be equal"
        found.append(Incompatibility("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", text))
    return found + _compare_multiples(old, new, path)


def _compare_contained(old: Object, new: Object, path: str) -> Found:
    """How many items `contains` must, and may, fit; one at least where nothing is said."""
    if "contains" not in new:
        return []
    least = old.get("minContains", 1), new.get("minContains", 1)
    most = old.get("maxContains"), new.get("maxContains")
    found = _compare_bound(least[0], least[1], -1, "MIN_CONTAINS", f"{path}/minContains")
    return found + _compare_bound(most[0], most[1], 1, "MAX_CONTAINS", f"{path}/maxContains")


def _compare_enums(old: Object, new: Object, path: str) -> Found:
    before, after = allowed_values(old), allowed_values(new)
    if after is None:
        return []
    if before is None:
        return [Incompatibility("ENUM_ARRAY_ADDED", f"{path}/enum", "other values were allowed")]
    kept = {_identity(each) for each in after}
    missing = [each for each in before if _identity(each) not in kept]
    if not missing:
        return []
    rule = "CONST_CHANGED" if "const" in new else "ENUM_ARRAY_NARROWED"
    text = f"{str(missing[0])[:50]!r} was allowed"
    return [Incompatibility(rule, f"{path}/{'const' if 'const' in new else 'enum'}", text)]


def _compare_bound(before: Any, after: Any, sign: int, rule: str, path: str) -> Found:
    if not _is_number(after):
        return []
    if not _is_number(before):
        if sign < 0 and after == 0 and "minimum" not in path.lower():
            return []  # a length or a count is never negative
        return [Incompatibility(f"{rule}_ADDED", path, f"the bound {after} is new")]
    if sign * after >= sign * before:
        return []
    way = "DECREASED" if sign > 0 else "INCREASED"
    return [Incompatibility(f"{rule}_{way}", path, f"the bound was {before}, now {after}")]


def _compare_multiples(old: Object, new: Object, path: str) -> Found:
    before: Any = old.get("multipleOf")
    after: Any = new.get("multipleOf")
    if not _is_number(after) or before == after:
        return []
    place = f"{path}/multipleOf"
    if not _is_number(before):
        return [Incompatibility("MULTIPLE_OF_ADDED", place, "any number was allowed")]
    if before % after == 0:
        return []
    rule = "MULTIPLE_OF_EXPANDED" if after % before == 0 else "MULTIPLE_OF_CHANGED"
    return [Incompatibility(rule, place, f"multiples of {before} were allowed, now of {after}")]


def _identity(value: Any) -> tuple[str, Any]:
    """Equal for values that JSON Schema calls equal: 1 and 1.0, but not 1 and true."""
    if isinstance(value, bool):
        return "boolean", value
    return ("text", canonical(value)) if isinstance(value, dict | list) else ("", value)


def allowed_values(node: Object) -> list[Any] | None:
    """Those that an enum or a const allows."""
    if "const" in node:
        return [node["const"]]
    values = node.get("enum")
    return values if isinstance(values, list) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
