"""The cluster as Prometheus sees it: brokers in the simulator, each value moved by a fault."""

import re

from goqueue.broker import Broker
from goqueue.cluster.throttles import REASSIGNMENT_RATE
from goqueue.server.cluster_metrics import ClusterCollector
from tests.unit.broker.cluster.cluster_world import ClusterWorld
from tests.unit.broker.cluster.test_failover import state, three_nodes
from tests.unit.broker.cluster.test_reassignments import fill, move, throttle


def values(nodes: ClusterWorld, host: str) -> dict[str, float]:
    """Samples by name, and by the value of their label."""

    async def scrape(broker: Broker) -> dict[str, float]:
        return {
            " ".join((sample.name.removeprefix("goqueue_"), *sample.labels.values())): sample.value
            for family in ClusterCollector(broker).collect()
            for sample in family.samples
        }

    return nodes.world.run(scrape(nodes.brokers[host]))


def test_a_node_that_dies_moves_the_values_that_alerts_look_at():
    with three_nodes() as nodes:
        fill(nodes)
        nodes.world.run_until(lambda: set(state(nodes).isr) == {1, 2}, limit_s=10)
        before = values(nodes, "a")
        assert before["cluster_nodes active"] == 3
        assert before["cluster_controller"] == 1
        assert values(nodes, "b")["cluster_controller"] == 0
        nodes.stop("b")
        nodes.world.run_until(lambda: state(nodes).leader == 1, limit_s=20)
        after = values(nodes, "a")
        assert after["cluster_nodes fenced"] == 1
        assert after["cluster_under_replicated_partitions"] > 0
        assert after["isr_shrinks_total"] > before["isr_shrinks_total"]
        assert after["leader_elections_total clean"] > before["leader_elections_total clean"]
        assert after["leader_elections_total unclean"] == 0
        assert after["node_fences_total"] == 1
        assert after["cluster_led_partitions"] > before["cluster_led_partitions"]
        nodes.world.run_for(1.0)  # until it leads
        assert values(nodes, "a")["replication_lag_offsets 2"] > 0
        assert values(nodes, "a")["replication_lag_seconds 2"] >= 0
        nodes.start("b")
        nodes.world.run_until(lambda: len(state(nodes).isr) == 2, limit_s=30)
        assert values(nodes, "a")["isr_expands_total"] > after["isr_expands_total"]


def test_moves_are_counted_at_both_ends_and_what_is_left_falls():
    with three_nodes() as nodes:
        fill(nodes)
        throttle(nodes, **{REASSIGNMENT_RATE: 8000})
        move(nodes, 2, 3)
        nodes.world.run_for(2.0)
        left = values(nodes, "b")["reassignment_left_bytes"]
        assert left > 10_000
        assert values(nodes, "a")["cluster_reassigning_partitions"] >= 1
        nodes.world.run_until(lambda: not state(nodes).adding, limit_s=60)
        assert values(nodes, "b")["reassignment_left_bytes"] == 0
        assert values(nodes, "b")["reassignment_bytes_total sent"] >= 64_000
        assert values(nodes, "c")["reassignment_bytes_total received"] >= 64_000


def test_names_are_prometheus_names():
    with three_nodes() as nodes:
        names = values(nodes, "a")
        assert all(re.fullmatch(r"[a-z_]+( \w+)?", each) for each in names)
