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

from goqueue.broker import Broker
from goqueue.broker.queues.members import SHARE_DEFAULTS
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, TopicName, TopicPartition
from goqueue.queue import PartitionStats
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.coordinators import coordinated_group
from goqueue.server.kafka.errors import coordinator_code, kafka_code
from goqueue.wire.messages import build

NO_OFFSET: Final = -1  # the group has not begun there

# --- DescribeShareGroupOffsets ----------------------------------------------------------------


async def handle_describe_share_group_offsets(
    context: Context, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    groups = [await _describe(context.broker, group) for group in request.groups]
    return build(DescribeShareGroupOffsetsResponse, groups=tuple(groups))


async def _describe(
    broker: Broker, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    try:
        await broker.queue_groups.describe(coordinated_group(broker, asked.group_id))
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
        topics=tuple(_describe_topics(broker, _list_partitions(asked, found), found)),
    )


def _list_partitions(
    asked: DescribeShareGroupOffsetsRequestGroup, found: Iterable[TopicPartition]
) -> dict[TopicName, list[int]]:
    """All there are, unless partitions are named."""
    topics: dict[TopicName, list[int]] = {}
    if asked.topics is None:
        for topic, partition in sorted(found):
            topics.setdefault(topic, []).append(partition)
    else:
        for each in asked.topics:
            topics[TopicName(each.topic_name)] = list(each.partitions)
    return topics


def _describe_topics(
    broker: Broker, topics: dict[TopicName, list[int]], found: dict[TopicPartition, PartitionStats]
) -> Iterator[DescribeShareGroupOffsetsResponseTopic]:
    for name, partitions in topics.items():
        if broker.has_topic(name):
            yield build(
                DescribeShareGroupOffsetsResponseTopic,
                topic_name=name,
                topic_id=broker.topic(name).topic_id,
                partitions=tuple(
                    _describe_partition(index, found.get(TopicPartition(name, index)))
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
        group_id = coordinated_group(broker, request.group_id)
        await broker.groups.refuse_members(group_id)
        await broker.queue_groups.refuse_members(group_id)
        await broker.queues.begin(group_id, (), SHARE_DEFAULTS)
    except GoQueueError as error:
        return build(
            AlterShareGroupOffsetsResponse,
            error_code=coordinator_code(error),
            error_message=str(error),
        )
    topics = [await _alter_topic(broker, group_id, topic) for topic in request.topics]
    return build(AlterShareGroupOffsetsResponse, responses=tuple(topics))


async def _alter_topic(
    broker: Broker, group_id: GroupId, topic: Any
) -> AlterShareGroupOffsetsResponseTopic:
    partitions = [
        await _alter_partition(broker, group_id, topic.topic_name, each)
        for each in topic.partitions
    ]
    is_there = broker.has_topic(topic.topic_name)
    return build(
        AlterShareGroupOffsetsResponseTopic,
        topic_name=topic.topic_name,
        topic_id=broker.topic(topic.topic_name).topic_id if is_there else None,
        partitions=tuple(partitions),
    )


async def _alter_partition(
    broker: Broker, group_id: GroupId, topic: str, asked: Any
) -> AlterShareGroupOffsetsResponsePartition:
    code, message = ErrorCode.none, None
    try:
        index, offset = asked.partition_index, asked.start_offset
        await broker.queues.move_ack_floor(group_id, topic, index, offset)
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
        group_id = coordinated_group(broker, request.group_id)
        await broker.queue_groups.describe(group_id)
        await broker.queue_groups.refuse_members(group_id)
    except GoQueueError as error:
        return build(
            DeleteShareGroupOffsetsResponse,
            error_code=coordinator_code(error),
            error_message=str(error),
        )
    topics = [await _delete(broker, group_id, each.topic_name) for each in request.topics]
    return build(DeleteShareGroupOffsetsResponse, responses=tuple(topics))


async def _delete(
    broker: Broker, group_id: GroupId, topic: str
) -> DeleteShareGroupOffsetsResponseTopic:
    code, message, topic_id = ErrorCode.none, None, None
    try:
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
