"""Every request about the cluster."""

from collections.abc import Mapping, Sequence

from goqueue.api.balance import (
    EventBody,
    EventList,
    FeatureList,
    NodeRestarts,
    RebalanceResult,
)
from goqueue.api.cluster import (
    ClusterHealthBody,
    ClusterNode,
    ClusterState,
    CoordinatorBody,
    CoordinatorList,
    LeaderElectionResult,
    NodeList,
    NodeRemoved,
    PartitionMove,
    PartitionPlaceInfo,
    ReassignmentStatus,
    TopicPlaceList,
)
from goqueue.api.server import QuorumBody
from goqueue.client.http.calls.call import Call, change, get, nothing, path_of, post


def cluster_state() -> Call[ClusterState]:
    """The nodes, who decides the metadata, and how all partitions together are doing."""
    return get("/cluster/state", ClusterState)


def cluster_health() -> Call[ClusterHealthBody]:
    return get("/cluster/health", ClusterHealthBody)


def cluster_nodes() -> Call[list[ClusterNode]]:
    return get("/cluster/nodes", NodeList).then(_nodes)


def _nodes(found: NodeList) -> list[ClusterNode]:
    return found.nodes


def coordinators() -> Call[list[CoordinatorBody]]:
    """Which node coordinates each shard of groups and transactions."""
    return get("/admin/coordinators", CoordinatorList).then(_coordinators)


def _coordinators(found: CoordinatorList) -> list[CoordinatorBody]:
    return found.coordinators


def cluster_quorum() -> Call[QuorumBody]:
    """What the metadata's log stands on."""
    return get("/cluster/quorum", QuorumBody)


def topic_places(after: str | None = None, *, sizes: bool = False) -> Call[TopicPlaceList]:
    """A page of topics, by name, with where their partitions are, and how large on each node."""
    query = {"after": after, "sizes": "true" if sizes else None}
    return get("/cluster/topics", TopicPlaceList, query)


def partition_info(topic: str, partition: int) -> Call[PartitionPlaceInfo]:
    """Where a partition is, and what the node that answers has of it."""
    return get(path_of("cluster", "partition", topic, partition, "info"), PartitionPlaceInfo)


# --- changes --------------------------------------------------------------------------------------


def drain_node(node_id: int) -> Call[ClusterNode]:
    """Have other nodes lead what this one leads."""
    return post(path_of("cluster", "nodes", node_id, "drain"), ClusterNode, is_repeatable=True)


def undrain_node(node_id: int) -> Call[ClusterNode]:
    return post(path_of("cluster", "nodes", node_id, "undrain"), ClusterNode, is_repeatable=True)


def remove_node(node_id: int) -> Call[None]:
    """For good; refused while it has replicas."""
    return change("DELETE", path_of("cluster", "nodes", node_id), NodeRemoved).then(nothing)


def elect_leaders(
    topic: str | None = None, partition: int | None = None, *, allow_unclean: bool = False
) -> Call[LeaderElectionResult]:
    """Preferred leaders; with `allow_unclean` anybody, where nobody leads."""
    body = {"topic": topic, "partition": partition, "allow_unclean": allow_unclean}
    return post("/cluster/leader-election", LeaderElectionResult, body)


def reassign(
    moves: Sequence[PartitionMove] = (), throttle_bytes_per_sec: int | None = None
) -> Call[ReassignmentStatus]:
    """Move replicas to other nodes, or cancel that, or change how fast they move; 0: no limit."""
    body = {"partitions": list(moves), "throttle_bytes_per_sec": throttle_bytes_per_sec}
    return post("/admin/reassignment", ReassignmentStatus, body)


def reassignments() -> Call[ReassignmentStatus]:
    """What moves now, and how far it has come."""
    return get("/admin/reassignment", ReassignmentStatus)


def cancel_reassignments() -> Call[ReassignmentStatus]:
    """Of everything that moves."""
    return change("DELETE", "/admin/reassignment", ReassignmentStatus)


def rebalance(
    *,
    dry_run: bool = False,
    onto: int | None = None,
    without: Sequence[int] | None = None,
    replace: int | None = None,
    replace_with: int | None = None,
    throttle_bytes_per_sec: int | None = None,
) -> Call[RebalanceResult]:
    """Spread replicas anew; only onto a node, or away from some, or from one to another."""
    body = {
        "dry_run": dry_run,
        "onto": onto,
        "without": None if without is None else list(without),
        "replace": replace,
        "with": replace_with,
        "throttle_bytes_per_sec": throttle_bytes_per_sec,
    }
    return post("/admin/rebalance", RebalanceResult, body)


def cluster_events(after: int = 0, limit: int = 100) -> Call[list[EventBody]]:
    """What the node that answers has seen since it started, the oldest first."""
    return get("/cluster/events", EventList, {"after": after, "limit": limit}).then(_events)


def _events(found: EventList) -> list[EventBody]:
    return found.events


def cluster_features() -> Call[FeatureList]:
    return get("/cluster/features", FeatureList)


def raise_features(
    levels: Mapping[str, int] | None = None, *, dry_run: bool = False
) -> Call[FeatureList]:
    """To these levels, or each to the highest that all nodes support."""
    body = {"levels": None if levels is None else dict(levels), "dry_run": dry_run}
    return post("/cluster/features", FeatureList, body)


def restart_node(node_id: int) -> Call[NodeRestarts]:
    """If it has a supervisor that starts it again."""
    return post(path_of("cluster", "nodes", node_id, "restart"), NodeRestarts)
