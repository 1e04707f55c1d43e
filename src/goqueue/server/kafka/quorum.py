"""DescribeQuorum: the log that the nodes agree on."""

from typing import Final

from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
from kio.schema.describe_quorum.v2.response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kio.schema.errors import ErrorCode

from goqueue.model.config import Address
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.nodes import address_of
from goqueue.wire.messages import build

QUORUM_TOPIC: Final = "__cluster_metadata"  # Kafka's name of the log that the quorum agrees on


async def handle_describe_quorum(
    context: Context, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """The log of the metadata: who decides what is in it, and who follows."""
    if not context.access.allows_cluster(Operation.DESCRIBE):
        return build(
            DescribeQuorumResponse,
            error_code=ErrorCode.cluster_authorization_failed,
            error_message="the caller lacks DESCRIBE on the cluster",
        )
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
    try:
        found = await broker.quorum_positions.find()
    except GoQueueError as error:
        return build(DescribeQuorumResponse, error_code=kafka_code(error), error_message=str(error))
    now = broker.environment.clock.now()
    states = {found.controller: _state(found.controller, found.end, now)}
    for each in found.nodes:
        if broker.metadata.nodes.live(each.node_id):
            states[each.node_id] = _state(each.node_id, each.applied, now - each.heard_ms_ago)
    # Where nodes elect their controller, each of them can be it; else there is one that votes.
    voters = sorted(states) if broker.cluster.elects else [found.controller]
    partition = build(
        PartitionData,
        partition_index=0,
        error_message=None,
        leader_id=found.controller,
        leader_epoch=found.term,
        high_watermark=found.committed_end,
        current_voters=tuple(states[each] for each in voters),
        observers=tuple(state for each, state in sorted(states.items()) if each not in voters),
    )
    nodes = [(each, broker.metadata.nodes.get(each)) for each in voters]
    return build(
        DescribeQuorumResponse,
        error_message=None,
        topics=(build(TopicData, topic_name=QUORUM_TOPIC, partitions=(partition,)),),
        nodes=tuple(
            build(
                Node,
                node_id=node_id,
                listeners=_listeners(None if node is None else address_of(context, node)),
            )
            for node_id, node in nodes
        ),
    )


def _state(node_id: NodeId, end: int, seen_at: int) -> ReplicaState:
    return build(
        ReplicaState,
        replica_id=node_id,
        log_end_offset=end,
        last_fetch_timestamp=seen_at,
        last_caught_up_timestamp=seen_at,
    )


def _listeners(address: Address | None) -> tuple[Listener, ...]:
    if address is None:
        return ()
    return (build(Listener, name="PLAINTEXT", host=address.host, port=address.port),)
