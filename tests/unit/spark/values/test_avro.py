"""Avro payloads as columns, compared with fastavro."""

import json
import math

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.schemas.avro import parse_avro
from goqueue.spark.values.avro import AvroReader
from goqueue.spark.values.errors import NoColumns
from goqueue.spark.values.payloads import Payloads, Read
from tests.unit.spark.values import avro_examples as examples


def payloads(values: list[bytes]) -> Payloads:
    lengths = np.array([len(each) for each in values], np.int64)
    ends = np.cumsum(lengths)
    return Payloads(b"".join(values) + b"\0", ends - lengths, ends)


def read(values: list[bytes], writer: object, reader: object | None = None) -> Read:
    written = parse_avro(json.dumps(writer), {})
    other = parse_avro(json.dumps(writer if reader is None else reader), {})
    found = AvroReader(other).read(payloads(values), written)
    found.column.validate(full=True)
    return found


def record(*fields: dict[str, object]) -> dict[str, object]:
    return {"type": "record", "name": "R", "fields": list(fields)}


@settings(max_examples=40)
@given(st.data())
def test_columns_hold_what_fastavro_reads(draw: st.DataObject):
    schema = draw.draw(examples.schemas())
    rows = draw.draw(st.lists(examples.data(schema), max_size=5))
    values = [examples.write(schema, each) for each in rows]
    found = read(values, schema)
    assert not found.bad
    wanted = [examples.expected(examples.read(each, schema), schema) for each in values]
    assert found.column.to_pylist() == wanted


@settings(max_examples=40)
@given(st.data())
def test_a_payload_that_is_cut_or_changed_spoils_no_other_row(draw: st.DataObject):
    schema = draw.draw(examples.schemas())
    rows = draw.draw(st.lists(examples.data(schema), min_size=3, max_size=3))
    values = [examples.write(schema, each) for each in rows]
    broken = bytearray(values[1])
    if broken:
        place = draw.draw(st.integers(0, len(broken) - 1))
        broken[place] = draw.draw(st.integers(0, 255))
        broken = broken[: draw.draw(st.integers(place, len(broken)))]
    found = read([values[0], bytes(broken), values[2]], schema)
    assert set(found.bad) <= {1}
    wanted = [examples.expected(examples.read(values[each], schema), schema) for each in (0, 2)]
    good = found.column.to_pylist()
    assert [good[0], good[2]] == wanted
    assert (good[1] is None) == bool(found.bad)


PROMOTIONS = [
    ("int", "long", 7, 7),
    ("int", "float", 7, 7.0),
    ("long", "double", 2**53 + 1, float(2**53 + 1)),
    ("float", "double", 1.5, 1.5),
    ("string", "bytes", "é", "é".encode()),
    ("bytes", "string", b"ok", "ok"),
    ("int", ["null", "long"], 7, 7),
    (["null", "int"], "int", 7, 7),
    (["int", "float"], "double", 1.5, 1.5),
    (["int", "float"], "double", 3, 3.0),
]


@pytest.mark.parametrize(("writer", "reader", "datum", "wanted"), PROMOTIONS)
def test_numbers_and_texts_are_promoted(
    writer: object, reader: object, datum: object, wanted: object
):
    before, after = record({"name": "a", "type": writer}), record({"name": "a", "type": reader})
    value = examples.write(before, {"a": datum})
    assert read([value], before, after).column.to_pylist() == [{"a": wanted}]


