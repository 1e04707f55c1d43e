"""Groups and transactions are coordinated by who leads their topics, and outlive that node."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from goqueue.broker import Broker
from goqueue.broker.cluster.coordinator_topics import COORDINATED, GROUPS_TOPIC, TRANSACTIONS_TOPIC
from goqueue.cluster import controller
from goqueue.cluster.metadata import PartitionState
from goqueue.groups import CommitRequest, FetchRequest, OffsetToCommit
from goqueue.model.errors import NotCoordinator, PolicyViolation
from goqueue.model.ids import GroupId, NodeId, Offset, TopicName, TopicPartition
from goqueue.testing.sim import World
from goqueue.txn import ProducerIdentity
from tests.unit.broker.brokers import publish, running, values_in
from tests.unit.broker.cluster.cluster_world import NUMBERS, ClusterWorld

GROUP = GroupId("readers")
PLACE = TopicPartition(TopicName("orders"), 0)


@contextmanager
def three_nodes(seed: int = 0) -> Iterator[ClusterWorld]:
    """The topics of the coordinators are on all of them."""
    with capture_logs(), World(seed) as world:
        nodes = ClusterWorld(world)
        nodes.start("a", "b", "c")
        world.run_until(lambda: all(is_everywhere(nodes, name) for name in COORDINATED), limit_s=60)
        yield nodes


def state(nodes: ClusterWorld, name: str) -> PartitionState | None:
    metadata = nodes.controller.metadata if "a" in nodes.brokers else None
    topic = None if metadata is None else metadata.find(name)
    return None if metadata is None or topic is None else metadata.partition(topic.topic_id, 0)


def is_everywhere(nodes: ClusterWorld, name: str) -> bool:
    found = state(nodes, name)
    return found is not None and set(found.isr) == {1, 2, 3} and not found.adding


def move(nodes: ClusterWorld, name: str, host: str) -> None:
    """Let the node on that host lead the topic."""
    topic = nodes.controller.metadata.topic(name)
    number = NodeId(NUMBERS[host])
    replicas = [number, *(NodeId(each) for each in (1, 2, 3) if each != number)]
    change = nodes.controller.change_partition

    async def work() -> None:
        await change(lambda metadata: controller.reassign(metadata, topic.topic_id, 0, replicas))
        await change(
            lambda metadata: controller.elect_leader(metadata, topic.topic_id, 0, "preferred")
        )

    nodes.world.run(work())


def coordinating(
    nodes: ClusterWorld, is_coordinating: Callable[[Broker], bool], *hosts: str
) -> Broker:
    """The broker on one of these hosts that coordinates by now."""

    def found() -> list[Broker]:
        there = [nodes.brokers[host] for host in hosts if host in nodes.brokers]
        return [broker for broker in there if is_coordinating(broker)]

    nodes.world.run_until(lambda: bool(found()), limit_s=60)
    return found()[0]


def coordinates_groups(broker: Broker) -> bool:
    return broker.groups.is_coordinating


def coordinates_transactions(broker: Broker) -> bool:
    return broker.transactions.is_coordinating


async def commit(broker: Broker, offset: int, group: GroupId = GROUP) -> None:
    wanted = OffsetToCommit(PLACE.topic, PLACE.partition, Offset(offset))
    await broker.groups.commit(CommitRequest(group_id=group, offsets=(wanted,)))


async def committed(broker: Broker, group: GroupId = GROUP) -> int | None:
    (fetched,) = await broker.groups.fetch([FetchRequest(group_id=group)])
    found = fetched.offsets.get(PLACE)
    return None if found is None else found.offset


def offset_ahead(broker: Broker) -> int | None:
    (fetched,) = broker.groups.host.ahead.fetch([FetchRequest(group_id=GROUP)]).reply.reply
    found = fetched.offsets.get(PLACE)
    return None if found is None else found.offset


def test_committed_offsets_survive_the_death_of_their_coordinator():
    with three_nodes() as nodes:
        run = nodes.world.run
        run(nodes.controller.create_topic("orders", partitions=1))
        first = coordinating(nodes, coordinates_groups, "a")
        run(commit(first, 3))
        move(nodes, GROUPS_TOPIC, "b")
        second = coordinating(nodes, coordinates_groups, "b")
        assert not first.groups.is_coordinating
        assert run(committed(second)) == 3
        for number in range(20):
            run(commit(second, number, GroupId(f"group-{number}")))
        run(second.groups.host.take_snapshot())
        run(commit(second, 7))
        nodes.stop("b", power=True)
        third = coordinating(nodes, coordinates_groups, "a", "c")
        assert run(committed(third)) == 7
        assert run(committed(third, GroupId("group-19"))) == 19, "out of the snapshot"
        run(commit(third, 9))
        nodes.start("b")
        nodes.world.run_until(lambda: is_everywhere(nodes, GROUPS_TOPIC), limit_s=60)
        assert run(committed(third)) == 9


def test_every_node_names_the_coordinator_and_the_others_refuse():
    with three_nodes() as nodes:
        move(nodes, GROUPS_TOPIC, "c")
        coordinating(nodes, coordinates_groups, "c")
        nodes.world.run_until(
            lambda: {each.group_coordinator("x") for each in nodes.brokers.values()} == {3}
        )
        assert {each.transaction_coordinator("x") for each in nodes.brokers.values()} == {1}
        for host in "ab":
            with pytest.raises(NotCoordinator):
                nodes.world.run(commit(nodes.brokers[host], 1))
            assert len(nodes.brokers[host].hosts()) >= 1


def test_an_open_transaction_survives_the_death_of_its_coordinator():
    with three_nodes() as nodes:
        run = nodes.world.run
        run(nodes.controller.create_topic("orders", partitions=1, assignments=[[NodeId(1)]]))
        run(publish(nodes.controller, "orders", "before"))
        move(nodes, TRANSACTIONS_TOPIC, "b")
        second = coordinating(nodes, coordinates_transactions, "b")
        who = run(begin(second))
        nodes.stop("b", power=True)
        third = coordinating(nodes, coordinates_transactions, "a", "c")
        assert third.transactions.ahead.get("writer").state.name == "ONGOING"
        assert run(end(third, who))
        assert third.transactions.host.epoch > 0, "markers carry the leader's epoch"


async def begin(broker: Broker) -> ProducerIdentity:
    who = await broker.transactions.init("writer", timeout_ms=60_000)
    await broker.transactions.begin("writer", who)
    await broker.transactions.add_partitions("writer", who, [PLACE])
    return who


async def end(broker: Broker, who: ProducerIdentity) -> bool:
    await broker.transactions.end("writer", who, commits=True, bumps_epoch=False)
    return await broker.transactions.wait_completed("writer")


def test_groups_hear_of_topics_wherever_they_are_coordinated():
    with three_nodes() as nodes:
        run = nodes.world.run
        move(nodes, GROUPS_TOPIC, "b")
        second = coordinating(nodes, coordinates_groups, "b")
        run(nodes.controller.create_topic("orders", partitions=1))
        nodes.world.run_until(lambda: second.has_topic("orders"))
        run(commit(second, 3))
        assert run(committed(second)) == 3
        run(nodes.controller.delete_topic("orders"))
        nodes.world.run_until(lambda: offset_ahead(second) is None, limit_s=10)


def test_the_topics_of_coordinators_are_nobody_elses():
    with three_nodes() as nodes:
        run, broker = nodes.world.run, nodes.controller
        for name in COORDINATED:
            for work in (
                broker.delete_topic(name),
                broker.change_settings(name, {"retention.ms": "1"}),
                broker.add_partitions(name, 5),
            ):
                with pytest.raises(PolicyViolation):
                    run(work)
        assert broker.topics() == []


def test_a_broker_that_was_alone_keeps_its_groups_in_a_cluster():
    with capture_logs(), World(0) as world:

        async def alone() -> None:
            async with running(world.environment("a")) as broker:
                await broker.create_topic("orders", partitions=1)
                await publish(broker, "orders", "one")
                await commit(broker, 1)
                assert broker.metadata.find(GROUPS_TOPIC) is None, "nobody copies it"

        world.run(alone())
        nodes = ClusterWorld(world)
        nodes.start("a", "b", "c")
        world.run_until(lambda: all(is_everywhere(nodes, name) for name in COORDINATED), limit_s=60)
        assert world.run(committed(coordinating(nodes, coordinates_groups, "a"))) == 1
        move(nodes, GROUPS_TOPIC, "c")
        assert world.run(committed(coordinating(nodes, coordinates_groups, "c"))) == 1
        assert world.run(values_in(world.run(nodes.controller.partition("orders", 0)))) == ["one"]


def test_the_only_node_with_the_coordinators_starts_again_after_it_had_left():
    with capture_logs(), World(0) as world:
        nodes = ClusterWorld(world)
        nodes.start("a")
        world.run_until(lambda: "a" in nodes.brokers, limit_s=30)
        for _ in range(2):
            world.run(nodes.controller.cluster.leave())
            nodes.stop("a")
            nodes.start("a")
            world.run_until(lambda: "a" in nodes.brokers, limit_s=30)
            assert nodes.controller.groups.is_coordinating
            assert nodes.controller.transactions.is_coordinating
