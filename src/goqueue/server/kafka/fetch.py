"""Fetch: the partitions of a request for the broker's `fetch`, and what it gives as a response."""

from collections.abc import Iterable
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.broker.messages.fetch import FetchedPartition, FetchLimits, PartitionFetch, fetch
from goqueue.model.batch import Buffer
from goqueue.model.ids import Offset
from goqueue.server.kafka.errors import kafka_code, leader_of
from goqueue.server.kafka.fetch_sessions import FetchSession, FetchSessions, requested
from goqueue.wire.fetch import (
    AbortedTransaction,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopicResponse,
    decode_fetch,
    encode_fetch_response,
)
from goqueue.wire.frames import RequestHeader

READ_COMMITTED = 1
WAIT_MS_MAX = 300_000


async def handle_fetch(
    broker: Broker, sessions: FetchSessions, bytes_max: int, header: RequestHeader
) -> list[Buffer]:
    version = header.api_version
    request = decode_fetch(version, header.body)
    if request.replica_id >= 0:
        return _refuse_replica(version, request)
    session, error = sessions.resolve(request)
    if error is not ErrorCode.none:
        return encode_fetch_response(version, [], error_code=error.value)
    limits = FetchLimits(
        bytes_min=request.min_bytes,
        bytes_max=max(1, min(request.max_bytes, bytes_max)),
        wait_ms=min(request.max_wait_ms, WAIT_MS_MAX),
        committed_only=request.isolation_level == READ_COMMITTED,
    )
    wanted = (
        PartitionFetch(
            topic,
            index,
            Offset(each.fetch_offset),
            each.partition_max_bytes,
            each.current_leader_epoch,
        )
        for (topic, index), each in requested(request, session)
    )
    found: Iterable[FetchedPartition] = await fetch(broker, wanted, limits)
    if session is not None:
        found = _news(session, found, is_full=request.session_epoch == 0)
    return encode_fetch_response(
        version,
        _by_topic(found, committed_only=limits.committed_only),
        session_id=session.session_id if session else 0,
    )


def _refuse_replica(version: int, request: FetchRequest) -> list[Buffer]:
    """Replicas come to the cluster's port, where it is known who asks.

    What one asks for counts as acknowledged: a client that says it is one could lose records.
    """
    code = ErrorCode.cluster_authorization_failed.value
    topics = [
        FetchTopicResponse(
            topic.topic,
            [
                FetchPartitionResponse(partition=each.partition, error_code=code)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return encode_fetch_response(version, topics, error_code=code)


def _news(
    session: FetchSession, found: Iterable[FetchedPartition], *, is_full: bool
) -> list[FetchedPartition]:
    """What the client needs to be told; the session remembers that it is."""
    return [
        each
        for each in found
        if session.is_news((each.wanted.topic, each.wanted.index), each) or is_full
    ]


def _by_topic(
    found: Iterable[FetchedPartition], *, committed_only: bool
) -> list[FetchTopicResponse]:
    topics: dict[str | UUID, list[FetchPartitionResponse]] = {}
    for each in found:
        topics.setdefault(each.wanted.topic, []).append(_response(each, committed_only))
    return [FetchTopicResponse(name, responses) for name, responses in topics.items()]


def _response(found: FetchedPartition, committed_only: bool) -> FetchPartitionResponse:
    if found.error is not None:
        return FetchPartitionResponse(
            partition=found.wanted.index,
            error_code=kafka_code(found.error).value,
            current_leader=leader_of(found.error),
            high_watermark=found.high_watermark,
            log_start_offset=found.start_offset,
        )
    aborted = None
    if committed_only:
        aborted = [
            AbortedTransaction(each.producer_id, each.first_offset) for each in found.aborted
        ]
    return FetchPartitionResponse(
        partition=found.wanted.index,
        high_watermark=found.high_watermark,
        last_stable_offset=found.stable_offset,
        log_start_offset=found.start_offset,
        aborted_transactions=aborted,
        records=found.records,
    )
