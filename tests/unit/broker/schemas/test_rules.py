"""Which schema a key or a value names."""

import pytest

from goqueue.broker.schemas.rules import Named, Rule, read_named, rules_of
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from goqueue.schemas.errors import SchemaViolation

VALUE = Rule("value", True, "topic")
KEY = Rule("key", True, "topic")
FRAMED = b"\0\0\0\0\x07payload"
GUID = bytes(range(16))


def test_a_topic_has_a_rule_for_each_part_that_it_validates():
    assert rules_of(topic_settings({})) == []
    settings = {
        "goqueue.schema.validation": "id",
        "goqueue.schema.key.validation": "full",
        "goqueue.schema.key.subject": "record",
    }
    assert rules_of(topic_settings(settings)) == [
        Rule("key", True, "record"),
        Rule("value", False, "topic"),
    ]
    assert KEY.subject_of_topic("t") == "t-key"


def named(value: bytes, *headers: tuple[str, bytes | None], rule: Rule = VALUE) -> Named:
    record = Record(0, 0, value, value, headers)
    found = read_named(record, rule)
    assert isinstance(found, Named)
    return found


def test_the_wire_format_names_an_id_and_so_do_headers():
    found = named(FRAMED)
    assert (found.schema_id, bytes(found.payload), found.is_framed) == (7, b"payload", True)
    found = named(b"{}", ("schema-id", b"12"))
    assert (found.schema_id, bytes(found.payload), found.is_framed) == (12, b"{}", False)
    assert named(b"{}", ("schema-id", b"12"), rule=KEY).schema_id is None
    assert named(FRAMED, ("schema-id", b"12")).schema_id == 7
    assert named(b"\0\0\0").schema_id is None


def test_confluents_headers_come_first_and_may_hold_indexes():
    found = named(FRAMED, ("__value_schema_id", b"\1" + GUID))
    assert (found.guid, bytes(found.payload), found.is_framed) == (GUID.hex(), FRAMED, False)
    found = named(b"x", ("__value_schema_id", b"\1" + GUID + b"\2\4"))
    assert (bytes(found.payload), found.is_framed) == (b"\2\4x", True)
    assert named(b"x", ("__key_schema_id", b"\0\0\0\0\5"), rule=KEY).schema_id == 5
    assert named(FRAMED, ("__key_schema_id", b"\0\0\0\0\5")).schema_id == 7


@pytest.mark.parametrize(
    "header",
    [
        ("schema-id", b"x"),
        ("schema-id", None),
        ("schema-id", b"9" * 11),
        ("__value_schema_id", b""),
        ("__value_schema_id", b"\1" + GUID[1:]),
        ("__value_schema_id", None),
    ],
)
def test_a_header_that_names_nothing_is_told(header: tuple[str, bytes | None]):
    assert isinstance(read_named(Record(0, 0, None, b"{}", (header,)), VALUE), SchemaViolation)
