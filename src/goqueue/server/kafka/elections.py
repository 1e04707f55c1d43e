"""ElectLeaders: partitions are given back to their preferred leaders, or to anybody at all."""

from collections.abc import AsyncIterator
from typing import Final

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.cluster.controller import ElectionType
from goqueue.cluster.errors import ElectionNotNeeded
from goqueue.model.errors import GoQueueError
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build

ELECTION_TYPES: Final[dict[int, ElectionType]] = {0: "preferred", 1: "unclean"}


async def handle_elect_leaders(
    context: Context, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Of all partitions together only those are told that had an election."""
    if not context.access.allows_cluster(Operation.ALTER):
        return _refuse(request, ErrorCode.cluster_authorization_failed)
    election_type = ELECTION_TYPES.get(request.election_type)
    if election_type is None:
        return build(ElectLeadersResponse, error_code=ErrorCode.invalid_request)
    broker, results = context.broker, []
    is_told = request.topic_partitions is not None
    async for topic, indexes in _find_asked(broker, request):
        elected = [
            await _elect(broker, topic, index, election_type) async for index in in_turns(indexes)
        ]
        told = [each for each in elected if is_told or each.error_code != NOT_NEEDED]
        if told:
            results.append(build(ReplicaElectionResult, topic=topic, partition_result=tuple(told)))
    return build(ElectLeadersResponse, replica_election_results=tuple(results))


def _refuse(request: ElectLeadersRequest, code: ErrorCode) -> ElectLeadersResponse:
    """All of it, and each partition, since the oldest version has no other word for it."""
    results = tuple(
        build(
            ReplicaElectionResult,
            topic=asked.topic,
            partition_result=tuple(
                build(PartitionResult, partition_id=index, error_code=code, error_message=None)
                for index in asked.partitions
            ),
        )
        for asked in request.topic_partitions or ()
    )
    return build(ElectLeadersResponse, error_code=code, replica_election_results=results)


NOT_NEEDED: Final = kafka_code(ElectionNotNeeded(""))


async def _find_asked(
    broker: Broker, request: ElectLeadersRequest
) -> AsyncIterator[tuple[str, list[int]]]:
    if request.topic_partitions is not None:
        async for asked in in_turns(request.topic_partitions):
            yield asked.topic, list(asked.partitions)
        return
    async for topic in in_turns(broker.topics()):
        yield topic.name, list(range(topic.partitions))


async def _elect(
    broker: Broker, topic: str, index: int, election_type: ElectionType
) -> PartitionResult:
    code, message = ErrorCode.none, None
    try:
        topic_id = broker.topic(topic).topic_id
        await broker.elect_leader(topic_id, index, election_type)
    except GoQueueError as error:
        code, message = kafka_code(error), str(error)
    return build(PartitionResult, partition_id=index, error_code=code, error_message=message)
