"""ShareGroupHeartbeat and ShareGroupDescribe: members of share groups (KIP-932)."""

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
from goqueue.model.errors import GoQueueError, TopicIdNotFound
from goqueue.model.ids import GroupId, TopicId, TopicName
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.coordinators import coordinated_group
from goqueue.server.kafka.errors import coordinator_code
from goqueue.server.kafka.group_admin import authorized_operations
from goqueue.server.kafka.group_names import client_host, client_id
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build, duration

ASSIGNOR: Final = "simple"


async def handle_share_group_heartbeat(
    context: Context, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    names = request.subscribed_topic_names
    try:
        response = await context.broker.queue_members.share_heartbeat(
            ShareHeartbeatRequest(
                group_id=coordinated_group(context.broker, request.group_id),
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
    operations = authorized_operations(asked=request.include_authorized_operations)
    names = dict.fromkeys(request.group_ids)
    try:
        async with context.broker.queue_groups.barrier_of(*map(GroupId, names)):
            groups = [_describe(context.broker, name, operations) async for name in in_turns(names)]
    except GoQueueError as error:
        groups = [_refuse(name, error) for name in names]
    return build(ShareGroupDescribeResponse, groups=tuple(groups))


def _describe(broker: Broker, name: str, operations: int) -> DescribedGroup:
    try:
        group = broker.queue_groups.describe_ahead(coordinated_group(broker, name))
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
        authorized_operations=operations,
    )


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
