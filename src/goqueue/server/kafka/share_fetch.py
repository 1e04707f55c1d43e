"""ShareFetch and ShareAcknowledge: messages of a queue for the members of a share group (KIP-932).

    acquired        leased to the member, for the group's visibility time
    accept (1)      acked
    release (2)     back at once, and no failure; a dead letter after `share.delivery.count.limit`
    reject (3)      a dead letter at once
    renew (4)       leased for the whole visibility time once more
    gap (0)         the client found no record there: done with, if it was leased at all

The acknowledgements of a partition hold all or none: a client is told whether they did, not which.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
from kio.schema.errors import ErrorCode
from kio.schema.share_acknowledge.v2 import response as acknowledged
from kio.schema.share_acknowledge.v2.request import ShareAcknowledgeRequest
from kio.schema.share_acknowledge.v2.response import (
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kio.schema.share_fetch.v2.request import ShareFetchRequest
from kio.schema.share_fetch.v2.response import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

from goqueue.broker import Broker
from goqueue.broker.queues.acknowledgement import Ack, Ending, Extend, Reject, Release
from goqueue.broker.queues.ledgers import Waiting, demand_sync, wait_durable
from goqueue.broker.queues.members import SHARE_DEFAULTS
from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.broker.shares.acquire import Acquired, acquire
from goqueue.broker.shares.sessions import (
    FINAL_EPOCH,
    OPEN_EPOCH,
    InvalidShareSessionEpoch,
    Key,
    ShareSession,
)
from goqueue.cluster import Topic
from goqueue.model.errors import GoQueueError, InvalidRequest, PartitionNotFound
from goqueue.model.ids import GroupId, TopicPartition
from goqueue.model.limits import RECEIVE_MESSAGES_MAX
from goqueue.queue import Where
from goqueue.queue.ranges import join_ranges
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.group_names import named_group
from goqueue.server.kafka.leaders import check_leader, find_leader, leader_endpoints
from goqueue.wire.messages import build, duration, milliseconds
from goqueue.wire.nodes import LeaderAndEpoch

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
BATCH_OPTIMIZED: Final = 0  # acquire mode; the other one, 1, keeps to the limit of records
WAIT_MS_MAX: Final = 300_000
NO_TOPIC: Final = UUID(int=0)
UNKNOWN_LEADER: Final = LeaderAndEpoch(-1, -1)
REASON: Final = "rejected by a share consumer"

Batches = Collection[Any]  # AcknowledgementBatch of either API: they are alike
Settled = list[tuple[Key, list[Waiting]]]
EndpointT = TypeVar("EndpointT")


class Member(msgspec.Struct, frozen=True):
    group_id: GroupId
    member_id: str


class Told(msgspec.Struct):
    """What a member is told of one partition."""

    error: GoQueueError | None = None
    acknowledge_error: GoQueueError | None = None
    acquired: Acquired | None = None


# --- ShareFetch -------------------------------------------------------------------------------


async def handle_share_fetch(context: Context, request: ShareFetchRequest) -> ShareFetchResponse:
    broker = context.broker
    told: dict[Key, Told] = {}
    try:
        member = _member(context, request)
        session = await _fetch_session(context, member, request)
        settled = _acknowledge(context, member, request, told)
        # As soon as this waits for anything: by then the fetch may have written to the same ledger,
        # and one sync is for both; other ledgers sync at the same time.
        asyncio.get_running_loop().call_soon(_demand_sync, settled)
        if request.share_session_epoch == FINAL_EPOCH:
            await broker.queue_members.release(member.group_id, member.member_id)
        else:
            await _fetch(context, member, session, request, told)
        await _be_durable(settled, told)
    except GoQueueError as error:
        return build(ShareFetchResponse, error_code=kafka_code(error), error_message=str(error))
    leaders = _find_leaders(broker, told)
    return build(
        ShareFetchResponse,
        acquisition_lock_timeout=duration(broker.queues.settings(member.group_id).visibility_ms),
        responses=tuple(
            build(
                ShareFetchableTopicResponse,
                topic_id=topic_id,
                partitions=tuple(
                    _partition_data(index, each, leaders.get((topic_id, index), UNKNOWN_LEADER))
                    for index, each in some
                ),
            )
            for topic_id, some in _by_topic(told)
        ),
        node_endpoints=_endpoints(broker, leaders, NodeEndpoint),
    )


def _member(context: Context, request: ShareFetchRequest | ShareAcknowledgeRequest) -> Member:
    context.access.demand_group(Operation.READ, request.group_id or "")
    if not request.member_id:
        raise InvalidRequest("a member of a share group names itself")
    return Member(named_group(request.group_id or ""), request.member_id)


async def _fetch_session(
    context: Context, member: Member, request: ShareFetchRequest
) -> ShareSession:
    """The session the request belongs to, brought up to date."""
    broker, connection = context.broker, context.peer
    named = [key for key, _ in _partitions(request.topics)]
    forgotten = [
        (topic.topic_id or NO_TOPIC, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    sessions = broker.queue_members.sessions
    if request.share_session_epoch == OPEN_EPOCH:
        if any(True for _ in _acknowledgements(request.topics)):
            raise InvalidRequest("a new share session has nothing to acknowledge")
        await broker.queues.begin(member.group_id, (), SHARE_DEFAULTS)
        session = sessions.open(member.group_id, member.member_id, connection)
    else:
        epoch = request.share_session_epoch
        session = sessions.next(member.group_id, member.member_id, epoch, connection)
    session.update(named, forgotten)
    return session


async def _fetch(
    context: Context,
    member: Member,
    session: ShareSession,
    request: ShareFetchRequest,
    told: dict[Key, Told],
) -> None:
    broker = context.broker
    places = _places(context, session, told)
    if not places or request.is_renew_ack or min(request.max_records, request.max_bytes) <= 0:
        return
    # Who has something bad to hear is not kept waiting.
    has_news = any(each.error or each.acknowledge_error for each in told.values())
    wait_ms = 0 if has_news else min(max(milliseconds(request.max_wait), 0), WAIT_MS_MAX)
    wanted = ReceiveRequest(
        list(dict.fromkeys(topic for topic, _ in places)),
        member.group_id,
        member.member_id,
        max_messages=min(request.max_records, RECEIVE_MESSAGES_MAX),
        max_bytes=min(request.max_bytes, broker.config.kafka.fetch_bytes_max),
        places=frozenset(places),
        whole_batches=request.share_acquire_mode == BATCH_OPTIMIZED,
    )
    try:
        found = await acquire(broker, broker.queues.receiver, wanted, wait_ms)
    except GoQueueError as error:  # the acknowledgements hold all the same
        for key in places.values():
            told.setdefault(key, Told()).error = error
        return
    for acquired in found:
        told.setdefault(places[acquired.place], Told()).acquired = acquired


def _places(
    context: Context, session: ShareSession, told: dict[Key, Told]
) -> dict[TopicPartition, Key]:
    """Where the member looks for messages; what is not there, or not for it, is `told`."""
    broker = context.broker
    places: dict[TopicPartition, Key] = {}
    topic: Topic | None = None
    for key in session.partitions:  # most often of one topic
        try:
            if topic is None or topic.topic_id != key[0]:
                topic = broker.topic_by_id(key[0])
            context.access.demand_topic(Operation.READ, topic.name)
            place = _place(topic, key[1])
            check_leader(broker, topic.topic_id, key[1])
            places[place] = key
        except GoQueueError as error:
            told.setdefault(key, Told()).error = error
    return places


def _partition_data(index: int, told: Told, leader: LeaderAndEpoch) -> PartitionData:
    acquired = told.acquired
    return build(
        PartitionData,
        partition_index=index,
        error_code=_code(told.error),
        error_message=_message(told.error),
        acknowledge_error_code=_code(told.acknowledge_error).value,
        acknowledge_error_message=_message(told.acknowledge_error),
        current_leader=build(LeaderIdAndEpoch, **msgspec.structs.asdict(leader)),
        records=acquired.data if acquired else b"",
        acquired_records=tuple(
            build(
                AcquiredRecords,
                first_offset=each.first,
                last_offset=each.last,
                delivery_count=min(each.deliveries, 2**15 - 1),
            )
            for each in (acquired.ranges if acquired else ())
        ),
    )


# --- ShareAcknowledge -------------------------------------------------------------------------


async def handle_share_acknowledge(
    context: Context, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    broker = context.broker
    told: dict[Key, Told] = {}
    try:
        member = _member(context, request)
        epoch = request.share_session_epoch
        if epoch == OPEN_EPOCH:
            raise InvalidShareSessionEpoch("a share session is opened by a fetch")
        broker.queue_members.sessions.next(member.group_id, member.member_id, epoch, context.peer)
        settled = _acknowledge(context, member, request, told)
        if epoch == FINAL_EPOCH:
            await broker.queue_members.release(member.group_id, member.member_id)
        await _be_durable(settled, told)
    except GoQueueError as error:
        return build(
            ShareAcknowledgeResponse, error_code=kafka_code(error), error_message=str(error)
        )
    leaders = _find_leaders(broker, told)
    return build(
        ShareAcknowledgeResponse,
        acquisition_lock_timeout=duration(broker.queues.settings(member.group_id).visibility_ms),
        responses=tuple(
            build(
                ShareAcknowledgeTopicResponse,
                topic_id=topic_id,
                partitions=tuple(
                    _answer_acknowledgement(
                        index, each, leaders.get((topic_id, index), UNKNOWN_LEADER)
                    )
                    for index, each in some
                ),
            )
            for topic_id, some in _by_topic(told)
        ),
        node_endpoints=_endpoints(broker, leaders, acknowledged.NodeEndpoint),
    )


def _answer_acknowledgement(
    index: int, told: Told, leader: LeaderAndEpoch
) -> acknowledged.PartitionData:
    return build(
        acknowledged.PartitionData,
        partition_index=index,
        error_code=_code(told.acknowledge_error),
        error_message=_message(told.acknowledge_error),
        current_leader=build(acknowledged.LeaderIdAndEpoch, **msgspec.structs.asdict(leader)),
    )


# --- acknowledgements, in either request ------------------------------------------------------


def _acknowledge(
    context: Context,
    member: Member,
    request: ShareFetchRequest | ShareAcknowledgeRequest,
    told: dict[Key, Told],
) -> Settled:
    """Let the acknowledgements be; gives what is to be made durable before they are confirmed."""
    broker = context.broker
    settled: Settled = []
    for key, batches in _acknowledgements(request.topics):
        told[key] = Told()
        try:
            topic = broker.topic_by_id(key[0])
            context.access.demand_topic(Operation.READ, topic.name)
            where = Where(member.group_id, *_place(topic, key[1]))
            check_leader(broker, topic.topic_id, key[1])
            endings = list(_endings(broker, where, member, batches))
            waiting = broker.queues.settlement.settle_ranges(
                where, endings, consumer=member.member_id
            )
            settled.append((key, waiting))
        except GoQueueError as error:
            told[key].acknowledge_error = error
    return settled


def _demand_sync(settled: Settled) -> None:
    for _, waiting in settled:
        demand_sync(waiting)


async def _be_durable(settled: Settled, told: dict[Key, Told]) -> None:
    _demand_sync(settled)
    for key, waiting in settled:
        try:
            await wait_durable(waiting)
        except GoQueueError as error:
            told[key].acknowledge_error = error


def _endings(
    broker: Broker, where: Where, member: Member, batches: Batches
) -> Iterator[tuple[int, int, Ending]]:
    """Ranges of one ending each; gaps only where something is leased."""
    visibility_ms = broker.queues.settings(where.group_id).visibility_ms
    deliveries_max = broker.queue_members.deliveries_max(where.group_id)
    behind = 0
    for first, last, kind in _runs(batches):
        if first < behind:
            raise InvalidRequest(f"the acknowledgement of offset {first} is out of order")
        behind = last + 1
        match kind:
            case 0:
                claims = broker.queues.settlement.find_in_flight(
                    where, first, last, member.member_id
                )
                leased = ((claim.first, claim.last) for some in claims.values() for claim in some)
                yield from ((*each, Ack()) for each in join_ranges(leased))
            case 1:
                yield first, last, Ack()
            case 2:
                yield first, last, Release(deliveries_max=deliveries_max)
            case 3:
                yield first, last, Reject(REASON)
            case 4:
                yield first, last, Extend(visibility_ms)
            case _:
                raise InvalidRequest(f"acknowledgement type {kind} is none of {GAP} to {RENEW}")


def _runs(batches: Batches) -> Iterator[tuple[int, int, int]]:
    """First and last offset of what is acknowledged alike."""
    for batch in batches:
        first, last, kinds = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if not 0 <= first <= last or len(kinds) not in (1, last - first + 1):
            raise InvalidRequest(f"{len(kinds)} acknowledgements for offsets {first} to {last}")
        if len(kinds) == 1:
            yield first, last, kinds[0]
            continue
        start = 0
        for place in range(1, len(kinds) + 1):
            if place == len(kinds) or kinds[place] != kinds[start]:
                yield first + start, first + place - 1, kinds[start]
                start = place


# --- helpers ----------------------------------------------------------------------------------


def _partitions(topics: Iterable[Any]) -> Iterator[tuple[Key, Batches]]:
    for topic in topics:
        for partition in topic.partitions:
            key = (topic.topic_id or NO_TOPIC, partition.partition_index)
            yield key, partition.acknowledgement_batches


def _acknowledgements(topics: Iterable[Any]) -> Iterator[tuple[Key, Batches]]:
    return ((key, batches) for key, batches in _partitions(topics) if batches)


def _place(topic: Topic, index: int) -> TopicPartition:
    if not 0 <= index < topic.partitions:
        raise PartitionNotFound(f"{topic.name!r} has {topic.partitions} partitions, not {index}")
    return TopicPartition(topic.name, index)


def _by_topic(told: dict[Key, Told]) -> Iterable[tuple[UUID, list[tuple[int, Told]]]]:
    topics: dict[UUID, list[tuple[int, Told]]] = {}
    for (topic_id, index), each in told.items():
        topics.setdefault(topic_id, []).append((index, each))
    return topics.items()


def _find_leaders(broker: Broker, told: dict[Key, Told]) -> dict[Key, LeaderAndEpoch]:
    """Of partitions that this node does not lead."""
    found = {}
    for key, each in told.items():
        error = each.error or each.acknowledge_error
        leader = None if error is None else find_leader(broker, *key, error)
        if leader is not None:
            found[key] = leader
    return found


def _endpoints(
    broker: Broker, leaders: dict[Key, LeaderAndEpoch], shape: type[EndpointT]
) -> tuple[EndpointT, ...]:
    nodes = leader_endpoints(broker, {each.leader_id for each in leaders.values()})
    return tuple(build(shape, **msgspec.structs.asdict(node)) for node in nodes)


def _code(error: GoQueueError | None) -> ErrorCode:
    return ErrorCode.none if error is None else kafka_code(error)


def _message(error: GoQueueError | None) -> str | None:
    return None if error is None else str(error)
