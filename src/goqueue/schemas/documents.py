"""JSON documents of a bounded size, and their two spellings: compact, and canonical."""

from typing import Any

import msgspec

from goqueue.schemas.errors import InvalidSchema
from goqueue.schemas.limits import SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, SCHEMA_NODES_MAX

_canonical = msgspec.json.Encoder(order="deterministic")


def read_document(text: str) -> Any:
    """The value; raises `InvalidSchema` for what is no JSON, or larger than a schema may be."""
    check_size(text)
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidSchema(f"the schema is not JSON: {error}") from error
    _check_bounds(document)
    return document


def check_size(text: str) -> None:
    size = len(text)
    if size > SCHEMA_BYTES_MAX:
        raise InvalidSchema(f"the schema has {size} characters, {SCHEMA_BYTES_MAX} allowed")


def compact(document: Any) -> str:
    """Without white space; properties stay in their order."""
    return msgspec.json.encode(document).decode()


def canonical(document: Any) -> str:
    """The same text for all documents that differ only in the order of properties."""
    return _canonical.encode(document).decode()


def _check_bounds(document: Any) -> None:
    level, nodes, depth = [document], 0, 0
    while level:
        nodes += len(level)
        depth += 1
        if nodes > SCHEMA_NODES_MAX:
            raise InvalidSchema(f"the schema has more than {SCHEMA_NODES_MAX} values")
        if depth > SCHEMA_DEPTH_MAX:
            raise InvalidSchema(f"the schema is nested deeper than {SCHEMA_DEPTH_MAX} levels")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
        level = below
