"""What is an Avro schema, and what is none."""

from typing import Any

import pytest

from goqueue.schemas import SchemaText, SchemaType
from goqueue.schemas.avro import parse_avro
from goqueue.schemas.errors import InvalidSchema
from tests.unit.schemas.verdicts import parse

AVRO = SchemaType.AVRO
FIELD = {"name": "a", "type": "int"}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("zz", "unknown type 'zz'"),
        ({"type": "record", "name": "R"}, "'fields' is missing"),
        ({"type": "record", "fields": []}, "'name' is missing"),
        ({"type": "record", "name": "R", "fields": 3}, "fields is a list"),
        ({"type": "record", "name": "1R", "fields": []}, "no Avro name"),
        ({"type": "record", "name": "int", "fields": []}, "primitive"),
        ({"type": "record", "name": "R", "fields": [FIELD, FIELD]}, "two fields are named 'a'"),
        (
            {"type": "record", "name": "R", "fields": [{**FIELD, "default": "x"}]},
            "the default of 'a' is no int",
        ),
        ({"type": "enum", "name": "E", "symbols": ["a", "a"]}, "unique"),
        ({"type": "enum", "name": "E", "symbols": ["a"], "default": "b"}, "none of the symbols"),
        ({"type": "fixed", "name": "F", "size": -1}, "size"),
        (["int", "int"], "two branches"),
        (["int", ["null"]], "immediately"),
        ([], "at least one branch"),
        ({"type": "array"}, "'items' is missing"),
        (5, "no Avro type"),
        ("{", "not JSON"),
        ("", "empty"),
    ],
)
def test_an_invalid_schema_is_refused_with_the_reason(schema: Any, problem: str):
    with pytest.raises(InvalidSchema, match=problem):
        parse(AVRO, schema)


def test_bounds_are_checked_before_anything_is_parsed():
    deep: Any = "int"
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    with pytest.raises(InvalidSchema, match="nested deeper than 64"):
        parse(AVRO, deep)
    with pytest.raises(InvalidSchema, match="characters"):
        parse(AVRO, '"' + "x" * 600_000 + '"')
    with pytest.raises(InvalidSchema, match="more than 20000 values"):
        parse(AVRO, ["int"] * 30_000)


def test_names_come_from_references():
    other = SchemaText('{"type":"record","name":"a.Other","fields":[]}')
    schema = parse_avro('{"type":"array","items":"a.Other"}', {"a.Other": other})
    assert schema.text == '{"type":"array","items":"a.Other"}'
    with pytest.raises(InvalidSchema, match="is a reference missing"):
        parse_avro('{"type":"array","items":"a.Other"}', {})


def test_spelling_does_not_change_what_is_normalized():
    one = parse(AVRO, '{"type": "record", "name": "R", "fields": []}')
    other = parse(AVRO, '{"name":"R","type":"record","fields":[]}')
    assert one.text != other.text
    assert one.normalized == other.normalized
    assert one.record_name() == "R"
