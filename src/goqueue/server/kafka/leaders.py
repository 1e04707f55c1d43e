"""The leader of a partition, for a client that asked another node (KIP-951).

A refusal names the leader and where it listens, so the client goes on without asking for metadata.
"""

from collections.abc import Collection
from uuid import UUID

from goqueue.broker import Broker
from goqueue.cluster import NO_LEADER, PartitionState
from goqueue.model.errors import FencedLeaderEpoch, GoQueueError, NotLeader
from goqueue.model.ids import NodeId, TopicId
from goqueue.server.kafka.errors import leader_of
from goqueue.server.kafka.nodes import is_reachable
from goqueue.wire.nodes import LeaderAndEpoch, NodeEndpoint


def find_leader(
    broker: Broker, topic: str | UUID, index: int, error: GoQueueError | None
) -> LeaderAndEpoch | None:
    """Who leads instead; None when that is not what the error is about, or nobody leads."""
    if not isinstance(error, NotLeader | FencedLeaderEpoch):
        return None
    said = leader_of(error)
    if said is not None:
        return said
    state = _find_state(broker, topic, index)
    if state is None or state.leader == NO_LEADER:
        return None
    return LeaderAndEpoch(state.leader, state.leader_epoch)


def _find_state(broker: Broker, topic: str | UUID, index: int) -> PartitionState | None:
    metadata = broker.metadata
    if isinstance(topic, UUID):
        return metadata.partitions.find(TopicId(topic), index)
    found = metadata.find(topic)
    return None if found is None else metadata.partitions.find(found.topic_id, index)


def check_leader(broker: Broker, topic_id: TopicId, index: int) -> None:
    """Raise `NotLeader` when another node leads the partition, or none."""
    state = broker.metadata.partitions.find(topic_id, index)
    if state is None or state.leader == broker.node_id:
        return
    if state.leader == NO_LEADER:
        raise NotLeader("the partition has no leader")
    raise NotLeader(
        f"node {state.leader} leads the partition, in epoch {state.leader_epoch}",
        (state.leader, state.leader_epoch),
    )


def leader_endpoints(broker: Broker, leaders: Collection[int]) -> list[NodeEndpoint]:
    """Where these nodes listen.  Not this one: the client is connected to it."""
    found = []
    for node_id in sorted(leaders):
        node = broker.metadata.nodes.get(NodeId(node_id))
        address = None if node is None else node.addresses.get("kafka")
        if node is None or address is None or node_id == broker.node_id:
            continue
        if node.is_live and is_reachable(address):
            rack = node.rack or None
            found.append(NodeEndpoint(node_id, address.host, address.port, rack))
    return found
