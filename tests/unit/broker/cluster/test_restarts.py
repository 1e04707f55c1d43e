"""Nodes that start again, or are behind: one alone or all at once."""

import pytest

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.publish import Messages
from tests import queue_verbs
from tests.unit.broker.cluster.cluster_world import THREE, ClusterWorld
from tests.unit.broker.cluster.test_failover import create, leads, state, three_nodes


def test_a_node_starts_again_after_a_topic_was_deleted():
    """It reads of the deletion while it has no controller yet (seed 1 of the stories)."""
    with three_nodes() as nodes:
        nodes.world.run(nodes.controller.create_topic("gone", partitions=1))
        nodes.world.run(nodes.controller.delete_topic("gone"))
        nodes.world.run_until(lambda: not any(nodes.topics_seen.values()))
        nodes.stop("b")
        nodes.start("b")
        nodes.world.run_until(lambda: "b" in nodes.brokers, limit_s=30)
        assert nodes.topics_seen["b"] == []


def test_a_topic_is_deleted_at_a_node_that_has_not_heard_of_it_yet():
    async def delete_at_once() -> None:
        await nodes.controller.create_topic("new", partitions=1)
        assert not nodes.brokers["b"].has_topic("new")
        await nodes.brokers["b"].delete_topic("new")

    with three_nodes() as nodes:
        nodes.world.run(delete_at_once())
        assert nodes.topics_seen["a"] == nodes.topics_seen["b"] == []


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("shrinks", [False, True], ids=["at once", "one after the other"])
def test_all_nodes_start_again_with_messages_in_flight(power: bool, shrinks: bool):
    """Node 1 starts although nobody else has its queue ledgers yet: they wait for it (seed 109)."""

    async def receive(host: str) -> list[str]:
        queues = nodes.brokers[host].queues
        found = await queue_verbs.receive(queues, ["orders"], "g", "ann", max_messages=1)
        return [(each.record.value or b"").decode() for each in found]

    with three_nodes() as nodes:
        create(nodes, first=1)
        nodes.world.run_until(lambda: leads(nodes))
        messages = [OutgoingMessage(b"one"), OutgoingMessage(b"two")]
        nodes.world.run(Messages(nodes.controller).publish("orders", messages))
        assert nodes.world.run(receive("a")) == ["one"]
        for host in ("b", "c", "a"):
            nodes.stop(host, power=power)
            nodes.world.run_for(3.0 if shrinks else 0.0)
        nodes.start(*THREE)
        nodes.world.run_until(lambda: is_back(nodes), limit_s=30)
        assert nodes.world.run(receive("a")) == ["two"]


def is_back(nodes: ClusterWorld) -> bool:
    return len(nodes.brokers) == len(THREE) and leads(nodes) and len(state(nodes).isr) == len(THREE)
