"""Which Protobuf schemas read each other's messages."""

from typing import Any

import pytest
from google.protobuf import message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.schemas import SchemaType
from goqueue.schemas.protobuf import ProtobufSchema
from tests.unit.schemas.verdicts import check_verdicts, parse, rules

PROTOBUF = SchemaType.PROTOBUF


def proto3(body: str, package: str = "p") -> str:
    return f'syntax = "proto3"; package {package}; {body}'


def proto2(body: str) -> str:
    return f'syntax = "proto2"; {body}'


def message(*fields: str, more: str = "") -> str:
    return proto3(f"message M {{ {' '.join(f'{each};' for each in fields)} {more} }}")


A, B = "string a = 1", "int32 b = 2"
ONE = "oneof o { string a = 1; int32 b = 2; }"

# name, old, new, the new reads the old's messages, the old the new's
PAIRS = [
    ("the same", message(A), message(A), True, True),
    ("field added", message(A), message(A, B), True, True),
    ("field removed", message(A, B), message(A), True, True),
    ("field renamed", message(A), message("string z = 1"), True, True),
    ("fields in another order", message(A, B), message(B, A), True, True),
    ("int32 to int64", message(B), message("int64 b = 2"), True, True),
    ("int32 to bool", message(B), message("bool b = 2"), True, True),
    ("int32 to sint32", message(B), message("sint32 b = 2"), False, False),
    ("int32 to string", message(B), message("string b = 2"), False, False),
    ("string to bytes", message(A), message("bytes a = 1"), True, True),
    ("fixed32 to sfixed32", message("fixed32 a = 1"), message("sfixed32 a = 1"), True, True),
    ("fixed32 to fixed64", message("fixed32 a = 1"), message("fixed64 a = 1"), False, False),
    ("float to double", message("float a = 1"), message("double a = 1"), False, False),
    ("string made repeated", message(A), message("repeated string a = 1"), True, True),
    ("number made repeated", message(B), message("repeated int32 b = 2"), False, False),
    ("optional written out", message(A), message("optional string a = 1"), True, True),
    (
        "enum to int32",
        message("E a = 1", more="enum E { Z = 0; }"),
        message("int32 a = 1", more="enum E { Z = 0; }"),
        True,
        True,
    ),
    (
        "enum value added",
        message("E a = 1", more="enum E { Z = 0; }"),
        message("E a = 1", more="enum E { Z = 0; Y = 1; }"),
        True,
        True,
    ),
    ("message added", message(A), message(A) + "message N {}", True, False),
    ("message removed", message(A) + "message N {}", message(A), False, True),
    (
        "messages in another order",
        proto3("message M {} message N {}"),
        proto3("message N {} message M {}"),
        True,
        True,
    ),
    ("package changed", message(A), proto3("message M { string a = 1; }", "q"), False, False),
    (
        "message to scalar",
        message("N a = 1", more="message N {}"),
        message("string a = 1", more="message N {}"),
        False,
        False,
    ),
    (
        "another message",
        message("N a = 1", more="message N {} message O {}"),
        message("O a = 1", more="message N {} message O {}"),
        False,
        False,
    ),
    (
        "field of a nested message changed",
        message("N a = 1", more="message N { int32 x = 1; }"),
        message("N a = 1", more="message N { string x = 1; }"),
        False,
        False,
    ),
    (
        "map value widened",
        message("map<string, int32> a = 1"),
        message("map<string, int64> a = 1"),
        True,
        True,
    ),
    (
        "map value changed",
        message("map<string, int32> a = 1"),
        message("map<string, string> a = 1"),
        False,
        False,
    ),
    (
        "map to message",
        message("map<string, int32> a = 1"),
        message("N a = 1", more="message N {}"),
        False,
        False,
    ),
    (
        "field moved to a new oneof",
        message(A, B),
        message(B, more="oneof o { string a = 1; }"),
        True,
        True,
    ),
    ("two fields moved to a oneof", message(A, B), message(more=ONE), False, True),
    (
        "field moved to an existing oneof",
        message(A, more="oneof o { int32 b = 2; }"),
        message(more=ONE),
        False,
        True,
    ),
    (
        "field added to a oneof",
        message(more="oneof o { string a = 1; }"),
        message(more=ONE),
        True,
        False,
    ),
    (
        "field removed from a oneof",
        message(more=ONE),
        message(more="oneof o { string a = 1; }"),
        False,
        True,
    ),
    (
        "required added",
        proto2("message M {}"),
        proto2("message M { required int32 a = 1; }"),
        False,
        False,
    ),
    (
        "optional made required",
        proto2("message M { optional int32 a = 1; }"),
        proto2("message M { required int32 a = 1; }"),
        False,
        False,
    ),
    (
        "field moved between oneofs",
        message(more="oneof o { string a = 1; int32 b = 2; } oneof p { int32 c = 3; }"),
        message(more="oneof o { string a = 1; } oneof p { int32 c = 3; int32 b = 2; }"),
        False,
        False,
    ),
    (
        "two oneofs made one",
        message(more="oneof o { string a = 1; } oneof p { int32 b = 2; }"),
        message(more="oneof q { string a = 1; int32 b = 2; }"),
        False,
        True,
    ),
    ("oneof renamed", message(more=ONE), message(more=ONE.replace(" o ", " p ")), True, True),
    (
        "oneof renamed and a field removed",
        message(more=ONE),
        message(more="oneof p { string a = 1; }"),
        False,
        True,
    ),
    ("recursive", message("M a = 1"), message("M a = 1", B), True, True),
]


