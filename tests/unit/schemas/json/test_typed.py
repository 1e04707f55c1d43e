"""What a schema's type accepts is valid: the complete validator never says otherwise."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.schemas import SchemaText, SchemaType, parse_schema
from goqueue.schemas.json import JsonSchema
from goqueue.schemas.json.typed import find_type
from goqueue.schemas.json.validation import JsonValidator


def parse(schema: Any) -> JsonSchema:
    found = parse_schema(SchemaText(json.dumps(schema), SchemaType.JSON), {})
    assert isinstance(found, JsonSchema)
    return found


def is_valid(schema: JsonSchema, value: Any) -> bool:
    """By the complete validator."""
    validator = schema.compile()
    assert isinstance(validator, JsonValidator)
    validator._typed = None
    return validator.check(memoryview(json.dumps(value).encode())) is None


def is_accepted(schema: Any, value: Any) -> bool | None:
    """By the type; None without one."""
    parsed = parse(schema)
    typed = find_type(parsed.document, parsed.references)
    if typed is None:
        return None
    try:
        typed.decoder.decode(json.dumps(value))
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "state": {"enum": ["new", "sent"]},
        "note": {"oneOf": [{"type": "null"}, {"type": "string", "maxLength": 3}]},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}, "maxItems": 2},
        "kind": {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
        },
        "tags": {"type": "object", "additionalProperties": {"type": ["string", "boolean"]}},
    },
    "required": ["id"],
    "definitions": {
        "line": {"type": "object", "properties": {"price": {"type": "number"}}},
    },
}


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        ({"id": 1}, True),
        ({"id": 1, "note": None, "lines": [{"price": 1}, {"price": 2.5}]}, True),
        ({"id": 1, "tags": {"a": "x", "b": True}, "state": "sent"}, True),
        ({"id": 0}, False),
        ({}, False),
        ({"id": 1, "note": "long"}, False),
        ({"id": 1, "lines": [{}, {}, {}]}, False),
        ({"id": 1, "state": "lost"}, False),
        ({"id": 1, "tags": {"a": 5}}, False),
        ({"id": 1, "other": [{}, "é"]}, True),
        ({"id": 1, "kind": {"a": 1}}, True),
        ({"id": 1, "kind": {"b": "x"}}, False),  # and valid
        ({"id": 1, "kind": {"b": 1}}, False),
    ],
)
def test_documents_of_a_usual_schema(value: Any, accepted: bool):
    assert is_accepted(ORDER, value) is accepted
    assert is_valid(parse(ORDER), value) is (accepted or value.get("kind") == {"b": "x"})


@pytest.mark.parametrize(
    ("other", "is_fine"),
    [
        (b'"\xc3\xa9"', True),
        (b'"\xff"', False),  # msgspec does not look at text that it skips
        (b'"\\ud800"', False),
        (b"[1,]", False),
        (b"01", False),
        (b"[" * 99 + b"]" * 99, True),
        (b"[" * 100 + b"]" * 100, False),
    ],
)
def test_what_is_not_named_is_json_all_the_same(other: bytes, is_fine: bool):
    for schema in (ORDER, {**ORDER, "minProperties": 1}):  # with a type, and without
        found = parse(schema).compile().check(memoryview(b'{"id": 1, "other": %b}' % other))
        assert (found is None) is is_fine, found


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"type": "string", "pattern": "^a"},
        {"type": "string", "format": "date"},
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}},
        {"type": "array"},
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        {"type": "array", "items": [{"type": "integer"}]},
        {"type": "number", "multipleOf": 2},
        {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        {"anyOf": [{"type": "object"}, {"type": "object"}]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"enum": [1.5]},
        {"enum": [True]},
        {"const": None},
        {"type": "integer", "maximum": 2**60},
        {"type": "object", "properties": {"a": {"type": "null"}}, "dependencies": {"a": ["b"]}},
        {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]},
    ],
)
def test_other_schemas_have_no_type(schema: Any):
    assert is_accepted(schema, None) is None


LIMITS = {
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
GRID: list[Any] = [
    -2,
    -1,
    0,
    1,
    2,
    3,
    -0.5,
    0.5,
    1.5,
    "",
    "a",
    "ab",
    "abc",
    "éé",
    "😀😀",
    None,
    True,
]
GRID += [[0] * count for count in range(4)] + [{str(n): 0 for n in range(k)} for k in range(4)]


@pytest.mark.parametrize(
    ("kind", "keyword"), [(kind, each) for kind, some in LIMITS.items() for each in some]
)
def test_limits_are_the_schemas(kind: str, keyword: str):
    inside = {"array": {"items": {"type": "integer"}}}
    inside["object"] = {"additionalProperties": {"type": "integer"}}
    for bound in (0, 1, 2):
        schema = {"type": kind, keyword: bound, **inside.get(kind, {})}
        for value in GRID:
            assert is_accepted(schema, value) is is_valid(parse(schema), value), (schema, value)


NUMBERS = st.one_of(
    st.integers(-3, 3), st.sampled_from([0.5, 1.0, -0.0, 2**53, 2**53 + 1, 2**64, 10**30, 1e300])
)
TEXTS = st.sampled_from(["", "a", "ab", "é", "😀", "0", "a\u0000"])
LENGTHS = st.integers(0, 2)
NAMES = st.sampled_from(["a", "b", "é", "a b", '"'])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


def optional(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


def scalars() -> st.SearchStrategy[dict[str, Any]]:
    bounds = optional(
        minimum=NUMBERS, maximum=NUMBERS, exclusiveMinimum=NUMBERS, exclusiveMaximum=NUMBERS
    )
    typed = st.sampled_from(["integer", "number", "string", "boolean", "null"])
    several = st.lists(typed, min_size=1, max_size=3, unique=True)
    return st.one_of(
        st.builds(lambda kind, more: {"type": kind, **more}, st.one_of(typed, several), bounds),
        st.builds(
            lambda more: {"type": "string", **more}, optional(minLength=LENGTHS, maxLength=LENGTHS)
        ),
        st.builds(
            lambda values: {"enum": values},
            st.lists(st.one_of(NUMBERS, TEXTS, st.booleans()), min_size=1, unique=True),
        ),
    )


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.dictionaries(NAMES, inner, max_size=3)
    more = optional(
        required=st.lists(NAMES, unique=True, max_size=2),
        additionalProperties=st.one_of(st.booleans(), inner),
        minProperties=LENGTHS,
    )
    return st.one_of(
        st.builds(
            lambda some, rest: {"type": "object", "properties": some, **rest}, properties, more
        ),
        st.builds(lambda rest: {"type": "object", **rest}, more),
        st.builds(
            lambda items, rest: {"type": "array", "items": items, **rest},
            inner,
            optional(minItems=LENGTHS, maxItems=LENGTHS),
        ),
        st.builds(lambda some: {"oneOf": some}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=2)),
    )


@settings(max_examples=300)
@given(schema=st.recursive(scalars(), nested, max_leaves=6), values=st.lists(VALUES, max_size=8))
def test_what_a_type_accepts_is_valid(schema: Any, values: list[Any]):
    parsed = parse(schema)
    typed = find_type(parsed.document, parsed.references)
    if typed is None:
        return
    for value in values:
        try:
            typed.decoder.decode(json.dumps(value))
        except (msgspec.DecodeError, RecursionError):
            continue
        assert is_valid(parsed, value), (schema, value)
