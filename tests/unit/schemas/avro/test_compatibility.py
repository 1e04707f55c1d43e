"""Which Avro schemas read each other's data, and that fastavro's reader agrees."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.schemas import SchemaType
from tests.unit.schemas.verdicts import check_verdicts, parse, rules

AVRO = SchemaType.AVRO


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type_: Any = "string", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F") -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


A, B = field("a"), field("b")
WITH_DEFAULT = field("b", default="x")
OPTIONAL = field("b", ["null", "string"], default=None)
LINKED = record(field("next", ["null", "R"]))

# name, old, new, the new reads the old's data, the old reads the new's
PAIRS = [
    ("the same", record(A), record(A), True, True),
    ("documentation", record(A), record(field("a", doc="text")), True, True),
    ("field with a default added", record(A), record(A, WITH_DEFAULT), True, True),
    ("optional field added", record(A), record(A, OPTIONAL), True, True),
    ("field without a default added", record(A), record(A, B), False, True),
    ("field without a default removed", record(A, B), record(A), True, False),
    ("field with a default removed", record(A, WITH_DEFAULT), record(A), True, True),
    ("fields in another order", record(A, B), record(B, A), True, True),
    ("field renamed", record(A), record(B), False, False),
    ("field renamed with an alias", record(A), record(field("b", aliases=["a"])), True, False),
    ("default added", record(A), record(field("a", default="x")), True, True),
    ("record renamed", record(A), record(A, name="S"), False, False),
    ("record renamed with an alias", record(A), record(A, name="S", aliases=["R"]), True, False),
    ("namespace changed", record(A), record(A, namespace="n"), False, False),
    ("int to long", "int", "long", True, False),
    ("int to float", "int", "float", True, False),
    ("int to double", "int", "double", True, False),
    ("long to float", "long", "float", True, False),
    ("long to double", "long", "double", True, False),
    ("float to double", "float", "double", True, False),
    ("string to bytes", "string", "bytes", True, True),
    ("int to string", "int", "string", False, False),
    ("boolean to int", "boolean", "int", False, False),
    ("null to string", "null", "string", False, False),
    ("int field to long", record(field("a", "int")), record(field("a", "long")), True, False),
    ("long field to int", record(field("a", "long")), record(field("a", "int")), False, True),
    ("field made optional", record(A), record(field("a", ["null", "string"])), True, False),
    ("field made required", record(field("a", ["null", "string"])), record(A), False, True),
    ("branch added", ["null", "int"], ["null", "int", "string"], True, False),
    ("branch removed", ["null", "int", "string"], ["null", "int"], False, True),
    ("branches in another order", ["null", "int"], ["int", "null"], True, True),
    ("branch promoted", ["null", "int"], ["null", "long"], True, False),
    ("type to a union with it", "int", ["null", "int"], True, False),
    ("union to another type", ["null", "int"], "string", False, False),
    ("symbol added", enum("A"), enum("A", "B"), True, False),
    ("symbol removed", enum("A", "B"), enum("A"), False, True),
    ("symbol removed with a default", enum("A", "B"), enum("A", default="A"), True, True),
    ("symbols in another order", enum("A", "B"), enum("B", "A"), True, True),
    ("enum renamed", enum("A"), enum("A", name="G"), False, False),
    ("enum to string", enum("A"), "string", False, False),
    ("fixed of another size", fixed(4), fixed(8), False, False),
    ("fixed renamed", fixed(4), fixed(4, name="G"), False, False),
    ("items promoted", array("int"), array("long"), True, False),
    ("items changed", array("int"), array("string"), False, False),
    ("array to map", array("int"), map_("int"), False, False),
    ("values promoted", map_("float"), map_("double"), True, False),
    ("values changed", map_("int"), map_("boolean"), False, False),
    ("recursive", LINKED, record(field("next", ["null", "R"]), OPTIONAL), True, True),
    (
        "nested record gains a field",
        record(field("in", record(A, name="In"))),
        record(field("in", record(A, B, name="In"))),
        False,
        True,
    ),
    (
        "nested record gains a field with a default",
        record(field("in", array(record(A, name="In")))),
        record(field("in", array(record(A, WITH_DEFAULT, name="In")))),
        True,
        True,
    ),
    (
        "record in a union changes",
        ["null", record(A)],
        ["null", record(A, B)],
        False,
        True,
    ),
    (
        "logical type removed",
        {"type": "int", "logicalType": "date"},
        "int",
        True,
        True,
    ),
]


@pytest.mark.parametrize(
    ("old", "new", "backward", "forward"), [each[1:] for each in PAIRS], ids=[p[0] for p in PAIRS]
)
def test_verdict(old: Any, new: Any, backward: bool, forward: bool):
    check_verdicts(AVRO, old, new, backward=backward, forward=forward)


def test_a_problem_names_the_path_and_the_rule():
    old = record(field("in", record(A, name="In")))
    new = record(field("in", record(A, B, name="In")))
    (found,) = parse(AVRO, new).unreadable(parse(AVRO, old))
    assert found.rule == "READER_FIELD_MISSING_DEFAULT_VALUE"
    assert found.path == "/fields/0/type/fields/1"
    assert "'b'" in found.text


def test_rules_have_avros_names():
    assert rules(AVRO, "int", "string") == {"TYPE_MISMATCH"}
    assert rules(AVRO, fixed(4), fixed(8)) == {"FIXED_SIZE_MISMATCH"}
    assert rules(AVRO, enum("A", "B"), enum("A")) == {"MISSING_ENUM_SYMBOLS"}
    assert rules(AVRO, "string", ["null", "int"]) == {"MISSING_UNION_BRANCH"}
    assert rules(AVRO, record(A), record(A, name="S")) == {"NAME_MISMATCH"}


# --- fastavro agrees ------------------------------------------------------------------------------

PRIMITIVES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=5),
}
types = st.recursive(
    st.sampled_from(sorted(PRIMITIVES)),
    lambda inner: (
        inner.map(array)
        | inner.map(map_)
        | st.sampled_from(["int", "string"]).map(lambda each: ["null", each])
    ),
    max_leaves=4,
)


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from("abc"), unique=True, min_size=1))
    fields = []
    for name in names:
        if draw(st.booleans()):
            fields.append(field(name, draw(types)))
        else:
            fields.append(field(name, "long", default=7))
    return record(*fields)


def values(type_: Any) -> st.SearchStrategy[Any]:
    match type_:
        case str():
            return PRIMITIVES[type_]
        case list():
            return st.one_of([values(each) for each in type_])
        case {"type": "array", "items": items}:
            return st.lists(values(items), max_size=3)
        case {"type": "map", "values": inner}:
            return st.dictionaries(st.text(max_size=3), values(inner), max_size=3)
        case _:
            return st.fixed_dictionaries({f["name"]: values(f["type"]) for f in type_["fields"]})


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_what_is_called_readable_is_read_by_fastavro(data: st.DataObject):
    old, new = data.draw(records()), data.draw(records())
    reader, writer = parse(AVRO, new), parse(AVRO, old)
    datum = data.draw(values(old))
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(old), datum)
    assert writer.compile().check(memoryview(payload.getvalue())) is None
    if not reader.unreadable(writer):
        payload.seek(0)
        schemas = fastavro.parse_schema(old), fastavro.parse_schema(json.loads(json.dumps(new)))
        fastavro.schemaless_reader(payload, *schemas)
