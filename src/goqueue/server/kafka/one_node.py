"""What concerns several nodes, answered by the only one: reassignments, elections, the quorum.

Everything is where it can be: nothing moves, every leader is the preferred one, and the quorum has
one voter.
"""

from typing import Final

from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
from kio.schema.describe_quorum.v2.response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse

from goqueue.broker import Broker
from goqueue.model.errors import GoQueueError, InvalidReplicaAssignment
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.limits import in_turns
from goqueue.server.kafka.topics import check_assignment
from goqueue.wire.messages import build

ELECTION_TYPES: Final = (0, 1)  # preferred, unclean
QUORUM_TOPIC: Final = "__cluster_metadata"  # Kafka's name of the log that the quorum agrees on


def _check_partition(broker: Broker, topic: str, index: int) -> None:
    broker.topic(topic).check_partition(index)


# --- reassignments ----------------------------------------------------------------------------


async def handle_list_partition_reassignments(
    context: Context, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return build(ListPartitionReassignmentsResponse, error_message=None, topics=())


async def handle_alter_partition_reassignments(
    context: Context, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    responses = []
    async for topic in in_turns(request.topics):
        partitions = [
            _answer_reassignment(context.broker, topic.name, asked)
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


def _answer_reassignment(
    broker: Broker, topic: str, asked: ReassignablePartition
) -> ReassignablePartitionResponse:
    """Fine if the partition is where it shall be; without replicas, a move shall be cancelled."""
    code, message = ErrorCode.none, None
    try:
        _check_partition(broker, topic, asked.partition_index)
        if asked.replicas is None:
            code, message = ErrorCode.no_reassignment_in_progress, "nothing moves"
        elif not asked.replicas:
            raise InvalidReplicaAssignment("a partition has at least one replica")
        else:
            check_assignment(broker.config.node_id, [asked.replicas])
    except GoQueueError as error:
        code, message = kafka_code(error), str(error)
    return build(
        ReassignablePartitionResponse,
        partition_index=asked.partition_index,
        error_code=code,
        error_message=message,
    )


# --- elections --------------------------------------------------------------------------------


async def handle_elect_leaders(
    context: Context, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Not needed; and of all partitions together only those are told that had one: none."""
    if request.election_type not in ELECTION_TYPES:
        return build(ElectLeadersResponse, error_code=ErrorCode.invalid_request)
    results = []
    async for asked in in_turns(request.topic_partitions or ()):
        elected = [
            _answer_election(context.broker, asked.topic, index)
            async for index in in_turns(asked.partitions)
        ]
        results.append(
            build(ReplicaElectionResult, topic=asked.topic, partition_result=tuple(elected))
        )
    return build(ElectLeadersResponse, replica_election_results=tuple(results))


def _answer_election(broker: Broker, topic: str, index: int) -> PartitionResult:
    code = ErrorCode.election_not_needed
    message = f"node {broker.config.node_id} is the leader, and the only node"
    try:
        _check_partition(broker, topic, index)
    except GoQueueError as error:
        code, message = kafka_code(error), str(error)
    return build(PartitionResult, partition_id=index, error_code=code, error_message=message)


# --- the quorum -------------------------------------------------------------------------------


async def handle_describe_quorum(
    context: Context, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """This node leads itself; the log that it agrees on is that of the metadata."""
    asked = [
        (topic.topic_name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    if asked != [(QUORUM_TOPIC, 0)]:
        return build(
            DescribeQuorumResponse,
            error_code=ErrorCode.unknown_topic_or_partition,
            error_message=f"the quorum has one log, {QUORUM_TOPIC}-0",
        )
    broker = context.broker
    node, log = broker.config.node_id, broker.controller.journal
    now = broker.environment.clock.now()
    voter = build(
        ReplicaState,
        replica_id=node,
        log_end_offset=log.end_offset,
        last_fetch_timestamp=now,
        last_caught_up_timestamp=now,
    )
    partition = build(
        PartitionData,
        partition_index=0,
        error_message=None,
        leader_id=node,
        leader_epoch=log.term,
        high_watermark=log.committed_end,
        current_voters=(voter,),
    )
    address = context.address
    listener = build(Listener, name="PLAINTEXT", host=address.host, port=address.port)
    return build(
        DescribeQuorumResponse,
        error_message=None,
        topics=(build(TopicData, topic_name=QUORUM_TOPIC, partitions=(partition,)),),
        nodes=(build(Node, node_id=node, listeners=(listener,)),),
    )
