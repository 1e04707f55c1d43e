"""How a cluster is doing, as its metadata says: who is missing, and what cannot be written."""

from typing import Literal

import msgspec

from goqueue.cluster.metadata import NO_LEADER, Metadata, Nodes, NodeTable, PartitionState
from goqueue.cluster.replication import effective_min_insync

HealthStatus = Literal["healthy", "under_replicated", "offline"]


class ClusterHealth(msgspec.Struct, frozen=True):
    nodes: int
    active_nodes: int
    topics: int
    partitions: int
    under_replicated: int  # somebody who has a replica is not in sync
    under_min_isr: int  # too few are in sync for acks=all
    offline: int  # nobody leads
    not_preferred: int  # somebody else leads than the first replica
    reassigning: int

    @property
    def status(self) -> HealthStatus:
        if self.offline:
            return "offline"
        return "under_replicated" if self.under_replicated else "healthy"


def health_of(metadata: Metadata) -> ClusterHealth:
    partitions = under_replicated = under_min_isr = offline = not_preferred = reassigning = 0
    for topic in metadata.topics.values():
        least = topic.settings.min_insync_replicas
        for state in metadata.partitions.of(topic.topic_id):
            partitions += 1
            under_replicated += is_under_replicated(state)
            under_min_isr += len(state.isr) < effective_min_insync(least, len(state.replicas))
            offline += state.leader == NO_LEADER
            not_preferred += state.leader not in (state.replicas[0], NO_LEADER)
            reassigning += bool(state.adding or state.removing)
    members = metadata.nodes.members
    return ClusterHealth(
        len(members),
        sum(node.state == "active" for node in members),
        len(metadata.topics),
        partitions,
        under_replicated,
        under_min_isr,
        offline,
        not_preferred,
        reassigning,
    )


def is_under_replicated(state: PartitionState) -> bool:
    """Who is being added is not missed yet."""
    return len(state.isr) < len(state.replicas) - len(state.adding)


def offline_replicas(state: PartitionState, nodes: NodeTable) -> Nodes:
    """On nodes that do not answer."""
    return tuple(node_id for node_id in state.replicas if not nodes.live(node_id))
