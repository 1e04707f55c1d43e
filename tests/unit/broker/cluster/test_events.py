"""What happened in the cluster, as its nodes have seen it: brokers in the simulator."""

from goqueue.broker.cluster.events import EVENTS_MAX, ClusterEvents
from goqueue.cluster.metadata import FeatureLevel, Metadata
from goqueue.model.ids import NodeId
from goqueue.testing.sim import World
from tests.unit.broker.cluster.cluster_world import ClusterWorld
from tests.unit.broker.cluster.test_failover import create, leads, state, three_nodes
from tests.unit.broker.cluster.test_reassignments import fill


def kinds(nodes: ClusterWorld, host: str) -> list[str]:
    """Of nodes, and of the topic."""
    events = [each.event for each in nodes.brokers[host].events.after()]
    return [each.kind for each in events if each.topic in ("orders", None)]


def texts(nodes: ClusterWorld, host: str) -> list[str]:
    return [each.event.text for each in nodes.brokers[host].events.after()]


def test_every_node_sees_a_failover_in_its_order():
    with three_nodes() as nodes:
        create(nodes)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.stop("b")
        nodes.world.run_until(lambda: state(nodes).leader in (1, 3) and leads(nodes), limit_s=10)
        nodes.start("b")
        nodes.world.run_until(lambda: set(state(nodes).isr) == {1, 2, 3}, limit_s=30)
        for host in "ac":
            nodes.world.run_until(lambda: "isr_expanded" in kinds(nodes, host), limit_s=5)  # noqa: B023
            seen = kinds(nodes, host)
            places = [
                seen.index("topic_created"),
                seen.index("leader_elected"),
                seen.index("isr_shrunk"),
                seen.index("node_fenced"),
                len(seen) - 1 - seen[::-1].index("node_registered"),
                len(seen) - 1 - seen[::-1].index("isr_expanded"),
            ]
            assert places == sorted(places), texts(nodes, host)
        assert "orders-0: node 2 is in sync; in sync: 2, 1, 3" in texts(nodes, "a")


def test_a_move_begins_and_ends():
    with three_nodes() as nodes:
        fill(nodes)
        topic_id = nodes.controller.topic("orders").topic_id
        wanted = [NodeId(3), NodeId(1), NodeId(2)]
        nodes.world.run(nodes.controller.reassign_partition(topic_id, 0, wanted))
        nodes.world.run_until(lambda: not state(nodes).adding, limit_s=20)
        told = [
            each
            for each in texts(nodes, "a")
            if "orders-0: moves" in each or "orders-0: is on" in each
        ]
        assert told == ["orders-0: moves to nodes 3, 1, 2", "orders-0: is on nodes 3, 1, 2"]


def test_a_node_that_starts_again_does_not_tell_old_events():
    with three_nodes() as nodes:
        create(nodes)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.stop("c")
        nodes.world.run_until(lambda: nodes.state_of(3) == "fenced", limit_s=20)
        nodes.start("c")
        nodes.world.run_until(lambda: nodes.state_of(3) == "active", limit_s=20)
        assert "topic_created" not in kinds(nodes, "c")


def test_only_so_many_are_kept_and_all_are_counted():
    with World() as world:
        events, metadata = ClusterEvents(world.clock("a")), Metadata({}, 10)
        events.note(metadata, FeatureLevel("x", 1))  # of earlier times
        events.begin()
        for level in range(EVENTS_MAX + 5):
            events.note(metadata, FeatureLevel("x", level))
        kept = events.after()
        assert len(kept) == EVENTS_MAX
        assert [each.number for each in kept[:1]] == [6]
        assert events.counts["feature_raised"] == EVENTS_MAX + 5
        assert events.after(EVENTS_MAX + 4) == kept[-1:]
