"""How often a schema makes a validator look at one value."""

from typing import Any

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


def test_a_chain_of_definitions_that_doubles_is_seen():
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for index in range(1, 30):
        ref = {"$ref": f"#/definitions/d{index - 1}"}
        definitions[f"d{index}"] = {"allOf": [ref, dict(ref)]}
    assert looks({"$ref": "#/definitions/d29", "definitions": definitions}, 0) == WORK_MAX
