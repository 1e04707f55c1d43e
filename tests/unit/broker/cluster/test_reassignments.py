"""Whole brokers in the simulator whose replicas move: throttled, measured, and gone at the end."""

import asyncio

from goqueue.broker.cluster.reassignments import Move
from goqueue.cluster.throttles import (
    ALL_NODES,
    FOLLOWER_RATE,
    LEADER_RATE,
    REASSIGNMENT_RATE,
    rate_of,
)
from goqueue.model.ids import NodeId
from tests.unit.broker.brokers import publish
from tests.unit.broker.cluster.cluster_world import ClusterWorld
from tests.unit.broker.cluster.test_failover import state, three_nodes

SIZE = 64  # messages of 1000 bytes


def fill(nodes: ClusterWorld) -> None:
    """A topic on nodes 1 and 2, with 64 kB."""
    replicas = [[NodeId(2), NodeId(1)]]
    nodes.world.run(nodes.controller.create_topic("orders", partitions=1, assignments=replicas))
    nodes.world.run_until(lambda: nodes.brokers["b"].partitions.find_open("orders", 0) is not None)
    for _ in range(SIZE):
        nodes.world.run(publish(nodes.brokers["b"], "orders", "." * 1000))


def move(nodes: ClusterWorld, *replicas: int) -> None:
    topic_id = nodes.controller.topic("orders").topic_id
    wanted = [NodeId(each) for each in replicas]
    nodes.world.run(nodes.brokers["c"].reassign_partition(topic_id, 0, wanted))


def throttle(nodes: ClusterWorld, **rates: int) -> None:
    for name, rate in rates.items():
        changes = {name: str(rate)}
        nodes.world.run(nodes.brokers["c"].change_broker_config(ALL_NODES, changes))


def moves(nodes: ClusterWorld, host: str = "c") -> list[Move]:
    return nodes.world.run(nodes.brokers[host].reassignments.under_way())


def seconds_until_moved(nodes: ClusterWorld) -> float:
    clock = nodes.world.clock("a")
    began = clock.instant()
    nodes.world.run_until(lambda: not state(nodes).adding, limit_s=200)
    return (clock.instant() - began) / 1e9


def has_files(nodes: ClusterWorld, host: str) -> bool:
    directory = f"{nodes.controller.config.data_dir}/logs/orders"
    return "0" in nodes.world.disk(host).list_directory(directory)


def test_a_move_keeps_to_its_throttle_and_any_node_tells_how_far_it_is():
    with three_nodes() as nodes:
        fill(nodes)
        throttle(nodes, **{REASSIGNMENT_RATE: 4000})
        move(nodes, 2, 3)
        nodes.world.run(asyncio.sleep(6.0))
        for host in "abc":
            (moving,) = moves(nodes, host)
            (copy,) = moving.copies
            assert copy.node_id == 3
            assert 0 < copy.offset < SIZE
            assert 10_000 < copy.bytes_left < 60_000
            assert 2_000 < copy.bytes_per_second < 9_000
        assert seconds_until_moved(nodes) > 5.0
        assert state(nodes).replicas == (2, 3)
        assert moves(nodes, "a") == []
        received = nodes.brokers["c"].cluster.received_quota.reassigned_bytes
        assert received >= SIZE * 1000
        assert nodes.brokers["b"].cluster.sent_quota.reassigned_bytes >= SIZE * 1000


def test_the_throttle_of_moves_ends_after_the_last_one():
    with three_nodes() as nodes:
        fill(nodes)
        throttle(nodes, **{REASSIGNMENT_RATE: 1_000_000})
        move(nodes, 2, 3)
        nodes.world.run_until(lambda: not state(nodes).adding, limit_s=20)
        metadata = nodes.controller.metadata
        nodes.world.run_until(lambda: rate_of(metadata, REASSIGNMENT_RATE) is None, limit_s=30)


def test_kafkas_throttles_hold_for_the_replicas_that_a_topic_lists():
    for rate, listed, node in (
        (LEADER_RATE, "leader.replication.throttled.replicas", 2),
        (FOLLOWER_RATE, "follower.replication.throttled.replicas", 3),
    ):
        with three_nodes() as nodes:
            fill(nodes)
            throttle(nodes, **{rate: 8000})
            changes = {listed: f"0:{node}"}
            nodes.world.run(nodes.controller.change_settings("orders", changes))
            move(nodes, 2, 3)
            assert 4.0 < seconds_until_moved(nodes) < 30.0
        with three_nodes() as nodes:
            fill(nodes)
            throttle(nodes, **{rate: 8000})
            nodes.world.run(nodes.controller.change_settings("orders", {listed: "0:1"}))
            move(nodes, 2, 3)
            assert seconds_until_moved(nodes) < 4.0


def test_files_of_a_replica_that_moved_away_are_removed():
    with three_nodes() as nodes:
        fill(nodes)
        assert has_files(nodes, "b")
        move(nodes, 1, 3)
        nodes.world.run_until(lambda: state(nodes).replicas == (1, 3), limit_s=20)
        nodes.world.run_until(lambda: not has_files(nodes, "b"), limit_s=20)
        assert has_files(nodes, "a")
        assert has_files(nodes, "c")
        move(nodes, 2, 3)  # and back
        nodes.world.run_until(lambda: state(nodes).replicas == (2, 3), limit_s=20)
        nodes.world.run_until(lambda: not has_files(nodes, "a"), limit_s=20)
        assert set(state(nodes).isr) == {2, 3}


def test_files_of_a_replica_that_moved_while_its_node_was_down_are_removed_when_it_starts():
    with three_nodes() as nodes:
        fill(nodes)
        nodes.stop("b")
        nodes.world.run_until(lambda: nodes.state_of(2) == "fenced", limit_s=20)
        move(nodes, 1, 3)
        nodes.world.run_until(lambda: state(nodes).replicas == (1, 3), limit_s=20)
        assert has_files(nodes, "b")
        nodes.start("b")
        nodes.world.run_until(lambda: not has_files(nodes, "b"), limit_s=30)


def test_a_move_that_is_cancelled_leaves_what_was_there():
    with three_nodes() as nodes:
        fill(nodes)
        throttle(nodes, **{REASSIGNMENT_RATE: 1000})
        move(nodes, 3)
        nodes.world.run(asyncio.sleep(2.0))
        topic_id = nodes.controller.topic("orders").topic_id
        nodes.world.run(nodes.brokers["b"].reassign_partition(topic_id, 0, None))
        assert state(nodes).replicas == (2, 1)
        nodes.world.run_until(lambda: not has_files(nodes, "c"), limit_s=20)
        assert has_files(nodes, "b")
