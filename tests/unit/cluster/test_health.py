"""How a cluster is doing, as the metadata says."""

from goqueue.cluster import controller
from goqueue.cluster.health import health_of, offline_replicas
from goqueue.model.ids import NodeId
from tests.unit.cluster.test_controller import Cluster, cluster_of, ids


def fence(cluster: Cluster, node_id: NodeId) -> None:
    cluster.do(controller.fence_node(cluster.metadata, node_id))


def test_a_replica_that_is_missed_shows_and_a_partition_without_a_leader_more_so():
    cluster = cluster_of(2, partitions=2)
    health = health_of(cluster.metadata)
    assert (health.status, health.partitions, health.active_nodes) == ("healthy", 2, 2)
    fence(cluster, NodeId(1))
    health = health_of(cluster.metadata)
    assert (health.status, health.under_replicated, health.under_min_isr) == (
        "under_replicated",
        2,
        2,
    )
    assert (health.not_preferred, health.offline, health.active_nodes) == (1, 0, 1)
    assert offline_replicas(cluster.state(), cluster.metadata.nodes) == ids(1)
    fence(cluster, NodeId(2))
    assert (health_of(cluster.metadata).status, health_of(cluster.metadata).offline) == (
        "offline",
        2,
    )


def test_a_replica_that_is_being_added_is_not_missed():
    cluster = cluster_of(1)
    cluster.register(NodeId(2), state="active")
    cluster.do(controller.reassign(cluster.metadata, *cluster.some(0), ids(2)))
    health = health_of(cluster.metadata)
    assert (health.status, health.reassigning) == ("healthy", 1)
