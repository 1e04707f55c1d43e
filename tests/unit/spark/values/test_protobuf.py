"""Protobuf messages as columns, compared with what Protobuf itself reads."""

import pytest

pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from google.protobuf import message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.schemas.protobuf import parse_protobuf
from goqueue.schemas.protobuf.validation import find_message
from goqueue.spark.values.errors import NoColumns, UnwritableRows
from goqueue.spark.values.protobuf import ProtobufReader
from goqueue.spark.values.protobuf_writing import payloads as write
from tests.unit.spark.values.test_avro import payloads

FILE = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  optional string note = 2;
  repeated int32 sizes = 3;
  map<string, Part> parts = 4;
  Kind kind = 5;
  google.protobuf.Timestamp at = 6;
  uint64 large = 7;
  oneof way { string car = 8; bool walk = 9; }
  Part main = 10;
}
message Part { double weight = 1; bytes data = 2; }
enum Kind { NONE = 0; SOME = 1; }
"""
SCHEMA = parse_protobuf(FILE, {})
MESSAGE: Any = find_message(SCHEMA.file, ())
ORDER: Any = message_factory.GetMessageClass(MESSAGE)


@st.composite
def orders(draw: st.DrawFn) -> Any:
    order = ORDER(id=draw(st.integers(-(2**63), 2**63 - 1)), large=draw(st.integers(0, 2**64 - 1)))
    if draw(st.booleans()):
        order.note = draw(st.text(max_size=5))
    order.sizes.extend(draw(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3)))
    for name in draw(st.sets(st.text(max_size=3), max_size=2)):
        order.parts[name].weight = draw(st.floats(allow_nan=False))
    order.kind = draw(st.sampled_from((0, 1, 7)))
    if draw(st.booleans()):
        order.at.FromMicroseconds(draw(st.integers(-(10**15), 10**16)))
    if draw(st.booleans()):
        order.walk = draw(st.booleans())
    if draw(st.booleans()):
        order.main.data = draw(st.binary(max_size=4))
    return order


def expected(order: Any) -> dict[str, Any]:
    return {
        "id": order.id,
        "note": order.note if order.HasField("note") else None,
        "sizes": list(order.sizes),
        "parts": {name: _part(each) for name, each in order.parts.items()},
        "kind": {0: "NONE", 1: "SOME"}.get(order.kind, str(order.kind)),
        "at": order.at.ToDatetime(UTC) if order.HasField("at") else None,
        "large": Decimal(order.large),
        "car": order.car if order.HasField("car") else None,
        "walk": order.walk if order.HasField("walk") else None,
        "main": _part(order.main) if order.HasField("main") else None,
    }


def _part(part: Any) -> dict[str, Any]:
    return {"weight": part.weight, "data": part.data}


def read(*values: bytes) -> Any:
    return ProtobufReader(SCHEMA).read(payloads(list(values)), SCHEMA)


@settings(max_examples=50)
@given(st.lists(orders(), max_size=3))
def test_columns_hold_what_protobuf_reads(found: list[Any]):
    column = read(*(b"\0" + each.SerializeToString() for each in found)).column
    column.validate(full=True)
    rows = [{**row, "parts": dict(row["parts"])} for row in column.to_pylist()]
    assert rows == [expected(each) for each in found]


def test_what_is_no_message_is_bad_and_nothing_else():
    good = b"\0" + ORDER(id=1).SerializeToString()
    found = read(good, b"\0\xff", b"\x02\x02" + good[1:], b"", good)
    assert [row and row["id"] for row in found.column.to_pylist()] == [1, None, None, None, 1]
    assert sorted(found.bad) == [1, 2, 3]
    assert found.bad[2] == "message Part and not Order"
    assert "cut off" in found.bad[3]


def test_a_required_field_that_is_missing_is_bad_and_nothing_else():
    text = """syntax = "proto2";
    message Box { optional Lid lid = 1; } message Lid { required int32 size = 1; }"""
    schema = parse_protobuf(text, {})
    column, bad = ProtobufReader(schema).read(
        payloads([b"\0\x0a\x02\x08\x05", b"\0\x0a\x00", b"\0"]), schema
    )
    assert column.to_pylist() == [{"lid": {"size": 5}}, None, {"lid": None}]
    assert list(bad) == [1]
    assert "required" in bad[1]


def test_a_message_that_is_not_the_first_is_read_by_its_name():
    wrapped = FILE.replace("message Order", "message Before { int32 x = 1; } message Order")
    order = ORDER(id=5, note="x").SerializeToString()
    found = ProtobufReader(SCHEMA).read(
        payloads([b"\x02\x02" + order, b"\0" + order]), parse_protobuf(wrapped, {})
    )
    assert [row and row["id"] for row in found.column.to_pylist()] == [5, None]
    assert found.bad == {1: "message Before and not Order"}


def test_columns_are_written_as_messages():
    order = ORDER(id=5, note="x", kind=1, sizes=[1, 2])
    order.at.FromDatetime(datetime(2026, 1, 2, tzinfo=UTC))
    order.main.data = b"\xff"
    column = read(b"\0" + order.SerializeToString()).column
    (written,) = write(column, SCHEMA).to_pylist()
    assert written[:1] == b"\0"
    assert ORDER.FromString(written[1:]) == order


def test_columns_that_the_message_lacks_are_named():
    import pyarrow as pa

    with pytest.raises(UnwritableRows, match="no field named"):
        write(pa.array([{"id": 1, "other": 2}]), SCHEMA)


def test_a_message_that_contains_itself_has_no_columns():
    tree = parse_protobuf('syntax = "proto3"; message Tree { repeated Tree below = 1; }', {})
    with pytest.raises(NoColumns, match="Tree contains itself"):
        ProtobufReader(tree)
