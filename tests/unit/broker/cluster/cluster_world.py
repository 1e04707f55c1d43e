"""A small cluster in the simulator: a broker that is the controller, and nodes that follow."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from goqueue.broker import Broker
from goqueue.broker.cluster.controller_service import ControllerService
from goqueue.broker.cluster.handshake import Identity
from goqueue.broker.cluster.joined_node import JoinedNode, joined_node
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId
from goqueue.runtime import Environment
from goqueue.runtime.tasks import owned_tasks
from goqueue.server.cluster.listener import ClusterListener
from goqueue.testing.sim import World
from tests.unit.broker.brokers import CONFIG
from tests.unit.broker.cluster.cluster_hosts import PORT, NoMetrics

SECRET = b"a secret of the cluster"
SEEDS = [f"a:{PORT}"]


class ClusterWorld:
    """Node 1 on host a, which has the vote; nodes 2 and 3 on hosts b and c."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broker: Broker | None = None  # while node 1 is up
        self.service: ControllerService | None = None
        self.followers: dict[str, JoinedNode] = {}  # by host, while they have joined
        self.problems: dict[str, GoQueueError] = {}  # why a node could not go on

    def start(self, *hosts: str) -> None:
        for host in hosts:
            if not self.world.alive(host):
                self.world.start(host, self._controller if host == "a" else self._follower)

    def stop(self, host: str, *, power: bool = False) -> None:
        """Power loss, or the end of the process."""
        (self.world.power_loss if power else self.world.kill)(host)
        self.followers.pop(host, None)
        if host == "a":
            self.broker = self.service = None

    @property
    def topics_seen(self) -> dict[str, list[str]]:
        """By each follower."""
        return {host: sorted(node.metadata.topics) for host, node in self.followers.items()}

    def state_of(self, node_id: int) -> str:
        """As the controller has it."""
        nodes = {} if self.broker is None else self.broker.metadata.nodes
        found = nodes.get(NodeId(node_id))
        return "" if found is None else found.state

    async def _controller(self, environment: Environment) -> None:
        async with Broker(environment, CONFIG).running() as broker:
            identity = Identity(NodeId(1), broker.cluster_id, SECRET)
            service = ControllerService(environment, broker, lambda: identity)
            async with _serving(environment, identity, service):
                self.broker, self.service = broker, service
                await asyncio.Event().wait()

    async def _follower(self, environment: Environment) -> None:
        host = next(name for name in ("b", "c") if environment.clock is self.world.clock(name))
        number = NodeId(2 if host == "b" else 3)
        config: Config = msgspec.structs.replace(CONFIG, node_id=number)
        addresses = {"cluster": f"{host}:{PORT}"}
        identity = Identity(number, "", SECRET)
        while True:
            try:
                async with (
                    _serving(environment, identity, None),
                    joined_node(
                        environment, config, seeds=SEEDS, secret=SECRET, addresses=addresses
                    ) as node,
                ):
                    self.followers[host] = node
                    await asyncio.Event().wait()
            except GoQueueError as error:  # as a supervisor starts a process again
                self.followers.pop(host, None)
                self.problems[host] = error
                await environment.clock.sleep(0.5)


@contextlib.asynccontextmanager
async def _serving(
    environment: Environment, identity: Identity, service: ControllerService | None
) -> AsyncIterator[None]:
    listener = ClusterListener(
        environment,
        f"0.0.0.0:{PORT}",
        lambda: identity,
        {} if service is None else service.handlers,
        NoMetrics(),
        on_lost=(lambda _: None) if service is None else service.connection_lost,
    )
    async with owned_tasks() as tasks:
        await listener.start(tasks)
        watching = None if service is None else tasks.create_task(service.run())
        try:
            yield
        finally:
            await listener.stop(0.1)
            if watching is not None:
                watching.cancel()
