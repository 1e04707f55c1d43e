"""Nodes that do not answer, come back, are emptied, or go for good.

Everything that follows from the loss of a node is one decision, and so one entry of the log.
"""

from goqueue.cluster.controller.changes import Outcome, changes_of, settle, terms_of
from goqueue.cluster.errors import NodeInUse
from goqueue.cluster.metadata import (
    NO_LEADER,
    Metadata,
    MetadataRecord,
    NodeChanged,
    PartitionState,
    ReplicaGone,
)
from goqueue.model.ids import NodeEpoch, NodeId, TopicId
from goqueue.model.machine import Decision


def fence_node(
    metadata: Metadata, node_id: NodeId, epoch: NodeEpoch | None = None
) -> Decision[MetadataRecord, None]:
    """It does not answer: others lead, and it leaves every ISR that has somebody else."""
    node = metadata.nodes.at(node_id, epoch)
    if node.state == "fenced":
        return Decision((), None)

    def is_available(other: NodeId) -> bool:
        return other != node_id and metadata.nodes.live(other)

    def follow(topic_id: TopicId, state: PartitionState) -> Outcome:
        return settle(state, terms_of(metadata, topic_id, is_available))

    changes = changes_of(metadata, lambda state: node_id in state.isr, follow)
    return Decision([*changes, NodeChanged(node_id, node.epoch, "fenced")], None)


def unfence_node(
    metadata: Metadata, node_id: NodeId, epoch: NodeEpoch | None = None
) -> Decision[MetadataRecord, None]:
    """It answers, and has caught up with the metadata: it leads what nobody leads."""
    node = metadata.nodes.at(node_id, epoch)
    if node.state == "active":
        return Decision((), None)

    def is_available(other: NodeId) -> bool:
        return other == node_id or metadata.nodes.live(other)

    def follow(topic_id: TopicId, state: PartitionState) -> Outcome:
        return settle(state, terms_of(metadata, topic_id, is_available))

    def concerns(state: PartitionState) -> bool:
        return state.leader == NO_LEADER and node_id in state.replicas

    changes = changes_of(metadata, concerns, follow)
    return Decision([NodeChanged(node_id, node.epoch, "active"), *changes], None)


def drain_node(
    metadata: Metadata, node_id: NodeId, epoch: NodeEpoch | None = None
) -> Decision[MetadataRecord, None]:
    """It gets no replicas any more; `hand_over` takes what it leads."""
    node = metadata.nodes.at(node_id, epoch)
    if node.state != "active":
        return Decision((), None)
    return Decision((NodeChanged(node_id, node.epoch, "draining"),), None)


def undrain_node(metadata: Metadata, node_id: NodeId) -> Decision[MetadataRecord, None]:
    """It leads again, and gets replicas."""
    if metadata.nodes.at(node_id).state != "draining":
        return Decision((), None)
    return unfence_node(metadata, node_id)


def remove_node(metadata: Metadata, node_id: NodeId) -> Decision[MetadataRecord, None]:
    """For good: it is not welcome any more.  Raises `NodeInUse` while it has replicas."""
    node = metadata.nodes.at(node_id)
    count = metadata.partitions.replica_count(node_id)
    if count:
        raise NodeInUse(f"node {node_id} has {count} replicas: move them to other nodes first")
    gone = [
        ReplicaGone(topic_id, node_id)
        for topic_id, nodes in metadata.deletions.items()
        if node_id in nodes
    ]
    return Decision([*gone, NodeChanged(node_id, node.epoch, "removed")], None)
