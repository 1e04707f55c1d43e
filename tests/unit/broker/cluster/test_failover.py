"""Whole brokers in the simulator that copy a topic from each other, and die."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import Outcome, OutgoingMessage, Published
from goqueue.broker.messages.publish import Messages
from goqueue.cluster import controller
from goqueue.cluster.metadata import PartitionState
from goqueue.cluster.replication import Leader
from goqueue.model.errors import GoQueueError, NotLeader, Uncertain
from goqueue.model.ids import NodeId
from goqueue.testing.sim import World
from tests import queue_verbs
from tests.unit.broker.brokers import publish, values_in
from tests.unit.broker.cluster.cluster_world import HOSTS, NUMBERS, ClusterWorld


@contextmanager
def three_nodes(seed: int = 0, coordinators: int = 1) -> Iterator[ClusterWorld]:
    with capture_logs(), World(seed) as world:
        nodes = ClusterWorld(world, coordinators=coordinators)
        nodes.start("a", "b", "c")
        world.run_until(lambda: all_active(nodes), limit_s=30)
        yield nodes


def all_active(nodes: ClusterWorld) -> bool:
    return all(nodes.state_of(NUMBERS[host]) == "active" for host in nodes.hosts)


def state(nodes: ClusterWorld, topic: str = "orders") -> PartitionState:
    metadata = nodes.controller.metadata
    return metadata.partition(metadata.topic(topic).topic_id, 0)


def leader(nodes: ClusterWorld) -> Broker:
    return nodes.brokers[HOSTS[state(nodes).leader]]


def values(nodes: ClusterWorld) -> list[str]:
    async def read() -> list[str]:
        return await values_in(await leader(nodes).partition("orders", 0))

    return nodes.world.run(read())


def create(nodes: ClusterWorld, first: int = 2) -> None:
    """A topic that the node `first` leads."""
    replicas = [first, *(each for each in (1, 2, 3) if each != first)]
    nodes.world.run(nodes.controller.create_topic("orders", partitions=1, assignments=[replicas]))  # type: ignore[list-item]


def test_what_is_committed_survives_its_leader():
    with three_nodes() as nodes:
        create(nodes)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.world.run(publish(nodes.brokers["b"], "orders", "one", "two"))
        nodes.stop("b", power=True)
        nodes.world.run_until(lambda: state(nodes).leader in (1, 3) and leads(nodes), limit_s=10)
        assert values(nodes) == ["one", "two"]
        nodes.world.run(publish(leader(nodes), "orders", "three"))
        nodes.start("b")
        nodes.world.run_until(lambda: set(state(nodes).isr) == {1, 2, 3}, limit_s=30)
        assert values(nodes) == ["one", "two", "three"]


def test_a_publish_at_another_node_goes_to_the_next_leader():
    """Whoever asks between a death and the election waits for it, and hears of no error."""
    with three_nodes() as nodes:
        create(nodes)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.stop("b", power=True)
        (found,) = nodes.world.run(publish_at(nodes, "c", "one"))
        assert isinstance(found, Published)
        assert values(nodes) == ["one"]


def test_a_publish_that_a_dead_leader_may_have_done_is_told_so_once_that_is_known():
    with three_nodes() as nodes:
        create(nodes)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.world.run(publish_at(nodes, "c", "one"))  # there is a connection now
        nodes.stop("b", power=True)
        before = nodes.world.clock("c").instant()
        (found,) = nodes.world.run(publish_at(nodes, "c", "two"))
        assert isinstance(found, Uncertain)
        assert nodes.world.clock("c").instant() - before < 5e9


async def publish_at(nodes: ClusterWorld, host: str, value: str) -> list[Outcome]:
    messages = {each: Messages(broker) for each, broker in nodes.brokers.items()}  # they serve
    return await messages[host].publish("orders", [OutgoingMessage(value.encode())])


@pytest.mark.parametrize("number", range(2))
def test_no_publisher_notices_that_the_leader_changes(number: int):
    """Each message is there once, and nobody hears of an error."""
    with three_nodes(number) as nodes:
        create(nodes)
        nodes.world.run_until(lambda: set(state(nodes).isr) == {1, 2, 3} and leads(nodes))
        nodes.world.run_until(lambda: all("orders" in each for each in nodes.topics_seen.values()))
        messages = {host: Messages(broker) for host, broker in nodes.brokers.items()}
        found: dict[str, Outcome] = {}

        async def publish_on(host: str) -> None:
            for each in range(150):
                value = f"{host}{each}"
                (found[value],) = await messages[host].publish(
                    "orders", [OutgoingMessage(value.encode())]
                )

        async def change_leaders() -> None:
            for node in (2, 1, 3, 2):
                for change in ("drain", "undrain"):
                    await asyncio.sleep(0.05)
                    await nodes.controller.change_node(NodeId(node), change)

        async def all_at_once() -> None:
            await asyncio.gather(*map(publish_on, "abc"), change_leaders())

        nodes.world.run(all_at_once())
        assert not [each for each in found.values() if not isinstance(each, Published)]
        nodes.world.run_until(lambda: leads(nodes))
        assert sorted(values(nodes)) == sorted(found)
        assert state(nodes).leader_epoch >= 3


def leads(nodes: ClusterWorld) -> bool:
    if HOSTS.get(state(nodes).leader) not in nodes.brokers:
        return False
    found = leader(nodes).partitions.find_open("orders", 0)
    return found is not None and found.leads and not found.log.high_watermark < found.log.end_offset


def test_another_node_refuses_and_says_who_leads():
    with three_nodes() as nodes:
        create(nodes, 3)
        nodes.world.run_until(lambda: "orders" in nodes.topics_seen["b"])
        with pytest.raises(NotLeader) as refusal:
            nodes.world.run(publish(nodes.brokers["b"], "orders", "lost"))
        assert refusal.value.leader == (3, 0)


def test_without_enough_replicas_nothing_is_acknowledged():
    with three_nodes() as nodes:
        create(nodes, 1)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.stop("b")
        nodes.stop("c")
        nodes.world.run_until(lambda: state(nodes).isr == (1,), limit_s=30)
        with pytest.raises(GoQueueError, match="in sync"):
            nodes.world.run(asyncio.wait_for(publish(nodes.controller, "orders", "lost"), 5))
        nodes.start("b")
        nodes.world.run_until(lambda: len(state(nodes).isr) == 2, limit_s=30)
        nodes.world.run(publish(nodes.controller, "orders", "kept"))
        assert values(nodes)[-1] == "kept"


def test_a_node_that_leads_a_queue_starts_without_waiting_for_its_followers():
    """They cannot reach it before it listens."""

    async def receive() -> None:
        found = await queue_verbs.receive(nodes.controller.queues, ["orders"], "g", "c")
        assert len(found) == 2

    with three_nodes() as nodes:
        create(nodes, 1)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.world.run(publish(nodes.controller, "orders", "one", "two"))
        nodes.world.run(receive())
        nodes.stop("a")
        nodes.start("a")
        nodes.world.run_until(lambda: "a" in nodes.brokers, limit_s=30)
        nodes.world.run_until(lambda: set(state(nodes).isr) == {1, 2, 3}, limit_s=30)


def test_a_node_that_stops_hands_over_first_and_leads_again_later():
    with three_nodes() as nodes:
        create(nodes)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.world.run(publish(nodes.brokers["b"], "orders", "one"))
        nodes.world.run(nodes.brokers["b"].cluster.hand_over())
        assert state(nodes).leader in (1, 3)
        assert set(state(nodes).isr) == {1, 2, 3}
        with pytest.raises(NotLeader):
            nodes.world.run(publish(nodes.brokers["b"], "orders", "lost"))
        nodes.world.run_until(lambda: leads(nodes))
        nodes.world.run(publish(leader(nodes), "orders", "two"))
        nodes.world.run_for(60)
        assert state(nodes).leader in (1, 3)  # it is about to stop
        nodes.stop("b")
        nodes.start("b")
        nodes.world.run_until(lambda: state(nodes).leader == 2 and leads(nodes), limit_s=90)
        assert values(nodes) == ["one", "two"]


def test_commits_do_not_wait_for_a_node_that_said_that_it_stops():
    """Also when it is the one that decides: nobody could leave it out later."""
    with three_nodes() as nodes:
        create(nodes)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.world.run(nodes.controller.cluster.hand_over())
        nodes.world.run(nodes.controller.cluster.leave())
        assert set(state(nodes).isr) == {2, 3}
        nodes.world.run_until(lambda: role_isr(nodes) == {2, 3})
        nodes.stop("a")
        nodes.world.run(publish(nodes.brokers["b"], "orders", "one"))
        nodes.start("a")
        nodes.world.run_until(lambda: "a" in nodes.brokers and leads(nodes), limit_s=30)
        nodes.world.run_until(lambda: set(state(nodes).isr) == {1, 2, 3}, limit_s=30)
        assert values(nodes) == ["one"]


def role_isr(nodes: ClusterWorld) -> set[int]:
    """As the leader on node 2 knows it."""
    bundle = nodes.brokers["b"].partitions.used_bundle("orders", 0)
    assert bundle is not None
    assert isinstance(bundle.role, Leader)
    return set(bundle.role.isr)


def test_a_partition_that_gets_more_replicas_survives_its_first_one():
    with three_nodes() as nodes:
        placed = [[NodeId(2)]]
        nodes.world.run(nodes.controller.create_topic("orders", partitions=1, assignments=placed))
        nodes.world.run_until(lambda: "orders" in nodes.topics_seen["b"])
        nodes.world.run(publish(nodes.brokers["b"], "orders", "one"))
        topic = nodes.controller.topic("orders")
        replicas = [NodeId(2), NodeId(3), NodeId(1)]
        nodes.world.run(
            nodes.controller.change_partition(
                lambda metadata: controller.reassign(metadata, topic.topic_id, 0, replicas)
            )
        )
        nodes.world.run_until(lambda: set(state(nodes).isr) == {1, 2, 3}, limit_s=30)
        log = nodes.brokers["b"].partitions.find_open("orders", 0)
        assert log is not None
        assert log.log.replica is not None  # it may have to cut what was not committed
        nodes.world.run(publish(nodes.brokers["b"], "orders", "two"))
        nodes.stop("b", power=True)
        nodes.world.run_until(lambda: state(nodes).leader in (1, 3) and leads(nodes), limit_s=10)
        assert values(nodes) == ["one", "two"]
