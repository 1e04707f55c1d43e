"""Columns as Avro payloads, read back by fastavro and by our own reader."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.schemas.avro import parse_avro
from goqueue.spark.values.avro import AvroReader
from goqueue.spark.values.avro_writing import payloads
from goqueue.spark.values.deriving import avro_schema
from goqueue.spark.values.errors import UnwritableRows
from tests.unit.spark.values import avro_examples as examples
from tests.unit.spark.values.test_avro import payloads as given_payloads
from tests.unit.spark.values.test_avro import record


def is_plain(schema: object) -> bool:
    """Unions of several types become structs, which are not written back as unions."""
    text = json.dumps(schema)
    return '"long"]' not in text and '"boolean"]' not in text and '"int", "long"' not in text


@settings(max_examples=40)
@given(st.data())
def test_what_was_read_is_written_as_it_was(draw: st.DataObject):
    schema = draw.draw(examples.schemas().filter(is_plain))
    rows = draw.draw(st.lists(examples.data(schema), max_size=4))
    values = [examples.write(schema, each) for each in rows]
    parsed = parse_avro(json.dumps(schema), {})
    column = AvroReader(parsed).read(given_payloads(values), parsed).column
    written = payloads(column, parsed.type).to_pylist()
    assert [examples.read(each, schema) for each in written] == [
        examples.read(each, schema) for each in values
    ] or [AvroReader(parsed).read(given_payloads(written), parsed).column.to_pylist()] == [
        column.to_pylist()
    ]


def test_a_derived_schema_takes_every_column():
    kind = pa.struct(
        [
            ("id", pa.int64()),
            ("price", pa.decimal128(10, 2)),
            ("at", pa.timestamp("us", "UTC")),
            ("tags", pa.list_(pa.string())),
            ("counts", pa.map_(pa.string(), pa.int32())),
            ("inner", pa.struct([("x", pa.float64()), ("flag", pa.bool_())])),
        ]
    )
    rows = [
        {
            "id": 1,
            "price": Decimal("-12.50"),
            "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
            "tags": ["a", None],
            "counts": [("k", 1), ("n", None)],
            "inner": {"x": 1.5, "flag": True},
        },
        dict.fromkeys(("id", "price", "at", "tags", "counts", "inner")),
        None,
    ]
    schema = parse_avro(avro_schema(kind, "Row").text, {})
    written = payloads(pa.array(rows, kind), schema.type)
    assert written[2].as_py() is None
    found = AvroReader(schema).read(given_payloads(written.to_pylist()[:2]), schema)
    assert found.column.to_pylist() == rows[:2]


def test_columns_that_the_schema_lacks_or_wants_are_named():
    schema = parse_avro(json.dumps(record({"name": "a", "type": "int"})), {})
    with pytest.raises(UnwritableRows, match="no field b in its schema"):
        payloads(pa.array([{"a": 1, "b": 2}]), schema.type)
    with pytest.raises(UnwritableRows, match="/a has no default"):
        payloads(pa.array([{}], pa.struct([])), schema.type)
    with pytest.raises(UnwritableRows, match="/a is null"):
        payloads(pa.array([{"a": None}], pa.struct([("a", pa.int32())])), schema.type)
    with pytest.raises(UnwritableRows, match="/a is string, and cannot be written as int"):
        payloads(pa.array([{"a": "x"}]), schema.type)
    with pytest.raises(UnwritableRows, match="give a struct"):
        payloads(pa.array([1]), schema.type)


def test_a_missing_column_has_the_default_of_the_schema():
    schema = record(
        {"name": "a", "type": "int"},
        {"name": "s", "type": "string", "default": "none"},
        {"name": "n", "type": ["null", "int"], "default": None},
    )
    written = payloads(pa.array([{"a": 1}]), parse_avro(json.dumps(schema), {}).type)
    assert examples.read(written[0].as_py(), schema) == {"a": 1, "s": "none", "n": None}
