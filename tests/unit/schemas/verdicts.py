"""Pairs of schemas, and whether the new one reads old data and the old one new data."""

import json
from typing import Any

from goqueue.schemas import Level, Schema, SchemaText, SchemaType, find_incompatibilities
from goqueue.schemas.parsing import parse_schema


def parse(schema_type: SchemaType, schema: Any, references: dict[str, Any] | None = None) -> Schema:
    def text(each: Any) -> SchemaText:
        return SchemaText(each if isinstance(each, str) else json.dumps(each), schema_type)

    resolved = {name: text(each) for name, each in (references or {}).items()}
    return parse_schema(text(schema), resolved)


def check_verdicts(
    schema_type: SchemaType, old: Any, new: Any, *, backward: bool, forward: bool
) -> None:
    """In every level."""
    former, latter = parse(schema_type, old), parse(schema_type, new)
    expected = {
        Level.NONE: True,
        Level.BACKWARD: backward,
        Level.FORWARD: forward,
        Level.FULL: backward and forward,
    }
    for level, is_compatible in expected.items():
        found = find_incompatibilities(latter, former, level)
        assert (not found) == is_compatible, (level, found)


def rules(schema_type: SchemaType, old: Any, new: Any) -> set[str]:
    """That the new schema breaks as a reader of old data."""
    return {each.rule for each in parse(schema_type, new).unreadable(parse(schema_type, old))}
