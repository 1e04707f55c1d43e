"""The client's half of the wire: requests to bytes, bytes to responses.

    request    i32 size | i16 api_key | i16 api_version | i32 correlation_id
               | nullable string client_id | [tagged fields, when flexible] | body
    response   i32 size | i32 correlation_id
               | [tagged fields, when flexible; never for ApiVersions] | body

Our client uses one version of each API (`CLIENT_VERSIONS`): the newest that names topics rather
than numbering them, if there is one, so that its classes are kio's of that version and nothing is
moved or matched.
Fetch responses and Produce requests are encoded by hand: records pass through them uncopied.
Bytes that are not what they claim to be raise `MalformedRequest`, as everywhere in `wire`.
"""

import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from goqueue.wire.apis import ApiKey, has_flexible_response_header, is_flexible
from goqueue.wire.codec import FieldSchema, Reader, Writer, entity_reader, entity_writer, schema_of
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.fetch import AbortedTransaction
from goqueue.wire.messages import build, request_class, response_class
from goqueue.wire.primitives import (
    DECODE_ERRORS,
    INT16,
    INT32,
    Buffer,
    count_of,
    nullable_string,
    read_array_count,
    read_count,
    read_nullable_bytes,
    read_string,
    skip_tagged_fields,
    string,
    uvarint,
)

CLIENT_VERSIONS: Final[dict[ApiKey, int]] = {
    ApiKey.PRODUCE: 12,  # the first that adds its partitions to the transaction by itself
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 8,
    ApiKey.METADATA: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.FIND_COORDINATOR: 5,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.DESCRIBE_LOG_DIRS: 4,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.SHARE_FETCH: 2,
    ApiKey.SHARE_ACKNOWLEDGE: 2,
}

_HEADER: Final = struct.Struct(">hhi")
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_PARTITION_HEAD: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_PREFERRED_REPLICA_BYTES: Final = 4
_THROTTLE_BYTES: Final = 4


# --- the envelope -----------------------------------------------------------------------------


def encode_request(
    api_key: ApiKey,
    correlation_id: int,
    client_id: str,
    body: Sequence[Buffer],
    version: int | None = None,
) -> list[Buffer]:
    """A request ready to be written: its size and header, then `body` as it is."""
    version = CLIENT_VERSIONS[api_key] if version is None else version
    head = _HEADER.pack(api_key, version, correlation_id)
    head += nullable_string(client_id, flexible=False)
    if is_flexible(api_key, version):
        head += b"\x00"
    size = len(head) + sum(map(len, body))
    return [INT32.pack(size) + head, *body]


def split_response(
    api_key: ApiKey, frame: memoryview, version: int | None = None
) -> tuple[int, memoryview]:
    """The correlation id and the body of a response; raises `MalformedRequest`."""
    version = CLIENT_VERSIONS[api_key] if version is None else version
    try:
        (correlation_id,) = INT32.unpack_from(frame, 0)
        at = 4
        if has_flexible_response_header(api_key, version):
            at = skip_tagged_fields(frame, at)
    except DECODE_ERRORS as error:
        raise MalformedRequest(f"response header: {error}") from error
    return correlation_id, frame[at:]


# --- most messages ----------------------------------------------------------------------------


def build_request(api_key: ApiKey, /, **fields: Any) -> Any:
    """A request in the version of the client, from plain values, lists and dicts.

    Fields that are not given have the protocol's default.

    >>> build_request(ApiKey.METADATA, topics=[{"name": "orders"}]).topics[0].name
    'orders'
    """
    return entity_of(request_class(api_key, CLIENT_VERSIONS[api_key]), fields)


def entity_of(cls: type[Any], fields: Mapping[str, Any]) -> Any:
    """A message of kio's class from plain values, lists and dicts."""
    schema = schema_of(cls)
    return build(cls, **{name: _value(schema[name], given) for name, given in fields.items()})


def _value(field: FieldSchema, given: Any) -> Any:
    if given is None or not field.is_array:
        return given
    if field.nested is None:
        return tuple(given)
    return tuple(entity_of(field.nested, item) for item in given)


def encode_body(api_key: ApiKey, request: Any) -> list[Buffer]:
    out = bytearray()
    _writer(api_key)(out, request)
    return [out]


