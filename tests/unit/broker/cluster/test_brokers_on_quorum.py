"""Whole brokers that elect their controller, on the model of a quorum."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from goqueue.broker import Broker
from goqueue.broker.cluster.coordinator_topics import COORDINATED
from goqueue.cluster.consensus import ConsensusLog
from goqueue.cluster.replication import Leader
from goqueue.groups import CommitRequest, FetchRequest, OffsetToCommit
from goqueue.model.config import Address, Config
from goqueue.model.errors import (
    GoQueueError,
    LeadershipLost,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeader,
    QuorumUnavailable,
    TopicNotFound,
    WrongDataDirectory,
)
from goqueue.model.ids import GroupId, NodeId, Offset, TopicName, TopicPartition
from goqueue.runtime import Environment
from goqueue.runtime.tasks import owned_tasks
from goqueue.server.cluster.node import cluster_listener
from goqueue.server.server_log import ServerLog
from goqueue.testing.sim import World
from goqueue.testing.sim.consensus import SimQuorum
from tests.unit.broker.brokers import CONFIG, publish, values_in
from tests.unit.broker.cluster.cluster_hosts import PORT, NoMetrics

HOSTS = {"a": 1, "b": 2, "c": 3}
READERS = GroupId("readers")


def config_of(number: int) -> Config:
    cluster = msgspec.structs.replace(
        CONFIG.cluster, listen=f"0.0.0.0:{PORT}", quorum="etcd://quorum:2379", coordinators=2
    )
    return msgspec.structs.replace(CONFIG, node_id=number, cluster=cluster)


class BrokerOnQuorum(Broker):
    quorum_log: ConsensusLog

    async def open_metadata_log(self) -> ConsensusLog:
        return self.quorum_log


class Brokers:
    def __init__(self, world: World) -> None:
        self.world = world
        self.quorum = SimQuorum(world.seed)
        self.up: dict[str, Broker] = {}
        self.problems: dict[str, GoQueueError] = {}
        self._stops: dict[str, asyncio.Event] = {}

    def start(self, *hosts: str) -> None:
        for host in hosts:
            self.world.start(host, partial(self._run, host))

    def kill(self, host: str) -> None:
        self.world.kill(host)
        del self.up[host]

    def terminate(self, host: str) -> None:
        self._stops[host].set()
        self.world.run_until(lambda: not self.world.alive(host), limit_s=30)

    @asynccontextmanager
    async def _running(self, host: str, environment: Environment) -> Any:
        broker = BrokerOnQuorum(environment, config_of(HOSTS[host]))
        broker.quorum_log = self.quorum.connect(host)
        async with broker.running(), owned_tasks() as tasks:
            listener = cluster_listener(broker, NoMetrics(), ServerLog())
            assert listener is not None
            await listener.start(tasks)
            try:
                await broker.announce({"cluster": Address(host, PORT)}, f"machine of {host}")
                yield broker
            finally:
                await listener.stop(0.1)

    async def _run(self, host: str, environment: Environment) -> None:
        self._stops[host] = stop = asyncio.Event()
        try:
            async with self._running(host, environment) as broker:
                self.up[host] = broker
                await stop.wait()
        except GoQueueError as error:
            self.problems[host] = error
        self.up.pop(host, None)

    @property
    def leaders(self) -> list[str]:
        return [host for host, broker in self.up.items() if broker.controller.is_leading]

    def are_active(self, *hosts: str) -> bool:
        """All of them agree that they are, and on their controller."""
        if not all(host in self.up for host in hosts) or len(self.leaders) != 1:
            return False
        nodes = [NodeId(HOSTS[host]) for host in hosts]
        return all(
            self.up[host].cluster.controller_id == HOSTS[self.leaders[0]]
            and all(self.up[host].metadata.nodes.active(node) for node in nodes)
            for host in hosts
        )

    def settle(self, *hosts: str) -> str:
        self.world.run_until(lambda: self.are_active(*hosts), limit_s=30)
        return self.leaders[0]

    def leader_of(self, topic: str) -> str | None:
        """The host that leads the only partition, and knows it."""
        for host, broker in self.up.items():
            found = broker.metadata.find(topic)
            if found is not None:
                state = broker.metadata.partition(found.topic_id, 0)
                if state.leader == HOSTS[host] and isinstance(
                    broker.partitions.bundle(found, 0).role, Leader
                ):
                    return host
        return None


@contextmanager
def brokers(seed: int = 0, hosts: str = "abc") -> Iterator[Brokers]:
    with capture_logs(), World(seed) as world:
        nodes = Brokers(world)
        nodes.start(*hosts)
        nodes.settle(*hosts)
        yield nodes


def run_until(nodes: Brokers, holds: Callable[[], bool]) -> float:
    """Gives how long it took."""
    began = nodes.world.loop.time()
    nodes.world.run_until(holds, limit_s=60)
    return nodes.world.loop.time() - began


async def publish_somewhere(nodes: Brokers, topic: str, *values: str) -> Broker:
    """At whoever leads the partition in the end."""
    while True:
        for broker in list(nodes.up.values()):
            with contextlib.suppress(NotLeader, TopicNotFound):
                await publish(broker, topic, *values)
                return broker
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("run", range(2))
def test_nothing_is_lost_when_controller_and_leader_are_killed_at_once(run: int):
    with brokers(run) as nodes:
        world, controller = nodes.world, nodes.leaders[0]
        first = nodes.up[controller]
        assignment = [
            [NodeId(HOSTS[each]) for each in sorted("abc", key=lambda h: h != controller)]
        ]
        other = next(broker for host, broker in nodes.up.items() if host != controller)
        world.run(other.create_topic("orders", assignments=assignment, partitions=1))
        run_until(nodes, lambda: nodes.leader_of("orders") == controller)
        assert world.run(publish_somewhere(nodes, "orders", "one", "two")) is first
        nodes.kill(controller)
        began = world.loop.time()
        leader = world.run(publish_somewhere(nodes, "orders", "three"))
        assert world.loop.time() - began < 2.5
        partition = world.run(leader.partition("orders", 0))
        assert world.run(values_in(partition)) == ["one", "two", "three"]
        nodes.start(controller)
        nodes.settle("a", "b", "c")


def test_nodes_restart_one_after_the_other():
    with brokers() as nodes:
        nodes.world.run(nodes.up["a"].create_topic("orders", partitions=1))
        for host in "abc":
            nodes.terminate(host)
            nodes.start(host)
            nodes.settle("a", "b", "c")
        assert not nodes.problems
        assert len({each.cluster.voter for each in nodes.up.values()}) == 1
        assert all(each.has_topic("orders") for each in nodes.up.values())


def test_the_node_that_formed_the_cluster_coordinates_groups_whoever_is_the_controller():
    with brokers() as nodes:
        first = nodes.leaders[0]
        nodes.kill(first)
        run_until(nodes, lambda: bool(nodes.leaders))
        assert {each.group_coordinator("g") for each in nodes.up.values()} == {HOSTS[first]}
        nodes.start(first)
        assert nodes.settle("a", "b", "c") != first
        run_until(nodes, lambda: nodes.up[first].groups.is_coordinating)
        assert [each.groups.is_coordinating for each in nodes.up.values()].count(True) == 1


async def create_when_heard(broker: Broker, name: str) -> None:
    """A node that was cut off needs a moment to notice that it is not any more."""
    for _ in range(30):
        with contextlib.suppress(QuorumUnavailable):
            await broker.create_topic(name)
            return
        await broker.environment.clock.sleep(1.0)
    raise AssertionError("it is cut off for ever")


def test_messages_go_on_while_the_quorum_is_away_and_changes_say_why_they_wait():
    with brokers() as nodes:
        world = nodes.world
        world.run(nodes.up["a"].create_topic("orders", partitions=1))
        run_until(nodes, lambda: nodes.leader_of("orders") is not None)
        run_until(nodes, lambda: all(each.has_topic("orders") for each in nodes.up.values()))
        for host in "abc":
            nodes.quorum.cut(host)
        world.run_for(15.0)
        world.run(publish(nodes.up[nodes.leader_of("orders") or ""], "orders", "kept"))
        for broker in nodes.up.values():
            with pytest.raises(
                QuorumUnavailable, match=r"cluster\.quorum.*cut off from the quorum"
            ):
                world.run(broker.create_topic("refused"))
        nodes.quorum.heal()
        nodes.settle("a", "b", "c")
        world.run(create_when_heard(nodes.up["b"], "later"))


def test_a_directory_of_another_cluster_does_not_start():
    with brokers() as nodes:
        nodes.terminate("c")
        nodes.quorum = SimQuorum("another")
        nodes.start("c")
        run_until(nodes, lambda: "c" in nodes.problems)
        assert isinstance(nodes.problems["c"], WrongDataDirectory)


def coordinator_of_groups(nodes: Brokers) -> str | None:
    """The host that coordinates the group; None while none does, or several think so."""
    found = [host for host, broker in nodes.up.items() if broker.groups.coordinates(READERS)]
    return found[0] if len(found) == 1 else None


async def commit_somewhere(nodes: Brokers, offset: int) -> None:
    """At whoever coordinates the group in the end."""
    wanted = OffsetToCommit(TopicName("orders"), 0, Offset(offset))
    while True:
        for broker in list(nodes.up.values()):
            with contextlib.suppress(NotCoordinator, NotEnoughReplicas, LeadershipLost):
                request = CommitRequest(group_id=READERS, offsets=(wanted,))
                (result,) = await broker.groups.commit(request)
                assert result.error is None
                return
        await asyncio.sleep(0.05)


async def committed(broker: Broker) -> int | None:
    (fetched,) = await broker.groups.fetch([FetchRequest(group_id=READERS)])
    found = fetched.offsets.get(TopicPartition(TopicName("orders"), 0))
    return None if found is None else found.offset


def has_three_replicas(nodes: Brokers) -> bool:
    for broker in nodes.up.values():
        for name in COORDINATED:
            topic = broker.metadata.find(name)
            if topic is None:
                return False
            states = broker.metadata.partitions.of(topic.topic_id)
            if any(len(each.isr) < 3 or each.adding for each in states):
                return False
    return True


def test_groups_go_on_when_the_node_that_formed_the_cluster_is_killed():
    with brokers() as nodes:
        run_until(nodes, lambda: has_three_replicas(nodes))
        former = next(
            host for host in HOSTS if HOSTS[host] == nodes.up["a"].metadata.controller.formed_by
        )
        nodes.world.run(nodes.up[nodes.leaders[0]].create_topic("orders", partitions=1))
        nodes.world.run(commit_somewhere(nodes, 3))
        nodes.kill(former)
        nodes.world.run(commit_somewhere(nodes, 4))
        second = coordinator_of_groups(nodes)
        assert second not in (None, former)
        nodes.start(former)
        run_until(nodes, lambda: former in nodes.up and has_three_replicas(nodes))
        nodes.kill(second)
        run_until(nodes, lambda: coordinator_of_groups(nodes) is not None)
        found = nodes.up[coordinator_of_groups(nodes) or ""]
        assert nodes.world.run(committed(found)) == 4


def test_a_single_node_on_a_quorum_coordinates_when_it_is_started_again():
    with brokers(hosts="a") as nodes:
        nodes.world.run(nodes.up["a"].create_topic("orders", partitions=1))
        nodes.world.run(commit_somewhere(nodes, 3))
        nodes.kill("a")
        nodes.start("a")
        run_until(nodes, lambda: coordinator_of_groups(nodes) == "a")
        assert nodes.world.run(committed(nodes.up["a"])) == 3
