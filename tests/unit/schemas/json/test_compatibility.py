"""Which JSON Schemas allow each other's documents."""
# ruff: noqa: E501 -- a pair of the table is one line

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.schemas import SchemaType
from tests.unit.schemas.verdicts import check_verdicts, parse, rules

JSON = SchemaType.JSON
STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def thing(properties: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties or {}, **more}


def closed(properties: Any = None, **more: Any) -> dict[str, Any]:
    return thing(properties, additionalProperties=False, **more)


def partly(properties: Any = None, **more: Any) -> dict[str, Any]:
    return thing(properties, additionalProperties=STRING, **more)


A = {"a": STRING}
AB = {"a": STRING, "b": STRING}

# name, old, new, the new allows the old's documents, the old the new's
PAIRS = [
    ("the same", thing(A), thing(A), True, True),
    ("title", thing(A), thing(A, title="T"), True, True),
    ("property added to open", thing(A), thing(AB), False, True),
    ("anything added to open", thing(A), thing({"a": STRING, "b": {}}), True, True),
    ("property removed from open", thing(AB), thing(A), True, False),
    ("optional property added to closed", closed(A), closed(AB), True, False),
    ("required property added to closed", closed(A), closed(AB, required=["b"]), False, False),
    (
        "required property with a default added to closed",
        closed(A),
        closed({"a": STRING, "b": {"type": "string", "default": ""}}, required=["b"]),
        True,
        False,
    ),
    ("property removed from closed", closed(AB), closed(A), False, True),
    ("closed to open", closed(A), thing(A), True, False),
    ("open to closed", thing(A), closed(A), False, True),
    ("open to partly open", thing(A), partly(A), False, True),
    ("partly open: covered property added", partly(A), partly(AB), True, True),
    (
        "partly open: other property added",
        partly(A),
        partly({"a": STRING, "b": INTEGER}),
        False,
        False,
    ),
    ("required added", thing(A), thing(A, required=["a"]), False, True),
    ("required removed", thing(A, required=["a"]), thing(A), True, False),
    ("type changed", STRING, INTEGER, False, False),
    ("integer to number", INTEGER, NUMBER, True, False),
    ("type to a list with it", STRING, {"type": ["string", "null"]}, True, False),
    (
        "types in another order",
        {"type": ["string", "null"]},
        {"type": ["null", "string"]},
        True,
        True,
    ),
    ("anything to a type", {}, STRING, False, True),
    ("type to true", STRING, True, True, False),
    ("type to false", STRING, False, False, True),
    ("maxLength added", STRING, {**STRING, "maxLength": 5}, False, True),
    ("maxLength raised", {**STRING, "maxLength": 5}, {**STRING, "maxLength": 9}, True, False),
    ("minLength raised", {**STRING, "minLength": 5}, {**STRING, "minLength": 9}, False, True),
    ("minLength 0 added", STRING, {**STRING, "minLength": 0}, True, True),
    ("pattern added", STRING, {**STRING, "pattern": "a"}, False, True),
    ("pattern changed", {**STRING, "pattern": "a"}, {**STRING, "pattern": "b"}, False, False),
    ("maximum added", INTEGER, {**INTEGER, "maximum": 5}, False, True),
    ("maximum raised", {**INTEGER, "maximum": 5}, {**INTEGER, "maximum": 6}, True, False),
    ("minimum lowered", {**INTEGER, "minimum": 5}, {**INTEGER, "minimum": 4}, True, False),
    (
        "exclusiveMinimum raised",
        {**INTEGER, "exclusiveMinimum": 5},
        {**INTEGER, "exclusiveMinimum": 6},
        False,
        True,
    ),
    ("multipleOf added", INTEGER, {**INTEGER, "multipleOf": 2}, False, True),
    ("multipleOf divided", {**INTEGER, "multipleOf": 6}, {**INTEGER, "multipleOf": 3}, True, False),
    (
        "multipleOf changed",
        {**INTEGER, "multipleOf": 6},
        {**INTEGER, "multipleOf": 4},
        False,
        False,
    ),
    ("enum extended", {"enum": ["a"]}, {"enum": ["a", "b"]}, True, False),
    ("enum narrowed", {"enum": ["a", "b"]}, {"enum": ["a"]}, False, True),
    ("enum to its type", {"enum": ["a", "b"]}, STRING, True, False),
    ("const to enum", {"const": "a"}, {"enum": ["a", "b"]}, True, False),
    ("const changed", {"const": "a"}, {"const": "b"}, False, False),
    (
        "items changed",
        {"type": "array", "items": STRING},
        {"type": "array", "items": INTEGER},
        False,
        False,
    ),
    (
        "items widened",
        {"type": "array", "items": INTEGER},
        {"type": "array", "items": NUMBER},
        True,
        False,
    ),
    ("items added", {"type": "array"}, {"type": "array", "items": STRING}, False, True),
    ("maxItems added", {"type": "array"}, {"type": "array", "maxItems": 3}, False, True),
    (
        "minItems raised",
        {"type": "array", "minItems": 1},
        {"type": "array", "minItems": 2},
        False,
        True,
    ),
    ("uniqueItems added", {"type": "array"}, {"type": "array", "uniqueItems": True}, False, True),
    ("minProperties added", thing(), thing(minProperties=1), False, True),
    ("maxProperties raised", thing(maxProperties=1), thing(maxProperties=2), True, False),
    ("alternative added", {"oneOf": [STRING]}, {"oneOf": [STRING, INTEGER]}, True, False),
    ("alternative removed", {"oneOf": [STRING, INTEGER]}, {"oneOf": [STRING]}, False, True),
    ("type to alternatives", STRING, {"anyOf": [STRING, INTEGER]}, True, False),
    ("alternatives to a type", {"anyOf": [STRING, INTEGER]}, STRING, False, True),
    ("alternatives to another", {"oneOf": [STRING]}, {"oneOf": [INTEGER]}, False, False),
    (
        "allOf extended",
        {"allOf": [thing(A)]},
        {"allOf": [thing(A), {"required": ["a"]}]},
        False,
        True,
    ),
    ("not added", STRING, {**STRING, "not": {"const": "a"}}, False, True),
    ("if changed", thing(A), {**thing(A), "if": {"required": ["a"]}, "then": False}, False, True),
    ("dependency added", thing(AB), thing(AB, dependencies={"a": ["b"]}), False, True),
    ("dependency removed", thing(AB, dependencies={"a": ["b"]}), thing(AB), True, False),
    (
        "definition changed",
        {"$ref": "#/definitions/x", "definitions": {"x": STRING}},
        {"$ref": "#/definitions/x", "definitions": {"x": INTEGER}},
        False,
        False,
    ),
    (
        "definition to inline",
        thing({"a": {"$ref": "#/definitions/x"}}, definitions={"x": STRING}),
        thing(A),
        True,
        True,
    ),
    (
        "nested property made required",
        thing({"in": closed(A)}),
        thing({"in": closed(A, required=["a"])}),
        False,
        True,
    ),
    (
        "recursive",
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "array", "items": {"$ref": "#"}, "maxItems": 9},
        False,
        True,
    ),
    (
        "patternProperties narrowed",
        thing(patternProperties={"^x": NUMBER}),
        thing(patternProperties={"^x": INTEGER}),
        False,
        True,
    ),
    ("allOf to anyOf", {"allOf": [STRING]}, {"anyOf": [STRING]}, True, True),
    ("allOf to a wider oneOf", {"allOf": [STRING]}, {"oneOf": [NUMBER, STRING]}, True, False),
    ("one of several in allOf", {"allOf": [NUMBER, STRING]}, {"anyOf": [STRING]}, True, False),
    ("allOf to other alternatives", {"allOf": [STRING]}, {"anyOf": [NUMBER]}, False, False),
    ("unevaluated closed", thing(A), thing(A, unevaluatedProperties=False), False, True),
    (
        "optional added, unevaluated closed",
        thing(A, unevaluatedProperties=False),
        thing(AB, unevaluatedProperties=False),
        True,
        False,
    ),
    (
        "added, and covered by what is not evaluated",
        thing(A, unevaluatedProperties=STRING),
        thing({**A, "b": STRING}, unevaluatedProperties=STRING),
        True,
        True,
    ),
    (
        "what allOf evaluates is not closed",
        thing({}, allOf=[{"properties": {"b": STRING}}], unevaluatedProperties=False),
        thing({"b": NUMBER}),
        False,
        False,
    ),
    (
        "item removed, unevaluated items",
        {"type": "array", "prefixItems": [STRING, NUMBER], "unevaluatedItems": STRING},
        {"type": "array", "prefixItems": [STRING], "unevaluatedItems": STRING},
        False,
        False,
    ),
    (
        "fewer must be contained",
        {"type": "array", "contains": NUMBER, "minContains": 2},
        {"type": "array", "contains": NUMBER},
        True,
        False,
    ),
    (
        "one must be contained again",
        {"type": "array", "contains": NUMBER, "minContains": 0},
        {"type": "array", "contains": NUMBER},
        False,
        True,
    ),
    (
        "more may be contained",
        {"type": "array", "contains": NUMBER, "maxContains": 2},
        {"type": "array", "contains": NUMBER, "maxContains": 3},
        True,
        False,
    ),
]


