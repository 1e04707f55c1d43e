"""A .proto file as a descriptor, and back."""

import pytest

from goqueue.schemas import SchemaText, SchemaType
from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.protobuf import parse_protobuf

EVERYTHING = """\
syntax = "proto3";

package a.b;

import "google/protobuf/timestamp.proto";

message M {
  reserved 20 to 22;
  reserved "old";
  string s = 1;
  repeated int32 n = 2 [packed = false];
  map<string, .a.b.M.Inner> m = 3;
  optional bool o = 4;
  oneof x {
    .a.b.M.Inner i = 5;
    .a.b.M.E e = 6;
  }
  .google.protobuf.Timestamp t = 7;
  message Inner {
    .a.b.M back = 1;
  }
  enum E {
    Z = 0;
    Y = 1;
  }
}
"""


def test_what_is_printed_is_parsed_to_the_same():
    assert parse_protobuf(EVERYTHING, {}).normalized == EVERYTHING


def test_a_base64_descriptor_is_the_same_schema():
    """As confluent-kafka's serializer registers it."""
    schema = parse_protobuf(EVERYTHING, {})
    assert parse_protobuf(schema.serialized, {}).text == EVERYTHING


def test_comments_options_services_and_relative_names_are_read():
    text = """
        syntax = "proto3"; // a comment
        /* another */ option java_package = "x.y";
        option (my.option) = { a: "}" };
        service S { rpc Do (M) returns (M) { option (x) = 1; } }
        message M { N n = 1 [(my.opt).x = "y"]; message N {} extensions_ e = 0x2; }
        message extensions_ {}
    """
    schema = parse_protobuf(text, {})
    assert ".M.N n = 1;" in schema.normalized
    assert schema.record_name() == "M"
    assert schema.record_name([0, 0]) == "M.N"
    assert schema.record_name([9]) is None


def test_imports_come_from_references():
    other = SchemaText('syntax = "proto3"; message O {}', SchemaType.PROTOBUF)
    text = 'syntax = "proto3"; import "o.proto"; message M { O o = 1; }'
    assert "import" in parse_protobuf(text, {"o.proto": other}).normalized
    with pytest.raises(InvalidSchema, match=r"'o\.proto' is not among the references"):
        parse_protobuf(text, {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("message {", "line 1: a name is expected"),
        ('syntax = "proto3";\n\nmessage M {', "line 3: a name is expected, found 'the end'"),
        ('syntax = "proto4";', "neither proto2 nor proto3"),
        ('edition = "2023";', "editions"),
        ('syntax = "proto3"; message M { Foo f = 1; }', "Foo"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "duplicate"),
        ('syntax = "proto3"; message M { int32 a = 0; }', "outside 1 to"),
        ('syntax = "proto3"; message M { required int32 a = 1; }', "no required"),
        ("message M { int32 a = 1; }", "optional, required or repeated"),
        ('syntax = "proto3"; enum E { A = 1; }', "zero"),
        ("message M { optional group G = 1 {} }", "groups"),
        ("?", "unexpected '\\?'"),
        ("message M {" * 100, "nested deeper than 64"),
        ("abcd", "FileDescriptorProto"),
    ],
)
def test_an_invalid_schema_is_refused_with_the_reason(text: str, problem: str):
    with pytest.raises(InvalidSchema, match=problem):
        parse_protobuf(text, {})
