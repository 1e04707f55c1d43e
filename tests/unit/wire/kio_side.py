"""The other side of the wire, for tests: kio's own reader and writer, and messages to send.

kio reads and writes independently of the code under test; only its classes are shared.
"""

import io
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from goqueue.wire.apis import VERSIONS, ApiKey
from goqueue.wire.codec import FieldSchema, memoize, schema_of

BY_HAND = (ApiKey.PRODUCE, ApiKey.FETCH)
EVERY_VERSION = [
    (api, version)
    for api, versions in VERSIONS.items()
    for version in range(versions.min, versions.max + 1)
    if api not in BY_HAND
]


def label(value: object) -> str | None:
    return value.name.lower() if isinstance(value, ApiKey) else None


def kio_encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def kio_decode(cls: type[Any], raw: bytes) -> Any:
    """The object kio reads; all bytes must be of it."""
    entity, size = entity_reader(cls)(raw, 0)
    assert size == len(raw), f"{len(raw) - size} bytes too many"
    return entity


@memoize
def entities(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Any object of a schema class."""
    fields = {name: _values(field) for name, field in schema_of(cls).items()}
    return st.builds(cls, **fields)


def _values(field: FieldSchema) -> st.SearchStrategy[Any]:
    if field.nested is not None:
        values = entities(field.nested)
    else:
        values = PRIMITIVES[field.kafka_type]
    if field.is_array:
        values = st.lists(values, max_size=2).map(tuple)
    # kio cannot write a null in a tagged field, only leave the field out.
    if field.is_nullable and field.kafka_type != "uuid" and field.tag is None:
        values = st.none() | values
    return values


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "int8": _integers(8),
    "int16": _integers(16),
    "int32": _integers(32),
    "int64": _integers(64),
    "uint8": st.integers(0, 2**8 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "string": st.text(max_size=8) | st.just("x" * 200),  # the long one has a two-byte uvarint
    "bytes": st.binary(max_size=8) | st.just(b"x" * 200),
    "records": st.binary(max_size=8) | st.just(b"x" * 200),
    "uuid": st.none() | st.uuids().filter(lambda value: value != UUID(int=0)),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": _integers(32).map(lambda value: timedelta(milliseconds=value)),
    "timedelta_i64": st.integers(-(2**40), 2**40).map(lambda value: timedelta(milliseconds=value)),
    "datetime_i64": st.integers(0, 2**31).map(lambda value: datetime.fromtimestamp(value, UTC)),
}
