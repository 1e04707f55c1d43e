"""JSON documents as columns, by the types of their JSON Schema."""

import json
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.schemas.json import parse_json
from goqueue.spark.values.errors import NoColumns
from goqueue.spark.values.json import JsonReader
from goqueue.spark.values.json_writing import payloads as write
from goqueue.spark.values.payloads import Read
from tests.unit.spark.values.test_avro import payloads


def read(schema: object, *documents: object) -> Read:
    parsed = parse_json(json.dumps(schema), {})
    values = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents]
    return JsonReader(parsed).read(payloads(values), parsed)


def properties(**each: object) -> dict[str, object]:
    return {"type": "object", "properties": each}


PLAIN = properties(
    a={"type": "integer"},
    b={"type": ["string", "null"]},
    c={"type": "array", "items": {"type": "number"}},
    d=properties(e={"type": "boolean"}),
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(-(2**63), 2**63 - 1),
        "b": st.text(max_size=8) | st.none(),
        "c": st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
        "d": st.fixed_dictionaries({}, optional={"e": st.booleans()}),
        "other": st.integers(),
    },
)


@settings(max_examples=50)
@given(st.lists(DOCUMENTS, max_size=4))
def test_columns_hold_what_the_documents_have(documents: list[dict[str, Any]]):
    found = read(PLAIN, *documents)
    assert not found.bad
    for row, document in zip(found.column.to_pylist(), documents, strict=True):
        inner = document.get("d")
        assert row == {
            "a": document.get("a"),
            "b": document.get("b"),
            "c": document.get("c"),
            "d": None if inner is None else {"e": inner.get("e")},
        }
    parsed = parse_json(json.dumps(PLAIN), {})
    again = JsonReader(parsed).read(payloads(write(found.column).to_pylist()), parsed)
    assert again.column.to_pylist() == found.column.to_pylist()


def test_what_does_not_fit_is_bad_and_nothing_else():
    found = read(PLAIN, {"a": 1}, b"{", {"a": "x"}, b"\xff", {"a": 2})
    assert [row and row["a"] for row in found.column.to_pylist()] == [1, None, None, None, 2]
    assert sorted(found.bad) == [1, 2, 3]
    assert "not JSON" in found.bad[1]
    assert "not UTF-8" in found.bad[3]


def test_maps_and_free_values_are_read_too():
    schema = properties(
        counts={"type": "object", "additionalProperties": {"type": "integer"}},
        free={},
        mixed={"type": ["string", "integer"]},
    )
    found = read(schema, {"counts": {"x": 1}, "free": {"y": [2]}, "mixed": 3}, {"counts": 4})
    assert found.column.type == pa.struct(
        [
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("free", pa.string()),
            ("mixed", pa.string()),
        ]
    )
    assert found.column.to_pylist() == [
        {"counts": [("x", 1)], "free": '{"y":[2]}', "mixed": "3"},
        None,
    ]
    assert found.bad == {1: "4 is no map<string, int64>"}


def test_references_alternatives_and_parts_are_followed():
    schema = {
        "$defs": {"Name": {"type": "string"}},
        "allOf": [properties(base={"type": "integer"})],
        **properties(
            name={"$ref": "#/$defs/Name"},
            maybe={"oneOf": [{"type": "null"}, {"type": "number"}]},
            one={"enum": ["x", "y"]},
        ),
    }
    found = read(schema, {"base": 1, "name": "n", "maybe": 1.5, "one": "x"})
    assert found.column.to_pylist() == [{"name": "n", "maybe": 1.5, "one": "x", "base": 1}]


def test_names_that_spark_does_not_tell_apart_are_refused():
    with pytest.raises(NoColumns, match="upper and lower case"):
        read(properties(a={"type": "string"}, A={"type": "string"}))
