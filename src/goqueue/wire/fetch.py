"""Fetch (API 1), by hand: the records of a response are passed on as they are, never copied.

    request    i32 replica_id (to v14) | i32 max_wait_ms | i32 min_bytes | i32 max_bytes
               | i8 isolation_level | i32 session_id, i32 session_epoch (v7+)
               [ topic | [ i32 partition | i32 current_leader_epoch (v9+) | i64 fetch_offset
                           | i32 last_fetched_epoch (v12+) | i64 log_start_offset (v5+)
                           | i32 partition_max_bytes         0 from a replica: it has no room
                           | tag 1: i64 high_watermark       v18+, from replicas only ] ]
               [ topic | [ i32 partition ] ]     forgotten, v7+
               string rack_id                    v11+
               tag 1: i32 replica_id, i64 replica_epoch     v15+, from replicas only
               tag 1000: i64 fetch_number, i32 interrupted  of ours, from replicas only
    response   i32 throttle_time_ms | i16 error, i32 session_id (v7+)
               [ topic | [ i32 partition | i16 error | i64 high_watermark | i64 last_stable_offset
                           | i64 log_start_offset (v5+)
                           | nullable [ i64 producer_id | i64 first_offset ]     aborted
                           | i32 preferred_read_replica (v11+)
                           | nullable bytes records
                           | tag 0: diverging epoch (i32 epoch, i64 end offset)       v12+
                           | tag 1: current leader (i32 id, i32 epoch)                v12+
                           | tag 1000: i64 gaps_below, i8 beside      of ours, to replicas only ] ]
               tag 0: node endpoints             v16+

Versions 4 to 18; from 12 on flexible.  A topic is a string up to version 12, and its 16-byte id
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
    INT64,
    Buffer,
    check_entries,
    count_of,
    end_of,
    read_array_count,
    read_string,
    read_tag_count,
    read_uuid,
    read_uvarint,
    skip_tagged_fields,
    string,
    tagged_fields,
)

FLEXIBLE_FROM = 12
TOPIC_ID_FROM = 13

_SESSION_FROM = 7
_RACK_FROM = 11
_REPLICA_STATE_FROM = 15
_ENDPOINTS_FROM = 16
_LOG_START_FROM = 5
_WATERMARK_FROM = 18
_REPLICA_STATE_TAG = 1
_WATERMARK_TAG = 1
_FETCH_NUMBER_TAG = 1000  # none of Kafka's
_REPLICA_NEWS_TAG = 1000  # none of Kafka's

_LIMITS: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_REPLICA_STATE: Final = struct.Struct(">iq")
_FETCH_NUMBER: Final = struct.Struct(">qi")
_PARTITION_V4: Final = struct.Struct(">iqi")
_PARTITION_V5: Final = struct.Struct(">iqqi")
_PARTITION_V9: Final = struct.Struct(">iiqqi")
_PARTITION_V12: Final = struct.Struct(">iiqiqi")

_RESULT_V4: Final = struct.Struct(">ihqq")
_RESULT_V5: Final = struct.Struct(">ihqqq")
_RESPONSE_HEAD: Final = struct.Struct(">ihi")
_ABORTED: Final = struct.Struct(">qq")
_REPLICA_NEWS: Final = struct.Struct(">qb")
_DIVERGING_EPOCH: Final = struct.Struct(">iqx")  # ends in an empty block of tagged fields

NO_REPLICA = -1
UNTOLD_WATERMARK: Final = (
    0x7FFF_FFFF_FFFF_FFFF  # Kafka's default: nobody waits to hear of a higher one
)


class FetchPartition(msgspec.Struct, frozen=True, gc=False):
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    high_watermark: int = UNTOLD_WATERMARK  # that a replica knows (KIP-1166)


class FetchTopic(msgspec.Struct, frozen=True, gc=False):
    topic: str | UUID
    partitions: list[FetchPartition]


class ForgottenTopic(msgspec.Struct, frozen=True, gc=False):
    """Partitions to drop from the fetch session."""

    topic: str | UUID
    partitions: list[int]


class FetchRequest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int  # 0 read uncommitted, 1 read committed
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str = ""
    replica_id: int = NO_REPLICA  # below zero: a consumer
    replica_epoch: int = -1
    fetch_number: int = -1  # of a replica: a request that was overtaken has a lower one
    interrupted: int = 0  # a session of the same replica: its fetch need not wait any longer


class AbortedTransaction(msgspec.Struct, frozen=True, gc=False):
    producer_id: int
    first_offset: int


class DivergingEpoch(msgspec.Struct, frozen=True, gc=False):
    """The largest epoch both logs know, and where it ends."""

    epoch: int
    end_offset: int


class FetchPartitionResponse(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = NO_REPLICA
    records: Buffer | list[Buffer] | None = b""  # a list is sent as if it were joined
    diverging_epoch: DivergingEpoch | None = None
    current_leader: LeaderAndEpoch | None = None  # beside a not-leader error: where to go instead
    gaps_below: int = 0  # the leader has compacted up to there
    beside: int = 0  # a bit for each log beside the partition's data that is to be copied, too


class FetchTopicResponse(msgspec.Struct, frozen=True, gc=False):
    topic: str | UUID
    partitions: Sequence[FetchPartitionResponse]


# --- the request ------------------------------------------------------------------------------


def decode_fetch(version: int, body: memoryview) -> FetchRequest:
    """The request; raises `MalformedRequest`.  Bytes after its end are ignored, as Kafka does."""
    try:
        return _decode(version, body)
    except DECODE_ERRORS as error:
        raise MalformedRequest(f"fetch v{version}: {error}") from error


def _decode(version: int, body: memoryview) -> FetchRequest:
    flexible = version >= FLEXIBLE_FROM
    at = 0
    replica_id, replica_epoch, number, interrupted = NO_REPLICA, -1, -1, 0
    if version < _REPLICA_STATE_FROM:
        (replica_id,) = INT32.unpack_from(body, at)
        at += 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(body, at)
    at += _LIMITS.size
    session_id, session_epoch = 0, -1
    if version >= _SESSION_FROM:
        session_id, session_epoch = _SESSION.unpack_from(body, at)
        at += _SESSION.size
    topics, at = _decode_topics(version, body, at)
    forgotten: list[ForgottenTopic] = []
    if version >= _SESSION_FROM:
        forgotten, at = _decode_forgotten(version, body, at)
    rack_id = ""
    if version >= _RACK_FROM:
        rack_id, at = read_string(body, at, flexible=flexible)
    if version >= _REPLICA_STATE_FROM:
        replica_id, replica_epoch, number, interrupted = _decode_replica_state(body, at)
    elif flexible:
        skip_tagged_fields(body, at)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten=forgotten,
        rack_id=rack_id,
        replica_id=replica_id,
        replica_epoch=replica_epoch,
        fetch_number=number,
        interrupted=interrupted,
    )


def _decode_topics(version: int, body: memoryview, at: int) -> tuple[list[FetchTopic], int]:
    flexible = version >= FLEXIBLE_FROM
    layout = _partition_layout(version)
    topic_count, at = read_array_count(body, at, flexible=flexible)
    check_entries(topic_count)
    topics = []
    entries = topic_count
    for _ in range(topic_count):
        topic, at = _decode_topic_key(version, body, at)
        count, at = read_array_count(body, at, flexible=flexible, item_size_min=layout.size)
        entries += count
        check_entries(entries)
        partitions = []
        for _ in range(count):
            fields = layout.unpack_from(body, at)
            at += layout.size
            if not flexible:
                partitions.append(_partition(version, fields))
                continue
            if version < _WATERMARK_FROM or body[at] == 0:
                at = skip_tagged_fields(body, at)
            else:
                watermark, at = _decode_watermark(body, at)
                fields = (*fields, watermark)
            partitions.append(_partition(version, fields))
        if flexible:
            at = skip_tagged_fields(body, at)
        topics.append(FetchTopic(topic, partitions))
    return topics, at


def _partition_layout(version: int) -> struct.Struct:
    if version >= 12:
        return _PARTITION_V12
    if version >= 9:
        return _PARTITION_V9
    return _PARTITION_V5 if version >= _LOG_START_FROM else _PARTITION_V4


def _partition(version: int, fields: tuple[int, ...]) -> FetchPartition:
    if version >= 12:
        return FetchPartition(*fields)
    if version >= 9:
        partition, leader_epoch, offset, log_start, max_bytes = fields
        return FetchPartition(partition, leader_epoch, offset, -1, log_start, max_bytes)
    if version >= _LOG_START_FROM:
        partition, offset, log_start, max_bytes = fields
        return FetchPartition(partition, -1, offset, -1, log_start, max_bytes)
    partition, offset, max_bytes = fields
    return FetchPartition(partition, -1, offset, -1, -1, max_bytes)


def _decode_forgotten(version: int, body: memoryview, at: int) -> tuple[list[ForgottenTopic], int]:
    flexible = version >= FLEXIBLE_FROM
    topic_count, at = read_array_count(body, at, flexible=flexible)
    check_entries(topic_count)
    forgotten = []
    entries = topic_count
    for _ in range(topic_count):
        topic, at = _decode_topic_key(version, body, at)
        count, at = read_array_count(body, at, flexible=flexible, item_size_min=4)
        entries += count
        check_entries(entries)
        partitions = list(struct.unpack_from(f">{count}i", body, at))
        at += 4 * count
        if flexible:
            at = skip_tagged_fields(body, at)
        forgotten.append(ForgottenTopic(topic, partitions))
    return forgotten, at


def _decode_topic_key(version: int, body: memoryview, at: int) -> tuple[str | UUID, int]:
    if version >= TOPIC_ID_FROM:
        return read_uuid(body, at)
    return read_string(body, at, flexible=version >= FLEXIBLE_FROM)


def _decode_watermark(body: memoryview, at: int) -> tuple[int, int]:
    watermark = UNTOLD_WATERMARK
    count, at = read_tag_count(body, at)
    for _ in range(count):
        tag, at = read_uvarint(body, at)
        size, at = read_uvarint(body, at)
        end = end_of(body, at, size)
        if tag == _WATERMARK_TAG:
            (watermark,) = INT64.unpack_from(body[at:end], 0)
        at = end
    return watermark, at


def _decode_replica_state(body: memoryview, at: int) -> tuple[int, int, int, int]:
    replica_id, replica_epoch, number, interrupted = NO_REPLICA, -1, -1, 0
    count, at = read_tag_count(body, at)
    for _ in range(count):
        tag, at = read_uvarint(body, at)
        size, at = read_uvarint(body, at)
        end = end_of(body, at, size)
        if tag == _REPLICA_STATE_TAG:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(body[at:end], 0)
        elif tag == _FETCH_NUMBER_TAG:
            number, interrupted = _FETCH_NUMBER.unpack_from(body[at:end], 0)
        at = end
    return replica_id, replica_epoch, number, interrupted


# --- the response -----------------------------------------------------------------------------


def encode_fetch_response(
    version: int,
    topics: Sequence[FetchTopicResponse],
    *,
    throttle_time_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Buffer]:
    """The body of the response, as buffers to be written one after the other.

    The `records` given are themselves among them.  What an older version cannot say is left out.
    """
    flexible = version >= FLEXIBLE_FROM
    parts: list[Buffer] = []
    pending = bytearray()  # what lies between two partitions' records, gathered into one buffer
    if version >= _SESSION_FROM:
        pending += _RESPONSE_HEAD.pack(throttle_time_ms, error_code, session_id)
    else:
        pending += INT32.pack(throttle_time_ms)
    pending += count_of(len(topics), flexible=flexible)
    for topic in topics:
        pending += _encode_topic_key(version, topic.topic)
        pending += count_of(len(topic.partitions), flexible=flexible)
        for partition in topic.partitions:
            _encode_partition_head(version, partition, pending)
            pending = _encode_records(partition.records, flexible, parts, pending)
            if flexible:
                pending += _encode_partition_tags(partition)
        if flexible:
            pending += b"\x00"
    if flexible:
        pending += _encode_node_endpoints(version, node_endpoints)
    if pending:
        parts.append(pending)
    return parts


def _encode_topic_key(version: int, topic: str | UUID) -> bytes:
    if version >= TOPIC_ID_FROM:
        assert isinstance(topic, UUID), f"fetch v{version} names topics by id, not {topic!r}"
        return topic.bytes
    assert isinstance(topic, str), f"fetch v{version} names topics by name, not {topic!r}"
    return string(topic, flexible=version >= FLEXIBLE_FROM)


def _encode_partition_head(version: int, result: FetchPartitionResponse, out: bytearray) -> None:
    flexible = version >= FLEXIBLE_FROM
    fields = (
        result.partition,
        result.error_code,
        result.high_watermark,
        result.last_stable_offset,
    )
    if version >= _LOG_START_FROM:
        out += _RESULT_V5.pack(*fields, result.log_start_offset)
    else:
        out += _RESULT_V4.pack(*fields)
    aborted = result.aborted_transactions
    out += count_of(-1 if aborted is None else len(aborted), flexible=flexible)
    for transaction in aborted or ():
        out += _ABORTED.pack(transaction.producer_id, transaction.first_offset)
        if flexible:
            out += b"\x00"
    if version >= _RACK_FROM:
        out += INT32.pack(result.preferred_read_replica)


def _encode_records(
    records: Buffer | list[Buffer] | None, flexible: bool, parts: list[Buffer], pending: bytearray
) -> bytearray:
    """Add the records to `parts`, after `pending`; gives the buffer for what comes next."""
    if records is None:
        pending += count_of(-1, flexible=flexible)
        return pending
    buffers = records if isinstance(records, list) else [records]
    size = sum(map(len, buffers))
    pending += count_of(size, flexible=flexible)
    if size == 0:
        return pending
    parts.append(pending)
    parts.extend(buffers)
    return bytearray()


def _encode_partition_tags(result: FetchPartitionResponse) -> bytes:
    has_replica_news = result.beside or result.gaps_below > 0
    if result.diverging_epoch is None and result.current_leader is None and not has_replica_news:
        return b"\x00"
    fields = []
    if result.diverging_epoch is not None:
        diverging = result.diverging_epoch
        fields.append((0, _DIVERGING_EPOCH.pack(diverging.epoch, diverging.end_offset)))
    if result.current_leader is not None:
        fields.append((1, encode_leader(result.current_leader)))
    if has_replica_news:
        news = _REPLICA_NEWS.pack(result.gaps_below, result.beside)
        fields.append((_REPLICA_NEWS_TAG, news))
    return tagged_fields(fields)


def _encode_node_endpoints(version: int, endpoints: Sequence[NodeEndpoint]) -> bytes:
    if version < _ENDPOINTS_FROM or not endpoints:
        return b"\x00"
    return tagged_fields([(0, encode_node_endpoints(endpoints))])
