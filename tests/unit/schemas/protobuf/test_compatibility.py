"""Which Protobuf schemas read each other's messages."""

import pytest

from goqueue.schemas import SchemaType
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
