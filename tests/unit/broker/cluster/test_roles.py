"""What a node is to partitions, as the image says: with whole brokers in the simulator."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from goqueue.cluster.replication import Follower, Leader, Offline, Role
from goqueue.model.errors import NotLeader
from goqueue.model.ids import NodeId
from goqueue.testing.sim import World
from tests.unit.broker.brokers import publish
from tests.unit.broker.cluster.cluster_world import ClusterWorld


@contextmanager
def nodes() -> Iterator[ClusterWorld]:
    with capture_logs(), World(0) as world:
        found = ClusterWorld(world)
        found.start("a", "b", "c")
        world.run_until(
            lambda: [found.state_of(each) for each in (1, 2, 3)] == ["active"] * 3, limit_s=30
        )
        yield found


def create(cluster: ClusterWorld, *replicas: int) -> None:
    placed = [[NodeId(each) for each in replicas]]
    cluster.world.run(cluster.controller.create_topic("orders", partitions=1, assignments=placed))
    cluster.world.run_until(
        lambda: all(seen == ["orders"] for seen in cluster.topics_seen.values()), limit_s=10
    )


def role(cluster: ClusterWorld, host: str) -> Role | None:
    bundle = cluster.brokers[host].partitions.used_bundle("orders", 0)
    assert bundle is not None
    return bundle.role


def directories(cluster: ClusterWorld, host: str) -> list[str]:
    return [
        each
        for each in cluster.world.disk(host).list_directory("/data/logs")
        if not each.startswith("__")
    ]


def test_replicas_are_opened_where_they_are_and_nowhere_else():
    with nodes() as cluster:
        create(cluster, 2, 3)
        cluster.world.run_until(lambda: directories(cluster, "c") == ["orders"], limit_s=10)
        assert isinstance(role(cluster, "b"), Leader)
        assert role(cluster, "c") == Follower(NodeId(2), role(cluster, "b").epoch)  # type: ignore[union-attr]
        with pytest.raises(NotLeader, match="node 2 leads"):
            cluster.world.run(publish(cluster.controller, "orders", "lost"))
        assert directories(cluster, "a") == []


def test_the_only_replica_is_opened_when_it_is_used():
    with nodes() as cluster:
        create(cluster, 3)
        assert directories(cluster, "c") == []
        cluster.world.run(publish(cluster.brokers["c"], "orders", "kept"))
        assert directories(cluster, "c") == ["orders"]
        assert role(cluster, "c") is None  # its logs need not note epochs


def test_data_of_a_deleted_topic_goes_from_all_nodes():
    with nodes() as cluster:
        create(cluster, 2, 1, 3)
        cluster.world.run_until(
            lambda: all(directories(cluster, host) for host in "abc"), limit_s=10
        )
        cluster.world.run(cluster.brokers["c"].delete_topic("orders"))
        cluster.world.run_until(
            lambda: not any(directories(cluster, host) for host in "abc"), limit_s=30
        )
        metadata = cluster.controller.metadata
        cluster.world.run_until(lambda: not metadata.deletions, limit_s=30)


def test_a_node_that_has_not_joined_leads_nothing():
    with nodes() as cluster:
        create(cluster, 2, 1)
        broker = cluster.brokers["b"]
        bundle = broker.partitions.used_bundle("orders", 0)
        assert bundle is not None
        broker.cluster.roles._is_registered = False
        found = broker.cluster.roles._role_of(bundle.topic_id, 0)
        assert isinstance(found, Offline)
        assert "not joined" in found.reason
