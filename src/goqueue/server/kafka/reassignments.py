"""AlterPartitionReassignments, ListPartitionReassignments: replicas move to other nodes."""

from collections.abc import Sequence

from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

from goqueue.broker import Broker
from goqueue.cluster import Topic
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build


async def handle_list_partition_reassignments(
    context: Context, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Those under way; of the partitions asked for, or of all."""
    broker = context.broker
    try:
        context.access.demand_cluster(Operation.DESCRIBE)
    except GoQueueError as error:
        refusal = {"error_code": kafka_code(error), "error_message": str(error)}
        return build(ListPartitionReassignmentsResponse, **refusal)
    asked = None
    if request.topics is not None:
        asked = {str(each.name): each.partition_indexes for each in request.topics}
    topics = []
    async for topic in in_turns(broker.topics()):
        indexes = range(topic.partitions) if asked is None else asked.get(topic.name, ())
        moving = _moving(broker, topic, indexes)
        if moving:
            topics.append(
                build(OngoingTopicReassignment, name=topic.name, partitions=tuple(moving))
            )
    return build(ListPartitionReassignmentsResponse, error_message=None, topics=tuple(topics))


def _moving(
    broker: Broker, topic: Topic, indexes: Sequence[int]
) -> list[OngoingPartitionReassignment]:
    states = broker.metadata.partitions.of(topic.topic_id)
    return [
        build(
            OngoingPartitionReassignment,
            partition_index=index,
            replicas=states[index].replicas,
            adding_replicas=states[index].adding,
            removing_replicas=states[index].removing,
        )
        for index in indexes
        if topic.has_partition(index) and (states[index].adding or states[index].removing)
    ]


async def handle_alter_partition_reassignments(
    context: Context, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    try:
        context.access.demand_cluster(Operation.ALTER)
    except GoQueueError as error:
        refusal = {"error_code": kafka_code(error), "error_message": str(error)}
        return build(AlterPartitionReassignmentsResponse, **refusal)
    responses = []
    async for topic in in_turns(request.topics):
        partitions = [
            await _reassign(context.broker, topic.name, asked)
            async for asked in in_turns(topic.partitions)
        ]
        responses.append(
            build(ReassignableTopicResponse, name=topic.name, partitions=tuple(partitions))
        )
    return build(
        AlterPartitionReassignmentsResponse,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=tuple(responses),
    )


async def _reassign(
    broker: Broker, topic: str, asked: ReassignablePartition
) -> ReassignablePartitionResponse:
    """Without replicas, a move shall be cancelled."""
    code, message, index = ErrorCode.none, None, asked.partition_index
    try:
        topic_id = broker.topic(topic).topic_id
        replicas = None if asked.replicas is None else list(map(NodeId, asked.replicas))
        await broker.reassign_partition(topic_id, index, replicas)
    except GoQueueError as error:
        code, message = kafka_code(error), str(error)
    return build(
        ReassignablePartitionResponse,
        partition_index=index,
        error_code=code,
        error_message=message,
    )