DEFAULTS = [
    ("long", 5, 5),
    ("double", 2.5, 2.5),
    ("float", "NaN", math.nan),
    ("boolean", True, True),
    ("string", "é", "é"),
    ("bytes", "\u00ff", b"\xff"),
    (["null", "long"], None, None),
    (["long", "null"], 3, 3),
    (["string", "long"], "x", {"member0": "x", "member1": None}),
    ({"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "Y", "Y"),
    ({"type": "array", "items": "string"}, ["p", "q"], ["p", "q"]),
    ({"type": "map", "values": "long"}, {"k": 1}, [("k", 1)]),
    (
        {"type": "record", "name": "N", "fields": [{"name": "x", "type": "int", "default": 4}]},
        {},
        {"x": 4},
    ),
]


@pytest.mark.parametrize(("kind", "default", "wanted"), DEFAULTS)
def test_a_field_that_was_not_written_has_its_default(
    kind: object, default: object, wanted: object
):
    before = record({"name": "a", "type": "int"})
    after = record({"name": "new", "type": kind, "default": default}, {"name": "a", "type": "int"})
    values = [examples.write(before, {"a": number}) for number in range(3)]
    rows = read(values, before, after).column.to_pylist()
    assert [row["a"] for row in rows] == [0, 1, 2]
    if isinstance(wanted, float) and math.isnan(wanted):
        assert all(math.isnan(row["new"]) for row in rows)
    else:
        assert [row["new"] for row in rows] == [wanted] * 3


def test_fields_that_are_not_wanted_are_skipped_recursive_ones_too():
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [
            {"name": "n", "type": "int"},
            {"name": "below", "type": {"type": "array", "items": "Tree"}},
        ],
    }
    before = record({"name": "tree", "type": tree}, {"name": "a", "type": "int"})
    after = record({"name": "a", "type": "int"})
    datum = {"tree": {"n": 1, "below": [{"n": 2, "below": []}, {"n": 3, "below": []}]}, "a": 9}
    value = examples.write(before, datum)
    assert read([value, value], before, after).column.to_pylist() == [{"a": 9}, {"a": 9}]


def test_a_field_is_found_by_its_alias():
    before = record({"name": "old", "type": "int"})
    after = record({"name": "new", "aliases": ["old"], "type": "int"})
    assert read([examples.write(before, {"old": 1})], before, after).column.to_pylist() == [
        {"new": 1}
    ]


def test_a_symbol_that_the_reader_lacks_is_its_default_or_bad():
    before = record({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X", "Z"]}})
    kind = {"type": "enum", "name": "E", "symbols": ["X", "Y"]}
    values = [examples.write(before, {"e": each}) for each in "XZ"]
    strict = read(values, before, record({"name": "e", "type": kind}))
    assert strict.column.to_pylist() == [{"e": "X"}, None]
    assert strict.bad == {1: "it cannot be read with the reader's schema"}
    lenient = read(values, before, record({"name": "e", "type": {**kind, "default": "Y"}}))
    assert lenient.column.to_pylist() == [{"e": "X"}, {"e": "Y"}]


def test_what_cannot_be_resolved_is_bad_only_where_it_occurs():
    before = record({"name": "a", "type": ["int", "string"]})
    after = record({"name": "a", "type": "int"})
    found = read([examples.write(before, {"a": each}) for each in (1, "x", 2)], before, after)
    assert found.column.to_pylist() == [{"a": 1}, None, {"a": 2}]
    assert list(found.bad) == [1]


def test_bad_rows_say_where_and_why():
    schema = record({"name": "a", "type": "int"}, {"name": "s", "type": "string"})
    good = examples.write(schema, {"a": 1, "s": "x"})
    not_text = b"\x02\x04\xff\xfe"
    found = read([good, good[:-1], good + b"!", not_text, good], schema)
    assert found.column.to_pylist()[0] == found.column.to_pylist()[4] == {"a": 1, "s": "x"}
    assert sorted(found.bad) == [1, 2, 3]
    assert "/s: 1 bytes are expected" in found.bad[1]
    assert "1 bytes are left over" in found.bad[2]
    assert "UTF8" in found.bad[3]


def test_lists_that_say_they_are_huge_end():
    schema = record({"name": "a", "type": {"type": "array", "items": "null"}})
    huge = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"  # 2^63 - 1 items of no bytes
    small = examples.write(schema, {"a": [None, None]})
    found = read([small, small], schema)
    assert found.column.to_pylist() == [{"a": [None, None]}] * 2
    assert list(read([huge[:9] + b"\x7f\x00", small], schema).bad) == [0]


def test_many_items_make_room():
    schema = record(
        {"name": "a", "type": {"type": "array", "items": {"type": "array", "items": "long"}}}
    )
    row = {"a": [list(range(50)), [], list(range(200))]}
    values = [examples.write(schema, row)] * 30
    assert read(values, schema).column.to_pylist() == [row] * 30


def test_a_type_that_contains_itself_has_no_columns():
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "below", "type": {"type": "array", "items": "Tree"}}],
    }
    with pytest.raises(NoColumns, match="Tree contains itself"):
        AvroReader(parse_avro(json.dumps(tree), {}))


def test_a_decimal_of_too_many_digits_is_bad():
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    schema = record({"name": "d", "type": kind})
    values = [examples.write(schema, {"d": number.to_bytes(4, "big")}) for number in (1234, 12345)]
    found = read(values, schema)
    assert [row and str(row["d"]) for row in found.column.to_pylist()] == ["12.34", None]
    assert list(found.bad) == [1]


def test_a_value_need_not_be_a_record():
    found = read([examples.write("string", "x")], "string")
    assert found.column.to_pylist() == ["x"]
    assert found.column.type == pa.string()
