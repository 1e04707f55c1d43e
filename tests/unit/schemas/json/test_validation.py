"""JSON payloads against their schema, within bounds."""

from typing import Any

import pytest

from goqueue.schemas import SchemaText, SchemaType
from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.json import parse_json
from tests.unit.schemas.verdicts import parse

JSON = SchemaType.JSON


def check(schema: Any, payload: bytes) -> str | None:
    found = parse(JSON, schema).compile().check(memoryview(payload))
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("schema", "payload", "problem"),
    [
        ({"type": "object"}, b"{}", None),
        ({"properties": {"a/b": {"type": "integer"}}}, b'{"a/b": "x"}', "/a~1b: "),
        ({"items": {"required": ["k"]}}, b"[{}]", '/0: "k" is a required property'),
        ({"const": 1}, b"2", "/: 1 was expected"),
        ({"uniqueItems": True}, b"[1, 1]", "/: [1,1] has non-unique elements"),
        ({"exclusiveMinimum": 3}, b"3", "/: 3 is less than or equal to the minimum of 3"),
        ({"type": "string"}, b"{", "/: not JSON"),
        ({"type": "string"}, b"\xff", "/: not JSON"),
        ({}, b"[" * 200 + b"]" * 200, "/: nested deeper than 100 levels"),
        ({}, b"[" * 100_000, "/: nested deeper"),
    ],
)
def test_a_payload_is_checked(schema: Any, payload: bytes, problem: str | None):
    found = check(schema, payload)
    assert found == problem if problem is None else str(found).startswith(problem)


def test_drafts_differ():
    tuple_ = {"prefixItems": [{"type": "string"}]}
    assert check(tuple_, b"[1]") is None  # draft 7 does not know the keyword
    newer = {"$schema": "https://json-schema.org/draft/2020-12/schema", **tuple_}
    assert check(newer, b"[1]") is not None
    with pytest.raises(InvalidSchema, match="none of draft-04"):
        parse(JSON, {"$schema": "http://example.com/other"})


def test_references_to_other_subjects():
    other = SchemaText('{"definitions": {"x": {"type": "integer"}}}', JSON)
    schema = parse_json('{"items": {"$ref": "other.json#/definitions/x"}}', {"other.json": other})
    assert schema.compile().check(memoryview(b"[1]")) is None
    assert schema.compile().check(memoryview(b'["x"]')) is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {
            "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
            "$ref": "#/definitions/a",
        },
    ],
)
def test_a_schema_that_is_itself_is_refused(schema: Any):
    with pytest.raises(InvalidSchema, match="refers to itself"):
        parse(JSON, schema)


@pytest.mark.parametrize("reference", ["#/definitions/none", "other.json", "http://127.0.0.1:1/x"])
def test_a_reference_that_leads_nowhere_is_refused(reference: str):
    """Nothing is fetched over the network."""
    with pytest.raises(InvalidSchema, match="leads nowhere"):
        parse(JSON, {"$ref": reference})


def test_an_exponential_pattern_ends():
    problem = check({"type": "string", "pattern": "^(a+)+$"}, b'"' + b"a" * 5_000 + b'b"')
    assert problem is not None
    problem = check({"type": "string", "pattern": "^(?=a)((a+)+)\\1$"}, b'"' + b"a" * 60 + b'b"')
    assert problem is not None


def test_a_schema_with_exponentially_many_looks_ends():
    """A validator that looked everywhere would take years."""
    items = {"type": "array", "items": {"$ref": "#"}}
    schema = {"oneOf": [items, {**items, "maxItems": 9}, {**items, "maxItems": 8}]}
    found = check(schema, b"[" * 60 + b"1" + b"]" * 60)
    assert found == "/: 60 levels of 61 values take too long to validate"
    assert check(schema, b"[[1]]") is not None


def test_a_recursive_schema_without_alternatives_has_no_such_bound():
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "type": "object"}
    assert check(tree, b'{"left":' * 90 + b"{}" + b"}" * 90) is None
