"""Fetch: the partitions of a request for the broker's `fetch`, and what it gives as a response."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.broker.messages.fetch import FetchedPartition, FetchLimits, PartitionFetch, fetch
from goqueue.broker.messages.follower_reads import FollowerReads
from goqueue.log import AbortedRange
from goqueue.model.batch import Buffer
from goqueue.model.ids import Offset
from goqueue.security import Operation
from goqueue.server.kafka.access import Access
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.fetch_sessions import OPEN_EPOCH, FetchSessions, list_requested
from goqueue.server.kafka.leaders import find_leader, leader_endpoints
from goqueue.server.kafka.tenancy.data import fetch_into, show_fetch
from goqueue.server.kafka.tenancy.limits import NO_LIMITS, ClientLimits
from goqueue.server.kafka.throttling import Throttle
from goqueue.wire.fetch import (
    NO_REPLICA,
    AbortedTransaction,
    DivergingEpoch,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopicResponse,
    decode_fetch,
    encode_fetch_response,
)
from goqueue.wire.frames import RequestHeader
from goqueue.wire.nodes import LeaderAndEpoch

READ_COMMITTED = 1
WAIT_MS_MAX = 300_000


async def handle_fetch(
    broker: Broker,
    access: Access,
    sessions: FetchSessions,
    bytes_max: int,
    header: RequestHeader,
    limits_of_client: ClientLimits = NO_LIMITS,
) -> list[Buffer]:
    version = header.api_version
    request = decode_fetch(version, header.body)
    if request.replica_id >= 0:
        return _refuse_replica(version, request)
    namespace = limits_of_client.namespace
    if namespace is not None:
        request = fetch_into(request, namespace)
    session, error = sessions.resolve(request, namespace.tenant_id if namespace else "")
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
            each.last_fetched_epoch,
        )
        for (topic, index), each in list_requested(request, session)
    )
    reads = FollowerReads(broker, request.rack_id) if request.rack_id else None
    topics: dict[str | UUID, list[FetchPartitionResponse]] = {}
    leaders: set[int] = set()  # that clients are sent to
    check = partial(access.demand_topic, Operation.READ) if access.is_enforced else None
    fetched = await fetch(broker, wanted, limits, reads, check)
    for found in fetched:
        key = found.wanted.topic, found.wanted.index
        is_news = session is None or session.is_news(key, found)
        if is_news or request.session_epoch == OPEN_EPOCH:
            leader = None
            if found.error is not None:
                leader = find_leader(broker, *key, found.error)
            if leader is not None:
                leaders.add(leader.leader_id)
            topics.setdefault(key[0], []).append(_response(found, leader))
    told = [FetchTopicResponse(name, responses) for name, responses in topics.items()]
    return encode_fetch_response(
        version,
        told if namespace is None else show_fetch(told, namespace),
        throttle_time_ms=_charge(limits_of_client.throttle, fetched),
        session_id=session.session_id if session else 0,
        node_endpoints=leader_endpoints(broker, leaders) if leaders else (),
    )


def _charge(throttle: Throttle | None, fetched: Sequence[FetchedPartition]) -> int:
    return 0 if throttle is None else throttle.charge_consume(each.records for each in fetched)


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


def _response(found: FetchedPartition, leader: LeaderAndEpoch | None) -> FetchPartitionResponse:
    error, aborted, diverged = found.error, found.aborted, found.diverged
    return FetchPartitionResponse(
        partition=found.wanted.index,
        error_code=0 if error is None else kafka_code(error).value,
        current_leader=leader,
        high_watermark=found.high_watermark,
        last_stable_offset=found.stable_offset,
        log_start_offset=found.start_offset,
        aborted_transactions=None if aborted is None else list(map(_describe_aborted, aborted)),
        preferred_read_replica=NO_REPLICA if found.read_replica is None else found.read_replica,
        records=found.records,
        diverging_epoch=DivergingEpoch(diverged.epoch, diverged.end_offset) if diverged else None,
    )


def _describe_aborted(transaction: AbortedRange) -> AbortedTransaction:
    return AbortedTransaction(transaction.producer_id, transaction.first_offset)