@pytest.mark.parametrize(
    ("old", "new", "backward", "forward"), [each[1:] for each in PAIRS], ids=[p[0] for p in PAIRS]
)
def test_verdict(old: Any, new: Any, backward: bool, forward: bool):
    check_verdicts(JSON, old, new, backward=backward, forward=forward)


def test_a_problem_names_the_path_and_the_rule():
    old, new = thing({"in": closed(AB)}), thing({"in": closed(A)})
    (found,) = parse(JSON, new).unreadable(parse(JSON, old))
    assert found.rule == "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
    assert found.path == "#/properties/in/properties/b"


def test_rules_have_confluents_names():
    assert rules(JSON, thing(A), thing(AB)) == {"PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"}
    assert rules(JSON, thing(A), thing(A, required=["a"])) == {"REQUIRED_ATTRIBUTE_ADDED"}
    assert rules(JSON, STRING, INTEGER) == {"TYPE_CHANGED"}
    assert rules(JSON, thing(A), closed(A)) == {"ADDITIONAL_PROPERTIES_REMOVED"}


# --- what is called compatible allows old documents -------------------------------------------------

leaves = st.sampled_from(
    [
        STRING,
        INTEGER,
        NUMBER,
        {"type": "boolean"},
        {"type": ["string", "null"]},
        {"type": "string", "maxLength": 2},
        {"type": "string", "minLength": 2},
        {"type": "integer", "minimum": 0},
        {"type": "integer", "maximum": 3, "multipleOf": 2},
        {"enum": ["a", 1]},
        {"const": "a"},
        {},
        True,
    ]
)


def branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    objects = st.builds(
        lambda known, rest, needed, typed: (
            ({"type": "object"} if typed else {})
            | {"properties": known}
            | ({} if rest is None else {"additionalProperties": rest})
            | ({"required": needed} if needed else {})
        ),
        properties,
        st.none() | st.booleans() | inner,
        st.lists(st.sampled_from("ab"), unique=True, max_size=1),
        st.booleans(),
    )
    arrays = st.builds(
        lambda items, most: {
            "type": "array",
            "items": items,
            **({"maxItems": most} if most else {}),
        },
        inner,
        st.integers(0, 2),
    )
    unions = st.lists(inner, min_size=1, max_size=2).map(lambda some: {"anyOf": some})
    both = st.lists(inner, min_size=1, max_size=2).map(lambda some: {"allOf": some})
    return objects | arrays | unions | both


schemas = st.recursive(leaves, branches, max_leaves=5)
documents = st.recursive(
    st.sampled_from([None, True, 0, 1, 2, 3, -1, 1.5, "", "a", "abc"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def successors(draw: st.DrawFn, old: Any) -> Any:
    """A schema that has something to do with the old one."""
    other = draw(schemas)
    match draw(st.integers(0, 5)), old:
        case 0, _:
            return other
        case 1, _:
            return {"anyOf": [other, old]}
        case 2, _:
            return {"allOf": [old]}
        case 3, {"properties": known, **rest}:
            return {**rest, "properties": {**known, "b": other}}
        case 4, {"type": kind, **rest}:
            return {**rest, "type": [kind, "null"] if isinstance(kind, str) else kind}
        case _, dict():
            names = sorted(old)
            return {name: old[name] for name in names if draw(st.booleans())}
        case _:
            return old


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_what_is_called_compatible_allows_old_documents(data: st.DataObject):
    old: Any = data.draw(schemas)
    new: Any = data.draw(successors(old))
    if parse(JSON, new).unreadable(parse(JSON, old)):
        return
    before, after = (jsonschema_rs.Draft7Validator(each) for each in (old, new))
    for document in data.draw(st.lists(documents, min_size=5, max_size=20)):
        if before.is_valid(document):
            assert after.is_valid(document), document
