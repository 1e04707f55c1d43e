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
from goqueue.model.ids import NodeId
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.nodes import address_of
from goqueue.wire.messages import build

QUORUM_TOPIC: Final = "__cluster_metadata"  # Kafka's name of the log that the quorum agrees on


async def handle_describe_quorum(
    context: Context, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """The log of the metadata: who decides what is in it, and who follows."""
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
    log, leader = broker.controller.journal, broker.cluster.voter
    now = broker.environment.clock.now()
    nodes = broker.metadata.nodes
    observers = sorted(each for each in nodes if nodes.live(each) and each != leader)
    partition = build(
        PartitionData,
        partition_index=0,
        error_message=None,
        leader_id=leader,
        leader_epoch=log.term,
        high_watermark=log.committed_end,
        current_voters=(_state(leader, log.end_offset, now),),
        observers=tuple(
            # Only this node's own position is known here.
            _state(each, *((log.end_offset, now) if each == broker.node_id else (-1, -1)))
            for each in observers
        ),
    )
    node = nodes.get(leader)
    address = None if node is None else address_of(context, node)
    return build(
        DescribeQuorumResponse,
        error_message=None,
        topics=(build(TopicData, topic_name=QUORUM_TOPIC, partitions=(partition,)),),
        nodes=(build(Node, node_id=leader, listeners=_listeners(address)),),
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
