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

from goqueue.server.kafka.context import Context
from goqueue.wire.messages import build

QUORUM_TOPIC: Final = "__cluster_metadata"  # Kafka's name of the log that the quorum agrees on


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
