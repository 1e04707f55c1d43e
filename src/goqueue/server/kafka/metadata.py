"""Metadata, DescribeTopicPartitions, DescribeCluster: what there is, and where."""

from collections.abc import Container, Iterable
from typing import Any, Final
from uuid import UUID

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from goqueue.broker import Broker
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import NO_LEADER, PartitionState, Topic
from goqueue.cluster.health import offline_replicas
from goqueue.model.errors import GoQueueError, Overloaded, TopicIdNotFound, TopicNotFound
from goqueue.model.ids import NodeId
from goqueue.security import CLUSTER_NAME, Operation, ResourceType
from goqueue.server.kafka.access import Access
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.limits import in_turns
from goqueue.server.kafka.nodes import NodesAndAddresses, ids_of, reachable_nodes
from goqueue.wire.messages import build

PARTITIONS_DESCRIBED_MAX: Final = 2000
TOPICS_CREATED_MAX: Final = 100  # by one Metadata request; clients ask again for the others
ENDPOINT_BROKERS: Final = 1


async def handle_metadata(context: Context, request: MetadataRequest) -> MetadataResponse:
    broker, access = context.broker, context.access
    nodes = reachable_nodes(context)
    tells = request.include_topic_authorized_operations
    parts = _Parts(broker, nodes, access, tells_operations=tells)
    if request.topics is None:
        topics = [
            _describe(broker, topic, parts)
            async for topic in in_turns(broker.topics())
            if access.allows_topic(Operation.DESCRIBE, topic.name)
        ]
    else:
        creation = _Creation(is_allowed=request.allow_auto_topic_creation)
        topics = [
            await _answer_topic(context, asked, creation, parts)
            async for asked in in_turns(dict.fromkeys(request.topics))
        ]
    return build(
        MetadataResponse,
        brokers=tuple(
            build(
                MetadataResponseBroker,
                node_id=node.node_id,
                host=address.host,
                port=address.port,
                rack=node.rack or None,
            )
            for node, address in nodes
        ),
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,  # which hands on what another node must decide
        topics=tuple(topics),
    )


async def _answer_topic(
    context: Context, asked: MetadataRequestTopic, creation: "_Creation", parts: "_Parts"
) -> MetadataResponseTopic:
    try:
        return _describe(context.broker, await _topic(context, asked, creation), parts)
    except GoQueueError as error:
        return build(
            MetadataResponseTopic,
            error_code=(
                ErrorCode.leader_not_available
                if isinstance(error, _CreatedEnough)
                else kafka_code(error)
            ),
            name=asked.name if asked.name is not None else None,
            topic_id=asked.topic_id,
        )


class _CreatedEnough(Overloaded):
    """The client is told that there is no leader yet, and asks again."""


class _Creation:
    """How many missing topics one request may have made."""

    def __init__(self, *, is_allowed: bool) -> None:
        self._left = TOPICS_CREATED_MAX if is_allowed else 0
        self._is_allowed = is_allowed

    def take(self, name: str) -> None:
        """One more; raises when it may not be."""
        if not self._is_allowed:
            raise TopicNotFound(f"there is no topic {name!r}")
        if self._left == 0:
            raise _CreatedEnough(f"one request creates at most {TOPICS_CREATED_MAX} topics")
        self._left -= 1


async def _topic(context: Context, asked: MetadataRequestTopic, creation: _Creation) -> Topic:
    """Which the client may see: else it does not learn whether there is one."""
    broker, access = context.broker, context.access
    if asked.name is None:
        topic_id = asked.topic_id or UUID(int=0)
        topic = broker.topic_by_id(topic_id)
        if not access.allows_topic(Operation.DESCRIBE, topic.name):
            raise TopicIdNotFound(f"there is no topic with id {topic_id}")
        return topic
    access.demand_topic(Operation.DESCRIBE, asked.name)
    found = broker.metadata.find(asked.name)
    if found is not None:
        return found
    creation.take(asked.name)
    access.demand_creation(asked.name)
    return await broker.ensure_topic(asked.name)


def _describe(broker: Broker, topic: Topic, parts: "_Parts") -> MetadataResponseTopic:
    states = broker.metadata.partitions.of(topic.topic_id)
    return build(
        MetadataResponseTopic,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(parts.part(topic, *each) for each in enumerate(states)),
        topic_authorized_operations=parts.operations(topic),
    )


class _Parts:
    """What one answer says of partitions: those of most topics are in the same places."""

    def __init__(
        self,
        broker: Broker,
        reachable: NodesAndAddresses,
        access: Access,
        *,
        tells_operations: bool,
    ) -> None:
        self._access = access
        self._tells_operations = tells_operations
        self._nodes = broker.metadata.nodes
        self._reachable = leading_ids(broker, reachable)
        self._partitions = broker.partitions
        self._made: dict[tuple[int, int, PartitionState], MetadataResponsePartition] = {}

    def operations(self, topic: Topic) -> int:
        """What the client may do to it."""
        asked = self._tells_operations
        return self._access.operations(ResourceType.TOPIC, topic.name, asked=asked)

    def part(self, topic: Topic, index: int, state: PartitionState) -> MetadataResponsePartition:
        key = index, leader_epoch(self._partitions, topic, index, state), state
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._make(*key)
        return found

    def _make(self, index: int, epoch: int, state: PartitionState) -> MetadataResponsePartition:
        return build(
            MetadataResponsePartition,
            **describe_leader(state, self._reachable),
            partition_index=index,
            leader_epoch=epoch,
            replica_nodes=state.replicas,
            isr_nodes=state.isr,
            offline_replicas=offline_replicas(state, self._nodes),
        )