@pytest.mark.parametrize(
    ("old", "new", "backward", "forward"), [each[1:] for each in PAIRS], ids=[p[0] for p in PAIRS]
)
def test_verdict(old: str, new: str, backward: bool, forward: bool):
    check_verdicts(PROTOBUF, old, new, backward=backward, forward=forward)


def test_a_problem_names_the_path_and_the_rule():
    (found,) = parse(PROTOBUF, message("string b = 2")).unreadable(parse(PROTOBUF, message(B)))
    assert found.rule == "FIELD_SCALAR_KIND_CHANGED"
    assert found.path == "#/M/2"


def test_rules_have_confluents_names():
    assert rules(PROTOBUF, message(A, B), message(more=ONE)) == {"MULTIPLE_FIELDS_MOVED_TO_ONEOF"}
    assert rules(PROTOBUF, message(A), proto3("", "p")) == {"MESSAGE_REMOVED"}


# --- what is called compatible reads old messages -------------------------------------------------

KINDS = ("int32", "int64", "sint32", "bool", "string", "bytes", "double", "fixed32", "M")
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "sint32": st.integers(-(2**31), 2**31 - 1),
    "bool": st.booleans(),
    "string": st.text(max_size=5),
    "bytes": st.text(max_size=5).map(str.encode),  # what was bytes may be read as a string
    "double": st.floats(allow_nan=False),
    "fixed32": st.integers(0, 2**32 - 1),
}


@st.composite
def fields(draw: st.DrawFn) -> dict[int, tuple[str, str]]:
    """By number: label and kind."""
    numbers = draw(st.lists(st.integers(1, 4), unique=True, max_size=4))
    label, kind = st.sampled_from(["", "repeated", "optional"]), st.sampled_from(KINDS)
    return {number: (draw(label), draw(kind)) for number in numbers}


def protobuf(text: str) -> ProtobufSchema:
    found = parse(PROTOBUF, text)
    assert isinstance(found, ProtobufSchema)
    return found


def message_of(known: dict[int, tuple[str, str]]) -> str:
    return message(*(f"{label} {kind} f{n} = {n}" for n, (label, kind) in known.items()))


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_what_is_called_compatible_reads_old_messages(data: st.DataObject):
    old, new = data.draw(fields()), data.draw(fields())
    for number in data.draw(st.sets(st.integers(1, 4))) & old.keys():
        new[number] = old[number]
    before, after = protobuf(message_of(old)), protobuf(message_of(new))
    if after.unreadable(before):
        return
    kinds = [
        message_factory.GetMessageClass(each.file.message_types_by_name["M"])
        for each in (before, after)
    ]
    written = kinds[0]()
    for number, (label, kind) in old.items():
        if kind == "M":
            continue
        value = data.draw(VALUES[kind])
        if label == "repeated":
            getattr(written, f"f{number}").append(value)
        else:
            setattr(written, f"f{number}", value)
    payload = written.SerializeToString()
    assert after.compile(is_framed=False).check(memoryview(payload)) is None
    read = kinds[1].FromString(payload)
    for number in old.keys() & new.keys():
        if old[number] == new[number] and old[number][1] != "M":
            assert getattr(read, f"f{number}") == getattr(written, f"f{number}")
