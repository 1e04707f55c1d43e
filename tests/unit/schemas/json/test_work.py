"""How often a schema makes a validator look at one value."""

import json
from typing import Any

import pytest

from goqueue.schemas import SchemaText, SchemaType, parse_schema
from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.json.references import References
from goqueue.schemas.json.work import Looks
from goqueue.schemas.limits import WORK_MAX


def looks(schema: Any, depth: int) -> int:
    return Looks(schema, References(schema, {})).at(depth)


def test_plain_schemas_look_as_often_as_they_have_alternatives():
    assert looks(True, 5) == 1
    assert looks({"type": "string"}, 5) == 1
    assert looks({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 0) == 3
    assert looks({"properties": {"a": {}, "b": {}, "c": {}}}, 1) == 1


def test_alternatives_that_are_recursive_multiply():
    branch = {"items": {"$ref": "#"}}
    assert looks({"oneOf": [branch]}, 50) < 100
    twice = {"oneOf": [branch, dict(branch)]}
    assert looks(twice, 4) > looks(twice, 3) > looks(twice, 2)
    assert looks(twice, 50) == WORK_MAX


def doubling(count: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for index in range(1, count):
        ref = {"$ref": f"#/definitions/d{index - 1}"}
        definitions[f"d{index}"] = {"allOf": [ref, dict(ref)]}
    return {"$ref": f"#/definitions/d{count - 1}", "definitions": definitions}


def test_a_chain_of_definitions_that_doubles_is_refused():
    assert 2**10 < looks(doubling(10), 0) < WORK_MAX
    inside = {"items": doubling(30), "definitions": doubling(30)["definitions"]}
    for schema in (doubling(30), inside):
        with pytest.raises(InvalidSchema, match="1,000,000 subschemas or more for one value"):
            looks(schema, 0)


def test_a_chain_that_is_just_not_refused_ends():
    """The bound is for a value, and a payload with two of them would take more."""
    schema = {"items": doubling(16), "definitions": doubling(16)["definitions"]}
    validator = parse_schema(SchemaText(json.dumps(schema), SchemaType.JSON), {}).compile()
    assert validator.check(memoryview(b'["x"]')) is None
    found = validator.check(memoryview(b"[" + b'"x",' * 9 + b"1]"))
    assert found is not None
    assert "take too long" in found.text
