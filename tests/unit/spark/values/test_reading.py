"""Which schema each value names, and rows of several schemas in one column."""

import json

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

import pyarrow as pa

from goqueue.schemas import Schema, SchemaText, SchemaType, parse_schema
from goqueue.spark.values.reading import ValueReader
from goqueue.spark.values.writing import ValueWriter
from tests.unit.spark.values import avro_examples as examples
from tests.unit.spark.values.test_avro import record

FIRST = record({"name": "a", "type": "int"})
SECOND = record({"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "none"})
SCHEMAS: dict[int, Schema] = {
    1: parse_schema(SchemaText(json.dumps(FIRST)), {}),
    2: parse_schema(SchemaText(json.dumps(SECOND)), {}),
    3: parse_schema(SchemaText('{"type": "object"}', SchemaType.JSON), {}),
}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def test_each_value_is_read_by_the_schema_that_it_names():
    one = examples.write(FIRST, {"a": 1})
    two = examples.write(SECOND, {"a": 2, "b": "x"})
    values = [framed(1, one), framed(2, two), None, one, one, two, framed(9, one), framed(3, one)]
    named = {3: ("schema-id", b"1"), 4: ("__value_schema_id", framed(1, b""))}
    lists = [
        [{"key": named[row][0], "value": named[row][1]}] if row in named else None
        for row in range(len(values))
    ]
    reader = ValueReader(SCHEMAS[2], SCHEMAS.get)
    found = reader.read(pa.array(values, pa.binary()), lambda: pa.array(lists, HEADERS))
    old, new = {"a": 1, "b": "none"}, {"a": 2, "b": "x"}
    assert found.column.to_pylist() == [old, new, None, old, old, new, None, None]
    assert found.bad == {
        6: "no schema has the id 9",
        7: "schema 3 is JSON, and values are read as AVRO",
    }


def test_a_header_that_is_no_number_makes_a_bad_value():
    values = pa.array([examples.write(FIRST, {"a": 1})], pa.binary())
    headers = pa.array([[{"key": "schema-id", "value": b"x"}]], HEADERS)
    found = ValueReader(SCHEMAS[1], SCHEMAS.get).read(values, lambda: headers)
    assert found.bad == {0: "the header with the schema's id has no number"}


def test_values_without_a_schema_are_of_the_latest_whichever_is_read_with():
    values = pa.array([examples.write(SECOND, {"a": 2, "b": "x"})], pa.binary())
    wide = parse_schema(SchemaText(json.dumps(record({"name": "a", "type": "long"}))), {})
    reader = ValueReader(wide, SCHEMAS.get, SCHEMAS[2])
    assert reader.read(values).column.to_pylist() == [{"a": 2}]
    assert list(ValueReader(wide, SCHEMAS.get).read(values).bad) == [0]


def test_no_values_are_an_empty_column():
    reader = ValueReader(SCHEMAS[2], SCHEMAS.get)
    assert len(reader.read(pa.array([], pa.binary())).column) == 0


def test_what_is_written_names_its_schema():
    written = ValueWriter(SCHEMAS[2], 2).write(pa.array([{"a": 2}, None]))
    assert written.to_pylist()[0][:5] == b"\0\0\0\0\x02"
    assert written.to_pylist()[1] is None
    found = ValueReader(SCHEMAS[2], SCHEMAS.get).read(written)
    assert found.column.to_pylist() == [{"a": 2, "b": "none"}, None]
