"""Nodes that join, follow, and pass on what they may not decide, in a world where things break."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from goqueue.broker import Broker
from goqueue.model.errors import (
    DuplicateNodeId,
    GoQueueError,
    InvalidPartitions,
    NodeUnreachable,
    TopicExists,
    TopicNotFound,
    Uncertain,
)
from goqueue.model.ids import NodeId
from goqueue.testing.sim import World
from tests.unit.broker.cluster.cluster_hosts import PORT
from tests.unit.broker.cluster.cluster_world import ClusterWorld, running_broker


@contextmanager
def cluster(seed: int = 0, *hosts: str) -> Iterator[ClusterWorld]:
    with capture_logs(), World(seed) as world:
        cluster = ClusterWorld(world)
        cluster.start("a", *hosts)
        world.run_until(lambda: len(cluster.brokers) == 1 + len(hosts), limit_s=30)
        yield cluster


def epochs_of(nodes: ClusterWorld) -> dict[int, int]:
    return {each: node.epoch for each, node in nodes.controller.metadata.nodes.items()}


def test_nodes_join_and_follow():
    with cluster(0, "b", "c") as nodes:
        nodes.world.run(nodes.controller.create_topic("orders"))
        nodes.world.run_until(lambda: set(map(tuple, nodes.topics_seen.values())) == {("orders",)})
        seen = nodes.brokers["b"].metadata
        assert seen.cluster_id == nodes.controller.cluster_id
        assert sorted(seen.nodes) == [1, 2, 3]
        nodes.world.run_until(lambda: nodes.state_of(2) == nodes.state_of(3) == "active")
        epochs = epochs_of(nodes)
        nodes.world.run_for(5.0)
        assert epochs_of(nodes) == epochs
        assert [nodes.state_of(2), nodes.state_of(3)] == ["active", "active"]


def test_a_change_asked_for_at_a_follower_is_decided_by_the_controller_and_seen_here():
    async def story(node: Broker) -> None:
        verbs = node
        topic = await verbs.create_topic("orders", partitions=2, settings={"retention.ms": "5"})
        assert node.metadata.topic("orders") == topic
        assert (topic.partitions, topic.settings.retention_ms) == (2, 5)
        assert (await verbs.add_partitions("orders", 4)).partitions == 4
        changed = await verbs.change_settings("orders", {"retention.ms": None})
        assert changed.overrides == {}
        first = await verbs.reserve_producer_ids(10)
        assert await verbs.reserve_producer_ids(10) >= first + 10
        with pytest.raises(TopicExists):
            await verbs.create_topic("orders")
        with pytest.raises(InvalidPartitions):
            await verbs.add_partitions("orders", 1)
        with pytest.raises(TopicNotFound):
            await verbs.delete_topic("others")
        await verbs.delete_topic("orders")
        assert node.metadata.find("orders") is None

    with cluster(0, "b") as nodes:
        nodes.world.run(story(nodes.brokers["b"]))
        assert nodes.controller.topics() == []


def test_a_node_that_is_killed_is_fenced_at_once_and_comes_back():
    with cluster(0, "b", "c") as nodes:
        nodes.world.run_until(lambda: nodes.state_of(2) == nodes.state_of(3) == "active")
        before = nodes.world.loop.time()
        nodes.stop("b")
        nodes.world.run_until(lambda: nodes.state_of(2) == "fenced", limit_s=5)
        assert nodes.world.loop.time() - before < 0.5  # a session is a second
        nodes.start("b")
        nodes.world.run_until(lambda: nodes.state_of(2) == "active", limit_s=10)
        assert nodes.state_of(3) == "active"


@pytest.mark.parametrize("one_way", [False, True])
def test_a_node_that_is_cut_off_is_fenced_after_its_session(one_way: bool):
    with cluster(1, "b", "c") as nodes:
        world = nodes.world
        world.run_until(lambda: nodes.state_of(2) == nodes.state_of(3) == "active")
        before = world.loop.time()
        world.fabric.cut("b", "a", one_way=one_way)
        world.run_until(lambda: nodes.state_of(2) == "fenced", limit_s=5)
        assert 0.6 <= world.loop.time() - before < 1.2
        assert nodes.state_of(3) == "active"
        world.fabric.heal()
        world.run_until(lambda: nodes.state_of(2) == "active", limit_s=20)


def test_nodes_that_are_gone_when_the_controller_starts_are_fenced():
    with cluster(0, "b", "c") as nodes:
        nodes.world.run_until(lambda: nodes.state_of(2) == nodes.state_of(3) == "active")
        nodes.stop("a")
        nodes.stop("b")
        nodes.start("a")
        nodes.world.run_until(lambda: nodes.state_of(2) == "fenced", limit_s=10)
        assert nodes.state_of(3) == "active"


def test_without_its_controller_a_follower_shows_what_it_knows_and_changes_nothing():
    with cluster(0, "b") as nodes:
        node = nodes.brokers["b"]
        nodes.world.run(node.create_topic("kept"))
        nodes.stop("a", power=True)
        with pytest.raises((NodeUnreachable, Uncertain)):
            nodes.world.run(node.create_topic("refused"))
        assert [topic.name for topic in node.topics()] == ["kept"]
        nodes.start("a")
        nodes.world.run_until(lambda: node.cluster.is_heard, limit_s=30)
        nodes.world.run(node.create_topic("later"))
        assert (
            sorted(node.metadata.topics)[-2:] == ["kept", "later"]
            or "refused" in node.metadata.topics
        )
        nodes.world.run_until(lambda: nodes.state_of(2) == "active", limit_s=10)


def test_a_second_process_with_the_number_of_a_running_node_does_not_start():
    """With a copy of its disk, or an empty one: the first one goes on, with all its replicas."""

    async def second(nodes: ClusterWorld) -> None:
        async with running_broker(nodes.world.environment("d"), 2, "d"):
            raise AssertionError("let in")

    with cluster(0, "b") as nodes:
        with pytest.raises(DuplicateNodeId, match=r"is running already, at b:.*stop it first"):
            nodes.world.run(second(nodes))
        content = nodes.world.disk("b").read_file("/data/node.meta")
        assert content is not None
        copy = nodes.world.environment("d").disk
        copy.make_directory("/data")
        copy.replace_file("/data/node.meta", content)
        with pytest.raises(DuplicateNodeId, match="is running already"):
            nodes.world.run(second(nodes))
        nodes.world.run_for(3.0)
        assert nodes.problems == {}


def test_a_node_with_another_disk_takes_the_place_of_one_that_is_gone():
    """It holds nothing that nobody else has: see `cluster.controller.registration`."""

    async def second(nodes: ClusterWorld) -> None:
        async with running_broker(nodes.world.environment("d"), 2, "d") as broker:
            await until(lambda: broker.metadata.nodes.active(NodeId(2)))

    with cluster(0, "b") as nodes:
        nodes.stop("b")
        nodes.world.run(second(nodes))


def test_a_node_that_was_removed_stops():
    async def remove(nodes: ClusterWorld) -> None:
        await nodes.controller.change_node(NodeId(2), "remove")
        await until(lambda: "b" in nodes.problems)

    with cluster(0, "b") as nodes:
        nodes.world.run(remove(nodes))
        assert "was removed from the cluster" in str(nodes.problems["b"])


def test_a_controller_that_was_away_gives_the_others_time_to_find_it(seed: int):
    async def states(nodes: ClusterWorld) -> set[str]:
        found = set()
        for _ in range(100):
            found.add(nodes.state_of(2))
            await asyncio.sleep(0.05)
        return found

    with cluster(seed, "b") as nodes:
        nodes.world.run_until(lambda: nodes.state_of(2) == "active")
        nodes.stop("a")
        nodes.world.run_for(10.0 + seed / 7)  # by now the other one tries once a second
        nodes.start("a")
        nodes.world.run_until(lambda: "a" in nodes.brokers)
        assert nodes.world.run(states(nodes)) == {"active"}


def test_a_node_waits_for_its_seed_and_says_so():
    async def late(nodes: ClusterWorld) -> None:
        nodes.stop("a")
        nodes.stop("b")
        nodes.start("b")
        with capture_logs() as told:
            await asyncio.sleep(60.0)
        assert nodes.problems == {}
        waiting = next(each for each in told if each["event"] == "waiting for the controller")
        assert waiting["addresses"] == [f"a:{PORT}"]
        nodes.start("a")
        await until(lambda: nodes.state_of(2) == "active" and "b" in nodes.brokers)

    with cluster(0, "b") as nodes:
        nodes.world.run(late(nodes))


def test_a_node_with_another_secret_does_not_start():
    async def stranger(nodes: ClusterWorld) -> None:
        guess = b"a guess at the secret"
        async with running_broker(nodes.world.environment("d"), 4, "d", guess):
            raise AssertionError("let in")

    with cluster() as nodes, pytest.raises(GoQueueError, match="different secrets"):
        nodes.world.run(stranger(nodes))


def test_followers_agree_with_the_controller_whatever_breaks(seed: int):
    """Topics are made at all nodes; each is made once, or its maker is told that it may not be."""

    async def make(host: str, done: list[str], undone: list[str]) -> None:
        for number in range(12):
            name = f"{host}{number}"
            node = nodes.brokers.get(host)
            try:
                if node is not None:
                    await node.create_topic(name, partitions=1)
                    done.append(name)
            except NodeUnreachable:
                undone.append(name)
            except GoQueueError:
                pass  # told that nobody knows
            await asyncio.sleep(nodes.world.random.uniform(0.0, 0.6))

    def break_something() -> None:
        fabric, draw = nodes.world.fabric, nodes.world.random
        one, other = draw.sample(["a", "b", "c"], 2)
        match draw.randrange(6):
            case 0:
                fabric.cut(one, other)
            case 1:
                fabric.cut(one, other, one_way=True)
            case 2:
                fabric.reset(one)
            case 3:
                fabric.isolate(one)
            case 4:
                nodes.stop(one)
            case _:
                nodes.stop(one, power=True)

    async def story() -> None:
        making = asyncio.gather(make("b", done, undone), make("c", done, undone))
        while not making.done():
            await asyncio.sleep(nodes.world.random.uniform(0.2, 1.5))
            break_something()
            await asyncio.sleep(nodes.world.random.uniform(0.2, 2.0))
            nodes.world.fabric.heal()
            nodes.start("a", "b", "c")
        await making

    done, undone = list[str](), list[str]()
    with cluster(seed, "b", "c") as nodes:
        nodes.world.run(story())

        def agree() -> bool:
            if len(nodes.brokers) < 3:
                return False
            names = sorted(topic.name for topic in nodes.controller.topics())
            return all(seen == names for seen in nodes.topics_seen.values())

        nodes.world.run_until(agree, limit_s=60)
        there = nodes.topics_seen["b"]
        assert set(done) <= set(there)
        assert not set(undone) & set(there)


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("not within half a minute")
