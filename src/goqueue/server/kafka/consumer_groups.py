"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups whose coordinator divides (KIP-848)."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from kio.schema.consumer_group_describe.v1 import response as described
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

from goqueue.broker import Broker
from goqueue.groups import GroupDescription, HeartbeatRequest, MemberDescription, PartitionSet
from goqueue.groups.errors import GroupNotFound
from goqueue.model.errors import GoQueueError, TopicAccessDenied, TopicIdNotFound
from goqueue.model.ids import GroupId, TopicId, TopicIdPartition, TopicName
from goqueue.security import Operation, ResourceType
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.coordinators import coordinated_group
from goqueue.server.kafka.errors import coordinator_code
from goqueue.server.kafka.group_names import client_host, client_id
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build, duration, milliseconds

MEMBERS_NAME_THEMSELVES_FROM: Final = 1
JOIN_EPOCH: Final = 0
MEMBER_TYPE: Final = {"classic": 0, "consumer": 1}
NO_TOPIC: Final = TopicId(UUID(int=0))


async def handle_consumer_group_heartbeat(
    context: Context, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    try:
        response = await context.broker.groups.consumer_heartbeat(
            _heartbeat_request(context, request)
        )
    except GoQueueError as error:
        return build(
            ConsumerGroupHeartbeatResponse,
            error_code=coordinator_code(error),
            error_message=str(error),
        )
    return build(
        ConsumerGroupHeartbeatResponse,
        member_id=response.member_id,
        member_epoch=response.member_epoch,
        heartbeat_interval=duration(response.heartbeat_interval_ms),
        assignment=None if response.assigned is None else _assignment(context, response.assigned),
    )


def _heartbeat_request(
    context: Context, request: ConsumerGroupHeartbeatRequest
) -> HeartbeatRequest:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    group_id = coordinated_group(context, request.group_id, Operation.READ)
    for name in names or ():
        context.access.demand_topic(Operation.DESCRIBE, name)
    return HeartbeatRequest(
        group_id=group_id,
        member_id=request.member_id or _new_member_id(context, request),
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=client_id(context),
        client_host=client_host(context),
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        subscribed_names=None if names is None else tuple(map(TopicName, names)),
        subscribed_regex=request.subscribed_topic_regex,
        viewer=context.access.viewer if request.subscribed_topic_regex else None,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else frozenset(
            TopicIdPartition(TopicId(topic.topic_id) if topic.topic_id else NO_TOPIC, partition)
            for topic in owned
            for partition in topic.partitions
        ),
    )


def _new_member_id(context: Context, request: ConsumerGroupHeartbeatRequest) -> str:
    """In version 0 the coordinator names who joins without an id; later ones name themselves."""
    joins = request.member_epoch == JOIN_EPOCH
    if not joins or context.header.api_version >= MEMBERS_NAME_THEMSELVES_FROM:
        return ""
    return context.broker.groups.new_member_id(client_id(context))


def _assignment(context: Context, partitions: PartitionSet) -> Assignment:
    """Without topics that a regular expression matched and the member may not see."""
    return build(
        Assignment,
        topic_partitions=tuple(
            build(TopicPartitions, topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in _by_topic(partitions)
            if not context.access.is_enforced or _may_see(context, topic_id)
        ),
    )


def _may_see(context: Context, topic_id: TopicId) -> bool:
    name = _topic_name(context.broker, topic_id)
    return name is not None and context.access.allows_topic(Operation.DESCRIBE, name)


def _by_topic(partitions: PartitionSet) -> Iterable[tuple[TopicId, tuple[int, ...]]]:
    topics: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return ((topic_id, tuple(partitions)) for topic_id, partitions in topics.items())


# --- ConsumerGroupDescribe --------------------------------------------------------------------


async def handle_consumer_group_describe(
    context: Context, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    asked = request.include_authorized_operations
    names = dict.fromkeys(request.group_ids)
    try:
        async with context.broker.groups.barrier_of(*map(GroupId, names)):
            groups = [_describe(context, name, asked=asked) async for name in in_turns(names)]
    except GoQueueError as error:
        groups = [_refuse(name, error) for name in names]
    return build(ConsumerGroupDescribeResponse, groups=tuple(groups))


def _describe(context: Context, name: str, *, asked: bool) -> DescribedGroup:
    broker = context.broker
    try:
        group = _consumer_group(broker, coordinated_group(context, name, Operation.DESCRIBE))
        if context.access.is_enforced:
            _check_topics(context, group)
    except GoQueueError as error:
        return _refuse(name, error)
    return build(
        DescribedGroup,
        group_id=name,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.protocol,
        members=tuple(_describe_member(broker, member) for member in group.members),
        authorized_operations=context.access.operations(ResourceType.GROUP, name, asked=asked),
    )


def _check_topics(context: Context, group: GroupDescription) -> None:
    """Who may not see all topics of a group does not see its members, as in Kafka."""
    names = {name for each in group.members for name in each.subscribed_names}
    for each in group.members:
        ids = {topic_id for topic_id, _ in each.assigned | each.target}
        names |= {name for topic_id in ids if (name := _topic_name(context.broker, topic_id))}
    for name in names:
        if not context.access.allows_topic(Operation.DESCRIBE, name):
            raise TopicAccessDenied("the group has a topic that the caller may not describe")


def _refuse(name: str, error: GoQueueError) -> DescribedGroup:
    return build(
        DescribedGroup,
        error_code=coordinator_code(error),
        error_message=str(error),
        group_id=name,
    )


def _consumer_group(broker: Broker, group_id: GroupId) -> GroupDescription:
    """A classic one is not found here; clients then ask for it by DescribeGroups."""
    group = broker.groups.describe_ahead(group_id)
    if group.group_type != "consumer":
        raise GroupNotFound(f"group {group_id!r} is not a consumer group")
    return group


def _describe_member(broker: Broker, member: MemberDescription) -> described.Member:
    return build(
        described.Member,
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_names,
        subscribed_topic_regex=member.subscribed_regex,
        assignment=_describe_assignment(broker, member.assigned),
        target_assignment=_describe_assignment(broker, member.target),
        member_type=MEMBER_TYPE[member.member_type],
    )


def _describe_assignment(broker: Broker, partitions: PartitionSet) -> described.Assignment:
    """By name too; a topic deleted since has none, and is left out."""
    named = (
        (_topic_name(broker, topic_id), topic_id, some) for topic_id, some in _by_topic(partitions)
    )
    return build(
        described.Assignment,
        topic_partitions=tuple(
            build(
                described.TopicPartitions,
                topic_id=topic_id,
                topic_name=name,
                partitions=partitions,
            )
            for name, topic_id, partitions in named
            if name is not None
        ),
    )


def _topic_name(broker: Broker, topic_id: TopicId) -> TopicName | None:
    try:
        return broker.topic_by_id(topic_id).name
    except TopicIdNotFound:
        return None
