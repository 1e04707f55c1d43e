"""Protobuf payloads, with the indexes of their message before them."""

import pytest

from goqueue.schemas.protobuf import parse_protobuf

SCHEMA = """
    syntax = "proto3";
    message First { string s = 1; message Inner { int32 n = 1; } }
    message Second { First f = 1; }
"""


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b"\x00\x0a\x01x", None),
        (b"\x02\x00\x0a\x01x", None),
        (b"\x04\x00\x00\x08\x01", None),  # First.Inner
        (b"\x02\x02\x0a\x03\x0a\x01x", None),  # Second
        (b"\x00\x0a\x05x", "no First"),
        (b"\x00\x0a\x01\xff", "no First"),  # not UTF-8
        (b"\x02\x06", "no message at [3]"),
        (b"", "cut off"),
        (b"\x06\x00", "cut off"),
        (b"\x80", "cut off"),
    ],
)
def test_a_payload_is_checked(payload: bytes, problem: str | None):
    found = parse_protobuf(SCHEMA, {}).compile().check(memoryview(payload))
    assert (found is None) if problem is None else (found is not None and problem in found.text)


def test_a_required_field_must_be_there():
    schema = parse_protobuf("message M { required int32 a = 1; }", {})
    found = schema.compile().check(memoryview(b"\x00"))
    assert found is not None
    assert "required fields of M" in found.text


def test_a_deep_message_ends_at_the_bound():
    schema = parse_protobuf('syntax = "proto3"; message M { M m = 1; }', {})
    payload = b""
    for _ in range(5_000):
        length = len(payload)
        size = bytearray()
        while length > 0x7F:
            size.append(length & 0x7F | 0x80)
            length >>= 7
        size.append(length)
        payload = b"\x0a" + bytes(size) + payload
    assert schema.compile().check(memoryview(b"\x00" + payload)) is not None
