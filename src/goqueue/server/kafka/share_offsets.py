"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets: the start
offsets of a share group: show, set and delete them.

A share group's start offset in a partition is its ack floor: all messages below it are settled.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kio.schema.alter_share_group_offsets.v0.request import AlterShareGroupOffsetsRequest
from kio.schema.alter_share_group_offsets.v0.response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kio.schema.delete_share_group_offsets.v0.request import DeleteShareGroupOffsetsRequest
from kio.schema.delete_share_group_offsets.v0.response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kio.schema.describe_share_group_offsets.v1.request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kio.schema.describe_share_group_offsets.v1.response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kio.schema.errors import ErrorCode

from goqueue.broker.queues.members import SHARE_DEFAULTS
from goqueue.model.errors import GoQueueError, TopicAccessDenied
from goqueue.model.ids import GroupId, TopicName, TopicPartition
from goqueue.queue import PartitionStats
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.coordinators import coordinated_group
from goqueue.server.kafka.errors import coordinator_code, kafka_code
from goqueue.wire.messages import build

NO_OFFSET: Final = -1  # the group has not begun there

# --- DescribeShareGroupOffsets ----------------------------------------------------------------


async def handle_describe_share_group_offsets(
    context: Context, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    groups = [await _describe(context, group) for group in request.groups]
    return build(DescribeShareGroupOffsetsResponse, groups=tuple(groups))


async def _describe(
    context: Context, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    broker = context.broker
    try:
        group_id = coordinated_group(context, asked.group_id, Operation.DESCRIBE)
        await broker.queue_groups.describe(group_id)
        (stats,) = await broker.queues.stats(asked.group_id)
    except GoQueueError as error:
        return build(
            DescribeShareGroupOffsetsResponseGroup,
            group_id=asked.group_id,
            error_code=coordinator_code(error),
            error_message=str(error),
        )
    found = {TopicPartition(each.topic, each.partition): each for each in stats.partitions}
    return build(
        DescribeShareGroupOffsetsResponseGroup,
        group_id=asked.group_id,
        topics=tuple(_describe_topics(context, _list_partitions(context, asked, found), found)),
    )


def _list_partitions(
    context: Context,
    asked: DescribeShareGroupOffsetsRequestGroup,
    found: Iterable[TopicPartition],
) -> dict[TopicName, list[int]]:
    """All there are that the client may see, unless partitions are named."""
    topics: dict[TopicName, list[int]] = {}
    if asked.topics is None:
        for topic, partition in sorted(found):
            if context.access.allows_topic(Operation.DESCRIBE, topic):
                topics.setdefault(topic, []).append(partition)
    else:
        for each in asked.topics:
            topics[TopicName(each.topic_name)] = list(each.partitions)
    return topics


def _describe_topics(
    context: Context,
    topics: dict[TopicName, list[int]],
    found: dict[TopicPartition, PartitionStats],
) -> Iterator[DescribeShareGroupOffsetsResponseTopic]:
    broker = context.broker
    for name, partitions in topics.items():
        if not context.access.allows_topic(Operation.DESCRIBE, name):
            yield _refuse_topic(name, partitions)
        elif broker.has_topic(name):
            yield build(
                DescribeShareGroupOffsetsResponseTopic,
                topic_name=name,
                topic_id=broker.topic(name).topic_id,
                partitions=tuple(
                    _describe_partition(index, found.get(TopicPartition(name, index)))
                    for index in partitions
                ),
            )


def _refuse_topic(
    name: TopicName, partitions: Iterable[int]
) -> DescribeShareGroupOffsetsResponseTopic:
    denied = TopicAccessDenied(f"the caller lacks DESCRIBE on topic {name!r}")
    return build(
        DescribeShareGroupOffsetsResponseTopic,
        topic_name=name,
        partitions=tuple(
            build(
                DescribeShareGroupOffsetsResponsePartition,
                partition_index=index,
                start_offset=NO_OFFSET,
                lag=NO_OFFSET,
                error_code=kafka_code(denied),
                error_message=str(denied),
            )
            for index in partitions
        ),
    )


def _describe_partition(
    index: int, stats: PartitionStats | None
) -> DescribeShareGroupOffsetsResponsePartition:
    if stats is None:
        return build(
            DescribeShareGroupOffsetsResponsePartition,
            partition_index=index,
            start_offset=NO_OFFSET,
            lag=NO_OFFSET,
        )
    return build(
        DescribeShareGroupOffsetsResponsePartition,
        partition_index=index,
        start_offset=stats.floor,
        lag=stats.ready + stats.in_flight + stats.waiting,
    )


# --- AlterShareGroupOffsets -------------------------------------------------------------------


async def handle_alter_share_group_offsets(
    context: Context, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Only of a group without members; one that is not there is made, empty, at these offsets."""
    broker = context.broker
    try:
        group_id = coordinated_group(context, request.group_id, Operation.READ)
        await broker.groups.refuse_members(group_id)
        await broker.queue_groups.refuse_members(group_id)
        await broker.queues.begin(group_id, (), SHARE_DEFAULTS)
    except GoQueueError as error:
        return build(
            AlterShareGroupOffsetsResponse,
            error_code=coordinator_code(error),
            error_message=str(error),
        )
    topics = [await _alter_topic(context, group_id, topic) for topic in request.topics]
    return build(AlterShareGroupOffsetsResponse, responses=tuple(topics))


async def _alter_topic(
    context: Context, group_id: GroupId, topic: Any
) -> AlterShareGroupOffsetsResponseTopic:
    broker, name = context.broker, topic.topic_name
    partitions = [
        await _alter_partition(context, group_id, name, each) for each in topic.partitions
    ]
    is_visible = context.access.allows_topic(Operation.READ, name) and broker.has_topic(name)
    return build(
        AlterShareGroupOffsetsResponseTopic,
        topic_name=name,
        topic_id=broker.topic(name).topic_id if is_visible else None,
        partitions=tuple(partitions),
    )


async def _alter_partition(
    context: Context, group_id: GroupId, topic: str, asked: Any
) -> AlterShareGroupOffsetsResponsePartition:
    code, message = ErrorCode.none, None
    try:
        context.access.demand_topic(Operation.READ, topic)
        index, offset = asked.partition_index, asked.start_offset
        await context.broker.queues.move_ack_floor(group_id, topic, index, offset)
    except GoQueueError as error:
        code, message = kafka_code(error), str(error)
    return build(
        AlterShareGroupOffsetsResponsePartition,
        partition_index=asked.partition_index,
        error_code=code,
        error_message=message,
    )


# --- DeleteShareGroupOffsets ------------------------------------------------------------------


async def handle_delete_share_group_offsets(
    context: Context, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Only of a group without members."""
    broker = context.broker
    try:
        group_id = coordinated_group(context, request.group_id, Operation.DELETE)
        await broker.queue_groups.describe(group_id)
        await broker.queue_groups.refuse_members(group_id)
    except GoQueueError as error:
        return build(
            DeleteShareGroupOffsetsResponse,
            error_code=coordinator_code(error),
            error_message=str(error),
        )
    topics = [await _delete(context, group_id, each.topic_name) for each in request.topics]
    return build(DeleteShareGroupOffsetsResponse, responses=tuple(topics))


async def _delete(
    context: Context, group_id: GroupId, topic: str
) -> DeleteShareGroupOffsetsResponseTopic:
    code, message, topic_id = ErrorCode.none, None, None
    broker = context.broker
    try:
        context.access.demand_topic(Operation.READ, topic)
        topic_id = broker.topic(topic).topic_id
        await broker.queue_groups.delete_offsets(group_id, TopicName(topic))
    except GoQueueError as error:
        code, message = coordinator_code(error), str(error)
    return build(
        DeleteShareGroupOffsetsResponseTopic,
        topic_name=topic,
        topic_id=topic_id,
        error_code=code,
        error_message=message,
    )
