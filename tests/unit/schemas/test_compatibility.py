"""Levels."""

import pytest

from goqueue.schemas import Level, SchemaText, SchemaType, find_incompatibilities, read_level
from goqueue.schemas.errors import InvalidCompatibility
from goqueue.schemas.parsing import parse_schema


def test_a_level_is_read_in_any_case():
    assert read_level("full_transitive") is Level.FULL_TRANSITIVE
    with pytest.raises(InvalidCompatibility, match="BACKWARD"):
        read_level("whatever")


def test_another_format_is_incompatible():
    avro = parse_schema(SchemaText('"string"'), {})
    json = parse_schema(SchemaText('{"type":"string"}', SchemaType.JSON), {})
    (found,) = find_incompatibilities(json, avro, Level.FORWARD)
    assert found.rule == "SCHEMA_TYPE_CHANGED"
    assert not find_incompatibilities(json, avro, Level.NONE)
