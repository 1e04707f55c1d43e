"""ShareGroupHeartbeat and ShareGroupDescribe: members of share groups (KIP-932)."""

from collections.abc import Iterable
from typing import Final

from kio.schema.share_group_describe.v1 import response as described
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.share_group_describe.v1.response import DescribedGroup, ShareGroupDescribeResponse
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.schema.share_group_heartbeat.v1.response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

from goqueue.broker import Broker
from goqueue.broker.queues.admin import Worker
from goqueue.groups import Assignment as Assigned
from goqueue.groups import ShareHeartbeatRequest
from goqueue.model.errors import GoQueueError, TopicAccessDenied, TopicIdNotFound
from goqueue.model.ids import GroupId, TopicId, TopicName
from goqueue.security import Operation, ResourceType
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.coordinators import coordinated_group
from goqueue.server.kafka.errors import coordinator_code
from goqueue.server.kafka.group_names import client_host, client_id
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build, duration

ASSIGNOR: Final = "simple"


async def handle_share_group_heartbeat(
    context: Context, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    names = request.subscribed_topic_names
    try:
        group_id = coordinated_group(context, request.group_id, Operation.READ)
        for name in names or ():
            context.access.demand_topic(Operation.DESCRIBE, name)
        response = await context.broker.queue_members.share_heartbeat(
            ShareHeartbeatRequest(
                group_id=group_id,
                member_id=request.member_id,
                member_epoch=request.member_epoch,
                rack_id=request.rack_id,
                client_id=client_id(context),
                client_host=client_host(context),
                subscribed_names=None if names is None else tuple(map(TopicName, names)),
            )
        )
    except GoQueueError as error:
        return build(
            ShareGroupHeartbeatResponse,
            error_code=coordinator_code(error),
            error_message=str(error),
        )
    return build(
        ShareGroupHeartbeatResponse,
        member_id=response.member_id,
        member_epoch=response.member_epoch,
        heartbeat_interval=duration(response.heartbeat_interval_ms),
        assignment=None if response.assigned is None else _assignment(response.assigned),
    )


def _assignment(assigned: Assigned) -> Assignment:
    topics = tuple(
        build(TopicPartitions, topic_id=topic_id, partitions=tuple(range(count)))
        for topic_id, count in assigned.items()
    )
    return build(Assignment, topic_partitions=topics)


# --- ShareGroupDescribe -----------------------------------------------------------------------


async def handle_share_group_describe(
    context: Context, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    asked = request.include_authorized_operations
    names = dict.fromkeys(request.group_ids)
    try:
        async with context.broker.queue_groups.barrier_of(*map(GroupId, names)):
            groups = [_describe(context, name, asked=asked) async for name in in_turns(names)]
    except GoQueueError as error:
        groups = [_refuse(name, error) for name in names]
    return build(ShareGroupDescribeResponse, groups=tuple(groups))


def _describe(context: Context, name: str, *, asked: bool) -> DescribedGroup:
    broker = context.broker
    try:
        group_id = coordinated_group(context, name, Operation.DESCRIBE)
        group = broker.queue_groups.describe_ahead(group_id)
        _check_topics(context, group.workers)
    except GoQueueError as error:
        return _refuse(name, error)
    return build(
        DescribedGroup,
        group_id=name,
        group_state=group.state,
        group_epoch=group.generation,
        assignment_epoch=group.generation,
        assignor_name=ASSIGNOR,
        members=tuple(_describe_member(broker, worker) for worker in group.workers),
        authorized_operations=context.access.operations(ResourceType.GROUP, name, asked=asked),
    )


def _check_topics(context: Context, workers: Iterable[Worker]) -> None:
    """Who may not see all topics of a group does not see its members, as in Kafka."""
    for name in {topic for worker in workers for topic in worker.topics}:
        if not context.access.allows_topic(Operation.DESCRIBE, name):
            raise TopicAccessDenied("the group has a topic that the caller may not describe")


def _refuse(name: str, error: GoQueueError) -> DescribedGroup:
    return build(
        DescribedGroup,
        error_code=coordinator_code(error),
        error_message=str(error),
        group_id=name,
        group_state="Dead",
    )


def _describe_member(broker: Broker, worker: Worker) -> described.Member:
    topics = tuple(
        build(
            described.TopicPartitions,
            topic_id=topic_id,
            topic_name=broker.topic_by_id(topic_id).name,
            partitions=tuple(range(count)),
        )
        for topic_id, count in worker.assigned.items()
        if _is_there(broker, topic_id)
    )
    return build(
        described.Member,
        member_id=worker.member_id,
        rack_id=worker.rack_id,
        member_epoch=worker.generation,
        client_id=worker.client_id,
        client_host=worker.client_host,
        subscribed_topic_names=worker.topics,
        assignment=build(described.Assignment, topic_partitions=topics),
    )


def _is_there(broker: Broker, topic_id: TopicId) -> bool:
    """Topics that were deleted since the last heartbeat have no name."""
    try:
        broker.topic_by_id(topic_id)
    except TopicIdNotFound:
        return False
    return True