def leader_epoch(partitions: Partitions, topic: Topic, index: int, state: PartitionState) -> int:
    """A log may have a newer one, if the metadata was lost and made again."""
    return max(state.leader_epoch, partitions.leader_epoch(topic, index))


def leading_ids(broker: Broker, nodes: NodesAndAddresses) -> frozenset[NodeId]:
    """The nodes that a client is told to be leaders.

    Not one whose connection has just broken off.  If it is dead, the next leader is known in some
    hundred milliseconds.  A client that hears of no leader asks again until then, while one that
    hears of the dead one waits for it: librdkafka a second.
    """
    peers = broker.cluster.peers
    return frozenset(each for each in ids_of(nodes) if not peers.is_suspect(each))


def describe_leader(state: PartitionState, reachable: Container[NodeId]) -> dict[str, Any]:
    """A client is never told of a leader without being told where that is."""
    if state.leader in reachable:
        return {"error_code": ErrorCode.none, "leader_id": state.leader}
    return {"error_code": ErrorCode.leader_not_available, "leader_id": NO_LEADER}


# --- DescribeTopicPartitions ------------------------------------------------------------------


async def handle_describe_topic_partitions(
    context: Context, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """A page of partitions, by topic name, and a cursor to the next page."""
    broker, access = context.broker, context.access
    names = sorted({str(topic.name) for topic in request.topics})
    if not names:
        names = [
            topic.name
            for topic in broker.topics()
            if access.allows_topic(Operation.DESCRIBE, topic.name)
        ]
    first_index = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        first_index = max(0, request.cursor.partition_index)
    room = max(1, min(request.response_partition_limit, PARTITIONS_DESCRIBED_MAX))
    return _page(context, names, first_index, room, request)


def _page(
    context: Context,
    names: Iterable[str],
    first_index: int,
    room: int,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse:
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    broker = context.broker
    reachable = leading_ids(broker, reachable_nodes(context))
    for name in names:
        resumes = request.cursor is not None and name == request.cursor.topic_name
        start = first_index if resumes else 0
        topic = broker.metadata.find(name)
        if room == 0:
            cursor = build(Cursor, topic_name=name, partition_index=start)
            return build(DescribeTopicPartitionsResponse, topics=tuple(topics), next_cursor=cursor)
        is_visible = context.access.allows_topic(Operation.DESCRIBE, name)
        if topic is None or not is_visible:
            topics.append(_refuse_part(name, is_visible=is_visible))
            continue
        end = min(topic.partitions, start + room)
        room -= max(0, end - start)
        topics.append(_describe_part(context, topic, range(start, end), reachable))
        if end < topic.partitions:
            cursor = build(Cursor, topic_name=name, partition_index=end)
            return build(DescribeTopicPartitionsResponse, topics=tuple(topics), next_cursor=cursor)
    return build(DescribeTopicPartitionsResponse, topics=tuple(topics))


def _refuse_part(name: str, *, is_visible: bool) -> DescribeTopicPartitionsResponseTopic:
    missing, hidden = ErrorCode.unknown_topic_or_partition, ErrorCode.topic_authorization_failed
    code = missing if is_visible else hidden
    return build(DescribeTopicPartitionsResponseTopic, error_code=code, name=name)


def _describe_part(
    context: Context, topic: Topic, indexes: range, reachable: Container[NodeId]
) -> DescribeTopicPartitionsResponseTopic:
    broker = context.broker
    states, nodes = broker.metadata.partitions.of(topic.topic_id), broker.metadata.nodes
    return build(
        DescribeTopicPartitionsResponseTopic,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            build(
                DescribeTopicPartitionsResponsePartition,
                **describe_leader(state, reachable),
                partition_index=index,
                leader_epoch=leader_epoch(broker.partitions, topic, index, state),
                replica_nodes=state.replicas,
                isr_nodes=state.isr,
                eligible_leader_replicas=state.elr,  # Java's client stumbles over null
                last_known_elr=state.last_known_elr,
                offline_replicas=offline_replicas(state, nodes),
            )
            for index in indexes
            for state in (states[index],)
        ),
        topic_authorized_operations=context.access.operations(ResourceType.TOPIC, topic.name),
    )


# --- DescribeCluster --------------------------------------------------------------------------


async def handle_describe_cluster(
    context: Context, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != ENDPOINT_BROKERS:
        return build(
            DescribeClusterResponse,
            error_code=ErrorCode.mismatched_endpoint_type,
            error_message="this listener serves brokers' clients, not controllers'",
        )
    return build(
        DescribeClusterResponse,
        cluster_id=context.broker.cluster_id,
        controller_id=context.broker.node_id,
        brokers=tuple(
            build(
                DescribeClusterBroker,
                broker_id=node.node_id,
                host=address.host,
                port=address.port,
                rack=node.rack or None,
                is_fenced=not node.is_live,
            )
            for node, address in reachable_nodes(context, fenced=request.include_fenced_brokers)
        ),
        cluster_authorized_operations=context.access.operations(
            ResourceType.CLUSTER,
            CLUSTER_NAME,
            asked=request.include_cluster_authorized_operations,
        ),
    )