def decode_body(api_key: ApiKey, body: memoryview) -> Any:
    """The response, as kio's class of its version; raises `MalformedRequest`."""
    try:
        return _reader(api_key)(bytes(body), 0)[0]
    except DECODE_ERRORS as error:
        name = api_key.name.lower()
        raise MalformedRequest(
            f"response to {name} v{CLIENT_VERSIONS[api_key]}: {error}"
        ) from error


@cache
def _writer(api_key: ApiKey) -> Writer:
    layout = request_class(api_key, CLIENT_VERSIONS[api_key])
    return entity_writer(layout, layout)


@cache
def _reader(api_key: ApiKey) -> Reader:
    layout = response_class(api_key, CLIENT_VERSIONS[api_key])
    return entity_reader(layout, layout)


# --- Produce ----------------------------------------------------------------------------------


class OutgoingBatches(msgspec.Struct, frozen=True, gc=False):
    """Whole record batches for one partition, to be sent as if they were joined."""

    topic: str
    partition: int
    batches: Sequence[Buffer]


def encode_produce(
    transactional_id: str | None, acks: int, timeout_ms: int, outgoing: Sequence[OutgoingBatches]
) -> list[Buffer]:
    """The body of a Produce request; the batches given are among its buffers."""
    by_topic: dict[str, list[OutgoingBatches]] = {}
    for item in outgoing:
        by_topic.setdefault(item.topic, []).append(item)
    parts: list[Buffer] = []
    pending = bytearray(nullable_string(transactional_id, flexible=True))
    pending += _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
    pending += count_of(len(by_topic), flexible=True)
    for topic, items in by_topic.items():
        pending += string(topic, flexible=True)
        pending += count_of(len(items), flexible=True)
        for item in items:
            pending += INT32.pack(item.partition)
            pending += uvarint(sum(map(len, item.batches)) + 1)
            parts.append(pending)
            parts.extend(item.batches)
            pending = bytearray(b"\x00")
        pending += b"\x00"
    pending += b"\x00"
    return [*parts, pending]


# --- Fetch ------------------------------------------------------------------------------------


class FetchedPartition(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One partition of a response; its records are a slice of the frame."""

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]
    records: memoryview


def decode_fetched(body: memoryview) -> tuple[int, list[FetchedPartition]]:
    """The error of the whole fetch and its partitions; raises `MalformedRequest`."""
    try:
        return _decode_fetched(body)
    except DECODE_ERRORS as error:
        raise MalformedRequest(
            f"response to fetch v{CLIENT_VERSIONS[ApiKey.FETCH]}: {error}"
        ) from error


def _decode_fetched(body: memoryview) -> tuple[int, list[FetchedPartition]]:
    at = _THROTTLE_BYTES
    (error_code,) = INT16.unpack_from(body, at)
    at += 6  # the error and the session
    found: list[FetchedPartition] = []
    topic_count, at = read_array_count(body, at, flexible=True)
    for _ in range(topic_count):
        topic, at = read_string(body, at, flexible=True)
        count, at = read_array_count(body, at, flexible=True, item_size_min=_PARTITION_HEAD.size)
        for _ in range(count):
            item, at = _decode_partition(topic, body, at)
            found.append(item)
        at = skip_tagged_fields(body, at)
    return error_code, found


def _decode_partition(topic: str, body: memoryview, at: int) -> tuple[FetchedPartition, int]:
    partition, error_code, high, stable, start = _PARTITION_HEAD.unpack_from(body, at)
    at += _PARTITION_HEAD.size
    count, at = read_count(body, at, flexible=True, item_size_min=_ABORTED.size)
    aborted = []
    for _ in range(count):  # none when it is null
        aborted.append(AbortedTransaction(*_ABORTED.unpack_from(body, at)))
        at = skip_tagged_fields(body, at + _ABORTED.size)
    records, at = read_nullable_bytes(body, at + _PREFERRED_REPLICA_BYTES, flexible=True)
    at = skip_tagged_fields(body, at)
    fetched = FetchedPartition(
        topic=topic,
        partition=partition,
        error_code=error_code,
        high_watermark=high,
        last_stable_offset=stable,
        log_start_offset=start,
        aborted=tuple(aborted),
        records=memoryview(records or b""),
    )
    return fetched, at
