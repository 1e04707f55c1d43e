"""Nodes that elect their controller, in the simulator: the model of a quorum, and a network."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any, cast
from uuid import UUID

from structlog.testing import capture_logs

from goqueue.broker.cluster.controller_service import ControllerService
from goqueue.broker.cluster.election import Election, controller_addresses
from goqueue.broker.cluster.forwarding import Forwarding, carry_out
from goqueue.broker.cluster.handshake import Identity
from goqueue.broker.cluster.membership import Membership
from goqueue.broker.cluster.peer import Peers
from goqueue.broker.metadata.controller import Controller
from goqueue.broker.metadata.node_file import ETCD, NodeFile
from goqueue.cluster import Metadata, Topic, controller
from goqueue.cluster.consensus import Entries, Term
from goqueue.cluster.controller import Registration
from goqueue.model.config import Address
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId, Timestamp, TopicId, TopicName
from goqueue.runtime import Environment
from goqueue.runtime.tasks import owned_tasks
from goqueue.server.cluster.listener import ClusterListener
from goqueue.testing.sim import World
from goqueue.testing.sim.consensus import SimQuorum
from goqueue.testing.sim.loop import LIFE

PORT = 7000
SECRET = b"a secret of the cluster"
NUMBERS = {"a": NodeId(1), "b": NodeId(2), "c": NodeId(3), "d": NodeId(4)}


class NoMetrics:
    def connection_opened(self, listener: str, /) -> None: ...
    def connection_closed(self, listener: str, /) -> None: ...


class WatchedQuorum(SimQuorum):
    """Fails the run when two processes append under one term."""

    def __init__(self, seed: int | str = 0) -> None:
        super().__init__(seed)
        self.writers: dict[Term, str] = {}

    def append(self, term: Term, entries: Entries) -> None:
        super().append(term, entries)
        life = LIFE.get()
        if life is not None:  # else it is the test that asked a node
            writer = self.writers.setdefault(term, life.name)
            assert writer == life.name, f"two controllers in term {term}"


class ElectedNode:
    """As much of a broker as decides about metadata."""

    def __init__(
        self, environment: Environment, quorum: SimQuorum, host: str, node: NodeFile
    ) -> None:
        self._environment = environment
        self._node = node
        self.host = host
        self.controller = Controller(
            quorum.connect(host),
            environment.clock,
            lambda: Metadata({}, 100),
            lambda metadata, record: metadata.apply(record),
            lambda _before, _after: None,
            lambda: asyncio.sleep(0),
        )
        self.membership = Membership(environment, node, self.identity, self._controller_at)
        self.service = ControllerService(environment, cast(Any, self), self.identity)
        self.election: Election
        self.verbs = Forwarding(
            self.membership,
            self.controller,
            here=lambda verb: carry_out(cast(Any, self), node.node_id, verb),
        )

    @property
    def metadata(self) -> Metadata:
        return self.controller.image.current

    def identity(self) -> Identity:
        cluster_id = self.metadata.cluster_id if hasattr(self.controller, "image") else ""
        return Identity(self._node.node_id, self._node.cluster_id or cluster_id, SECRET)

    def registration(self) -> Registration:
        return Registration(
            node_id=self._node.node_id,
            directory_id=self._node.directory_id,
            incarnation=self._node.incarnation,
            addresses={"cluster": Address(self.host, PORT)},
        )

    def _addresses(self) -> Mapping[NodeId, str]:
        nodes = self.metadata.nodes.members
        return {each.node_id: str(each.addresses["cluster"]) for each in nodes}

    def _controller_at(self) -> list[str]:
        return controller_addresses(self.metadata, self._node.node_id)

    async def create_topic(self, name: str, **_options: object) -> Topic:
        if self.controller.is_following:
            return await self.verbs.create_topic(name, partitions=1)
        topic_id = TopicId(UUID(bytes=self._environment.random.bytes(16), version=4))
        topic = await self.controller.host.submit(
            lambda metadata: controller.create_topic(
                metadata,
                TopicName(name),
                topic_id=topic_id,
                partitions=1,
                settings={},
                now=Timestamp(1),
            )
        )
        self.controller.image.catch_up()
        return topic

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["ElectedNode"]:
        await self.controller.open_as_follower()
        peers = Peers(self._environment, self.identity, self._addresses)
        self.election = Election(
            self._environment,
            self.controller,
            self.membership,
            self.service,
            peers,
            self.registration,
        )
        listener = ClusterListener(
            self._environment,
            f"0.0.0.0:{PORT}",
            self.identity,
            self.service.handlers | self.election.handlers,
            NoMetrics(),
            on_lost=self.service.connection_lost,
        )
        async with owned_tasks() as tasks:
            await listener.start(tasks)
            running = [
                tasks.create_task(each)
                for each in (self.controller.run(), self.controller.host.run(), self.election.run())
            ]
            try:
                yield self
            finally:
                await self.election.resign()
                await listener.stop(0.1)
                for task in running:
                    task.cancel()
        await self.controller.close()


class ElectionWorld:
    def __init__(self, world: World, hosts: str = "abc") -> None:
        self.world = world
        self.hosts = hosts
        self.quorum = WatchedQuorum(world.seed)
        self.nodes: dict[str, ElectedNode] = {}  # by host, while they are up
        self.problems: dict[str, GoQueueError] = {}  # why a node has ended
        self.numbers = dict(NUMBERS)
        self._starts: dict[str, int] = {}
        self._stops: dict[str, asyncio.Event] = {}

    def start(self, *hosts: str) -> None:
        for host in hosts or self.hosts:
            if not self.world.alive(host):
                self.world.start(host, partial(self._run, host))

    def kill(self, host: str, *, power: bool = False) -> None:
        (self.world.power_loss if power else self.world.kill)(host)
        self.nodes.pop(host, None)

    def terminate(self, host: str) -> None:
        """As SIGTERM does."""
        self._stops[host].set()

    async def _run(self, host: str, environment: Environment) -> None:
        self._starts[host] = incarnation = self._starts.get(host, 0) + 1
        number, stop = self.numbers[host], asyncio.Event()
        self._stops[host] = stop
        node = NodeFile("", number, f"directory of {host}", incarnation, ETCD)
        try:
            async with ElectedNode(environment, self.quorum, host, node).running() as running:
                self.nodes[host] = running
                await stop.wait()
        except GoQueueError as error:
            self.problems[host] = error
        self.nodes.pop(host, None)

    # --- looks ------------------------------------------------------------------------------------

    @property
    def leaders(self) -> list[str]:
        """Hosts that believe to be the controller."""
        return [host for host, node in self.nodes.items() if node.controller.is_leading]

    def states(self, host: str) -> dict[int, str]:
        """Of all nodes, as this one has it."""
        return {each: node.state for each, node in self.nodes[host].metadata.nodes.items()}

    @property
    def is_settled(self) -> bool:
        """All nodes run, are active, agree on one controller, and hear it."""
        if sorted(self.nodes) != sorted(self.hosts) or len(self.leaders) != 1:
            return False
        leader = self.nodes[self.leaders[0]]
        holder = leader.metadata.controller
        return all(
            node.metadata.controller == holder
            and node.metadata.topics == leader.metadata.topics
            and set(self.states(host).values()) == {"active"}
            and len(self.states(host)) == len(self.hosts)
            and (node is leader or node.membership.hears_controller)
            for host, node in self.nodes.items()
        )

    def settle(self, limit_s: float = 30.0) -> str:
        """Run until it is; gives the controller's host."""
        self.world.run_until(lambda: self.is_settled, limit_s=limit_s)
        return self.leaders[0]


@contextlib.contextmanager
def electing(seed: int = 0, hosts: str = "abc") -> Iterator[ElectionWorld]:
    with capture_logs(), World(seed) as world:
        nodes = ElectionWorld(world, hosts)
        nodes.start()
        nodes.settle()
        yield nodes
