"""Every request about the cluster."""

from goqueue.api.cluster import (
    ClusterHealthBody,
    ClusterNode,
    ClusterState,
    NodeList,
    PartitionPlaceInfo,
    TopicPlaceList,
)
from goqueue.api.server import QuorumBody
from goqueue.client.http.calls.call import Call, get, path_of


def cluster_state() -> Call[ClusterState]:
    """The nodes, who decides the metadata, and how all partitions together are doing."""
    return get("/cluster/state", ClusterState)


def cluster_health() -> Call[ClusterHealthBody]:
    return get("/cluster/health", ClusterHealthBody)


def cluster_nodes() -> Call[list[ClusterNode]]:
    return get("/cluster/nodes", NodeList).then(_nodes)


def _nodes(found: NodeList) -> list[ClusterNode]:
    return found.nodes


def cluster_quorum() -> Call[QuorumBody]:
    """What the metadata's log stands on."""
    return get("/cluster/quorum", QuorumBody)


def topic_places(after: str | None = None) -> Call[TopicPlaceList]:
    """A page of topics, by name, with where their partitions are."""
    return get("/cluster/topics", TopicPlaceList, {"after": after})


def partition_info(topic: str, partition: int) -> Call[PartitionPlaceInfo]:
    """Where a partition is, and what the node that answers has of it."""
    return get(path_of("cluster", "partition", topic, partition, "info"), PartitionPlaceInfo)
