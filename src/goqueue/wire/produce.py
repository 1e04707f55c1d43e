"""Produce (API 0), by hand: the records of a request are slices of its frame, never copied.

    request    nullable string transactional_id | i16 acks | i32 timeout_ms
               [ topic | [ i32 partition | nullable bytes records ] ]
    response   [ topic | [ i32 partition | i16 error | i64 base_offset | i64 log_append_time_ms
                           | i64 log_start_offset                                            v5+
                           | [ i32 batch_index | nullable string message ]                   v8+
                           | nullable string error_message                                   v8+
                           | tag 0: current leader (i32 id, i32 epoch)                       v10+
                         ] ]
               i32 throttle_time_ms
               tag 0: [ i32 node | string host | i32 port | nullable string rack ]           v10+

Versions 3 to 13; from 9 on flexible.  A topic is a string up to version 12, and its 16-byte id
from 13 on: in this module that is a `str` or a `UUID`, and an answer repeats what the request
said.
"""

import struct
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from goqueue.wire.errors import MalformedRequest
from goqueue.wire.nodes import LeaderAndEpoch, NodeEndpoint, encode_leader, encode_node_endpoints
from goqueue.wire.primitives import (
    DECODE_ERRORS,
    INT32,
    check_entries,
    count_of,
    nullable_string,
    read_array_count,
    read_nullable_bytes,
    read_nullable_string,
    read_string,
    read_uuid,
    skip_tagged_fields,
    string,
    tagged_fields,
)

FLEXIBLE_FROM = 9
TOPIC_ID_FROM = 13

_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_RESULT_V3: Final = struct.Struct(">ihqq")
_RESULT_V5: Final = struct.Struct(">ihqqq")
_PARTITION_BYTES_MIN = 5
_LOG_START_FROM = 5
_RECORD_ERRORS_FROM = 8
_LEADER_FROM = 10


class ProducePartition(msgspec.Struct, frozen=True, gc=False):
    index: int
    records: memoryview | None  # writable if the frame is; null and empty are not the same


class ProduceTopic(msgspec.Struct, frozen=True, gc=False):
    topic: str | UUID
    partitions: list[ProducePartition]


class ProduceRequest(msgspec.Struct, frozen=True, gc=False):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class RecordError(msgspec.Struct, frozen=True, gc=False):
    """Why one record of a batch was refused."""

    batch_index: int
    message: str | None = None


class ProducePartitionResponse(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1  # -1 when the records keep the times their producer gave them
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    current_leader: LeaderAndEpoch | None = None  # beside a not-leader error: where to go instead


class ProduceTopicResponse(msgspec.Struct, frozen=True, gc=False):
    topic: str | UUID
    partitions: Sequence[ProducePartitionResponse]


# --- the request ------------------------------------------------------------------------------


def decode_produce(version: int, body: memoryview) -> ProduceRequest:
    """The request; raises `MalformedRequest`.  Bytes after its end are ignored, as Kafka does."""
    try:
        return _decode(version, body)
    except DECODE_ERRORS as error:
        raise MalformedRequest(f"produce v{version}: {error}") from error


def _decode(version: int, body: memoryview) -> ProduceRequest:
    flexible = version >= FLEXIBLE_FROM
    transactional_id, at = read_nullable_string(body, 0, flexible=flexible)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(body, at)
    at += _ACKS_AND_TIMEOUT.size
    count, at = read_array_count(body, at, flexible=flexible)
    entries = count
    check_entries(entries)
    topics = []
    for _ in range(count):
        topic, at = _decode_topic(version, body, at, entries)
        entries += len(topic.partitions)
        topics.append(topic)
    if flexible:
        skip_tagged_fields(body, at)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _decode_topic(
    version: int, body: memoryview, at: int, entries: int
) -> tuple[ProduceTopic, int]:
    flexible = version >= FLEXIBLE_FROM
    topic: str | UUID
    if version >= TOPIC_ID_FROM:
        topic, at = read_uuid(body, at)
    else:
        topic, at = read_string(body, at, flexible=flexible)
    count, at = read_array_count(body, at, flexible=flexible, item_size_min=_PARTITION_BYTES_MIN)
    check_entries(entries + count)
    partitions = []
    for _ in range(count):
        (index,) = INT32.unpack_from(body, at)
        records, at = read_nullable_bytes(body, at + 4, flexible=flexible)
        if flexible:
            at = skip_tagged_fields(body, at)
        partitions.append(ProducePartition(index, records))  # type: ignore[arg-type]  # a slice of body
    if flexible:
        at = skip_tagged_fields(body, at)
    return ProduceTopic(topic, partitions), at


# --- the response -----------------------------------------------------------------------------


def encode_produce_response(
    version: int,
    topics: Sequence[ProduceTopicResponse],
    *,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The body of the response; what an older version cannot say is left out."""
    flexible = version >= FLEXIBLE_FROM
    out = [count_of(len(topics), flexible=flexible)]
    for topic in topics:
        out.append(_encode_topic_key(version, topic.topic))
        out.append(count_of(len(topic.partitions), flexible=flexible))
        for partition in topic.partitions:
            _encode_partition(version, partition, out)
        if flexible:
            out.append(b"\x00")
    out.append(INT32.pack(throttle_time_ms))
    if flexible:
        out.append(_encode_node_endpoints(version, node_endpoints))
    return b"".join(out)


def _encode_topic_key(version: int, topic: str | UUID) -> bytes:
    if version >= TOPIC_ID_FROM:
        assert isinstance(topic, UUID), f"produce v{version} names topics by id, not {topic!r}"
        return topic.bytes
    assert isinstance(topic, str), f"produce v{version} names topics by name, not {topic!r}"
    return string(topic, flexible=version >= FLEXIBLE_FROM)


def _encode_partition(version: int, result: ProducePartitionResponse, out: list[bytes]) -> None:
    if version < _LOG_START_FROM:
        out.append(
            _RESULT_V3.pack(
                result.index, result.error_code, result.base_offset, result.log_append_time_ms
            )
        )
        return
    out.append(
        _RESULT_V5.pack(
            result.index,
            result.error_code,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
        )
    )
    if version < _RECORD_ERRORS_FROM:
        return
    flexible = version >= FLEXIBLE_FROM
    out.append(count_of(len(result.record_errors), flexible=flexible))
    for record_error in result.record_errors:
        out.append(INT32.pack(record_error.batch_index))
        out.append(nullable_string(record_error.message, flexible=flexible))
        if flexible:
            out.append(b"\x00")
    out.append(nullable_string(result.error_message, flexible=flexible))
    if not flexible:
        return
    if version >= _LEADER_FROM and result.current_leader is not None:
        out.append(tagged_fields([(0, encode_leader(result.current_leader))]))
    else:
        out.append(b"\x00")


def _encode_node_endpoints(version: int, endpoints: Sequence[NodeEndpoint]) -> bytes:
    if version < _LEADER_FROM or not endpoints:
        return b"\x00"
    return tagged_fields([(0, encode_node_endpoints(endpoints))])
