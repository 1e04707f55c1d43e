"""Avro payloads: hostile ones end with a problem, not with the process."""

from typing import Any

import pytest

from goqueue.schemas import SchemaType
from tests.unit.schemas.verdicts import parse

LINKED = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}


@pytest.mark.parametrize(
    ("schema", "payload", "problem"),
    [
        ("int", b"\x02", None),
        ("int", b"", "/: a number is cut off"),
        ("int", b"\x02\x00", "/: 1 bytes are left over"),
        ("int", b"\xff\xff\xff\xff\x7f", "/: -17179869184 is outside -2147483648 to 2147483647"),
        ("long", b"\xff" * 20, "/: a number is too long"),
        ("boolean", b"\x02", "/: a boolean is 0 or 1"),
        ("string", b"\x04\xff\xfe", "/: a string that is not UTF-8"),
        ("string", b"\x7f", "/: -64 is outside 0 to 9223372036854775807"),
        ("bytes", b"\x08ab", "/: 4 bytes are expected, and 2 are left"),
        (["null", "int"], b"\x04", "/: 2 is outside 0 to 1"),
        ({"type": "array", "items": "int"}, b"\x02\x02\x00", None),
        ({"type": "array", "items": "int"}, b"\x01\x02\x02\x00", None),
        ({"type": "map", "values": "null"}, b"\x02\x02k\x00", None),
        (LINKED, b"\x02\x02\x00", None),
    ],
)
def test_a_payload_is_checked(schema: Any, payload: bytes, problem: str | None):
    found = parse(SchemaType.AVRO, schema).compile().check(memoryview(payload))
    assert (None if found is None else str(found)) == problem


def test_a_problem_names_the_field():
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": LINKED}]}
    found = parse(SchemaType.AVRO, schema).compile().check(memoryview(b"\x02\x06"))
    assert found is not None
    assert found.path == "/a/next/next"


def test_a_deep_list_ends_at_the_bound():
    """fastavro's reader ends the process with a segmentation fault."""
    found = parse(SchemaType.AVRO, LINKED).compile().check(memoryview(b"\x02" * 500_000))
    assert found is not None
    assert "nested deeper than 100 levels" in found.text


def test_an_array_of_nothing_ends_at_the_bound():
    schema = {"type": "array", "items": "null"}
    payload = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00"
    found = parse(SchemaType.AVRO, schema).compile().check(memoryview(payload))
    assert found is not None
    assert "more than 20200 values in 10 bytes" in found.text
