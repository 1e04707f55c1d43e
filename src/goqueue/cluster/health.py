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


class HealthCount:
    """Partitions one by one: a scrape counts many of them, in slices."""

    def __init__(self) -> None:
        self._partitions = 0
        self._under_replicated = 0
        self._under_min_isr = 0
        self._offline = 0
        self._not_preferred = 0
        self._reassigning = 0

    def add(self, state: PartitionState, min_insync_replicas: int) -> None:
        needed = effective_min_insync(min_insync_replicas, len(state.replicas))
        self._partitions += 1
        self._under_replicated += is_under_replicated(state)
        self._under_min_isr += len(state.isr) < needed
        self._offline += state.leader == NO_LEADER
        self._not_preferred += state.leader not in (state.replicas[0], NO_LEADER)
        self._reassigning += bool(state.adding or state.removing)

    def result(self, metadata: Metadata) -> ClusterHealth:
        members = metadata.nodes.members
        return ClusterHealth(
            len(members),
            sum(node.state == "active" for node in members),
            len(metadata.topics),
            self._partitions,
            self._under_replicated,
            self._under_min_isr,
            self._offline,
            self._not_preferred,
            self._reassigning,
        )


def health_of(metadata: Metadata) -> ClusterHealth:
    count = HealthCount()
    for topic in metadata.topics.values():
        for state in metadata.partitions.of(topic.topic_id):
            count.add(state, topic.settings.min_insync_replicas)
    return count.result(metadata)


def is_under_replicated(state: PartitionState) -> bool:
    """Who is being added is not missed yet."""
    return len(state.isr) < len(state.replicas) - len(state.adding)


def offline_replicas(state: PartitionState, nodes: NodeTable) -> Nodes:
    """On nodes that do not answer."""
    return tuple(node_id for node_id in state.replicas if not nodes.live(node_id))
