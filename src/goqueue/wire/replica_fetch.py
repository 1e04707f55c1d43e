"""A replica's half of Fetch: requests to bytes, responses from bytes, in one version.

The layout is in `wire/fetch.py`.  Records of a response are slices of the bytes that arrived.
"""

import struct
from typing import Final
from uuid import UUID

import msgspec

from goqueue.wire.errors import MalformedRequest
from goqueue.wire.fetch import (
    DivergingEpoch,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopicResponse,
)
from goqueue.wire.primitives import (
    DECODE_ERRORS,
    INT32,
    count_of,
    end_of,
    read_array_count,
    read_count,
    read_nullable_bytes,
    read_tag_count,
    read_uuid,
    read_uvarint,
    skip_tagged_fields,
    tagged_fields,
)

VERSION: Final = 18

_LIMITS: Final = struct.Struct(">iiibii")
_PARTITION: Final = struct.Struct(">iiqiqiBBBq")  # ends in one tagged field, the watermark
_REPLICA_STATE: Final = struct.Struct(">iqx")  # ends in an empty block of tagged fields
_FETCH_NUMBER: Final = struct.Struct(">qi")
_REPLICA_STATE_TAG: Final = 1
_FETCH_NUMBER_TAG: Final = 1000
_WATERMARK_TAG: Final = 1
_HEAD: Final = struct.Struct(">ihi")
_RESULT: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qqx")
_DIVERGING_EPOCH: Final = struct.Struct(">iq")
_REPLICA_NEWS: Final = struct.Struct(">qb")
_DIVERGING_EPOCH_TAG: Final = 0
_REPLICA_NEWS_TAG: Final = 1000


class ReplicaFetchResponse(msgspec.Struct, frozen=True, gc=False):
    error_code: int
    session_id: int
    topics: list[FetchTopicResponse]


# --- the request ------------------------------------------------------------------------------


def encode_replica_fetch(request: FetchRequest) -> bytearray:
    """The body of the request."""
    out = bytearray(
        _LIMITS.pack(
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
            request.session_id,
            request.session_epoch,
        )
    )
    out += count_of(len(request.topics), flexible=True)
    for topic in request.topics:
        out += _topic_id(topic.topic)
        out += count_of(len(topic.partitions), flexible=True)
        for partition in topic.partitions:
            out += _encode_partition(partition)
        out += b"\x00"
    out += count_of(len(request.forgotten), flexible=True)
    for forgotten in request.forgotten:
        out += _topic_id(forgotten.topic)
        out += count_of(len(forgotten.partitions), flexible=True)
        for index in forgotten.partitions:
            out += INT32.pack(index)
        out += b"\x00"
    out += count_of(0, flexible=True)  # no rack
    state = _REPLICA_STATE.pack(request.replica_id, request.replica_epoch)
    fields = [(_REPLICA_STATE_TAG, state)]
    if request.fetch_number >= 0:
        number = _FETCH_NUMBER.pack(request.fetch_number, request.interrupted)
        fields.append((_FETCH_NUMBER_TAG, number))
    out += tagged_fields(fields)
    return out


def _topic_id(topic: str | UUID) -> bytes:
    assert isinstance(topic, UUID), f"fetch v{VERSION} names topics by id, not {topic!r}"
    return topic.bytes


def _encode_partition(wanted: FetchPartition) -> bytes:
    return _PARTITION.pack(
        wanted.partition,
        wanted.current_leader_epoch,
        wanted.fetch_offset,
        wanted.last_fetched_epoch,
        wanted.log_start_offset,
        wanted.partition_max_bytes,
        1,
        _WATERMARK_TAG,
        8,
        wanted.high_watermark,
    )


# --- the response -----------------------------------------------------------------------------


def decode_replica_fetch(body: memoryview) -> ReplicaFetchResponse:
    """The response; raises `MalformedRequest`."""
    try:
        return _decode(body)
    except DECODE_ERRORS as error:
        raise MalformedRequest(f"response to a replica's fetch: {error}") from error


def _decode(body: memoryview) -> ReplicaFetchResponse:
    _, error_code, session_id = _HEAD.unpack_from(body, 0)
    topic_count, at = read_array_count(body, _HEAD.size, flexible=True, item_size_min=17)
    topics = []
    for _ in range(topic_count):
        topic, at = read_uuid(body, at)
        count, at = read_array_count(body, at, flexible=True, item_size_min=_RESULT.size)
        partitions = []
        for _ in range(count):
            partition, at = _decode_partition(body, at)
            partitions.append(partition)
        at = skip_tagged_fields(body, at)
        topics.append(FetchTopicResponse(topic, partitions))
    return ReplicaFetchResponse(error_code, session_id, topics)


def _decode_partition(body: memoryview, at: int) -> tuple[FetchPartitionResponse, int]:
    partition, error_code, watermark, stable, start = _RESULT.unpack_from(body, at)
    aborted, at = read_count(body, at + _RESULT.size, flexible=True, item_size_min=_ABORTED.size)
    at += max(0, aborted) * _ABORTED.size + 4  # and the preferred read replica
    records, at = read_nullable_bytes(body, at, flexible=True)
    diverging, gaps_below, beside, at = _decode_tags(body, at)
    result = FetchPartitionResponse(
        partition=partition,
        error_code=error_code,
        high_watermark=watermark,
        last_stable_offset=stable,
        log_start_offset=start,
        records=b"" if records is None else records,
        diverging_epoch=diverging,
        gaps_below=gaps_below,
        beside=beside,
    )
    return result, at


def _decode_tags(body: memoryview, at: int) -> tuple[DivergingEpoch | None, int, int, int]:
    diverging, gaps_below, beside = None, 0, 0
    count, at = read_tag_count(body, at)
    for _ in range(count):
        tag, at = read_uvarint(body, at)
        size, at = read_uvarint(body, at)
        end = end_of(body, at, size)
        if tag == _DIVERGING_EPOCH_TAG:
            diverging = DivergingEpoch(*_DIVERGING_EPOCH.unpack_from(body[at:end], 0))
        elif tag == _REPLICA_NEWS_TAG:
            gaps_below, beside = _REPLICA_NEWS.unpack_from(body[at:end], 0)
        at = end
    return diverging, gaps_below, beside, at
