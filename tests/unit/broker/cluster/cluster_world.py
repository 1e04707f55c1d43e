"""A small cluster in the simulator: whole brokers that follow one of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from goqueue.broker import Broker
from goqueue.model.config import Address, Config
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId
from goqueue.runtime import Environment
from goqueue.runtime.tasks import owned_tasks
from goqueue.server.cluster.node import cluster_listener
from goqueue.server.server_log import ServerLog
from goqueue.testing.sim import World
from tests.unit.broker.brokers import CONFIG
from tests.unit.broker.cluster.cluster_hosts import PORT, NoMetrics

SECRET = b"a secret of the cluster"
SECRET_FILE = "/secret"
NUMBERS = {"a": 1, "b": 2, "c": 3}


def node_config(number: int) -> Config:
    """Node 1 is on host a, and has the vote."""
    cluster = msgspec.structs.replace(
        CONFIG.cluster,
        listen=f"0.0.0.0:{PORT}",
        seeds=[] if number == 1 else [f"a:{PORT}"],
        secret_file=SECRET_FILE,
        rack=f"rack-{number}",
    )
    return msgspec.structs.replace(CONFIG, node_id=number, cluster=cluster)


@contextlib.asynccontextmanager
async def running_broker(
    environment: Environment, number: int, host: str, secret: bytes = SECRET
) -> AsyncIterator[Broker]:
    """A broker that has joined, with its cluster listener."""
    environment.disk.replace_file(SECRET_FILE, secret)
    broker = Broker(environment, node_config(number))
    async with broker.running(), owned_tasks() as tasks:
        listener = cluster_listener(broker, NoMetrics(), ServerLog())
        assert listener is not None
        await listener.start(tasks)
        try:
            machine = f"machine of {host}"
            addresses = {"cluster": Address(host, PORT), "kafka": Address(host, 9092)}
            await broker.announce(addresses, machine)
            yield broker
        finally:
            await listener.stop(0.1)


class ClusterWorld:
    """Node 1 on host a, which has the vote; nodes 2 and 3 on hosts b and c."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.brokers: dict[str, Broker] = {}  # by host, while they have joined
        self.problems: dict[str, GoQueueError] = {}  # why a node could not go on

    def start(self, *hosts: str) -> None:
        for host in hosts:
            if not self.world.alive(host):
                self.world.start(host, self._run)

    def stop(self, host: str, *, power: bool = False) -> None:
        """Power loss, or the end of the process."""
        (self.world.power_loss if power else self.world.kill)(host)
        self.brokers.pop(host, None)

    @property
    def controller(self) -> Broker:
        return self.brokers["a"]

    @property
    def topics_seen(self) -> dict[str, list[str]]:
        """By each node."""
        nodes = self.brokers.items()
        return {host: [str(topic.name) for topic in node.topics()] for host, node in nodes}

    def state_of(self, node_id: int) -> str:
        """As the controller has it."""
        nodes = self.controller.metadata.nodes if "a" in self.brokers else {}
        found = nodes.get(NodeId(node_id))
        return "" if found is None else found.state

    async def _run(self, environment: Environment) -> None:
        host = next(name for name in NUMBERS if environment.clock is self.world.clock(name))
        while True:
            try:
                async with running_broker(environment, NUMBERS[host], host) as broker:
                    self.brokers[host] = broker
                    await asyncio.Event().wait()
            except GoQueueError as error:  # as a supervisor starts a process again
                self.brokers.pop(host, None)
                self.problems[host] = error
                await environment.clock.sleep(0.5)
