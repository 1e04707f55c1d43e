"""A small cluster in the simulator: whole brokers that follow one of them, or elect on a quorum."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import Context, copy_context
from functools import partial
from typing import TypeVar

import msgspec

from goqueue.broker import Broker
from goqueue.cluster import Metadata
from goqueue.cluster.consensus import ConsensusLog
from goqueue.model.config import Address, Config
from goqueue.model.errors import GoQueueError, NodeUnreachable, Uncertain
from goqueue.model.ids import NodeId
from goqueue.runtime import Environment
from goqueue.runtime.tasks import owned_tasks
from goqueue.server.cluster.node import cluster_listener
from goqueue.server.server_log import ServerLog
from goqueue.testing.sim import World
from goqueue.testing.sim.consensus import SimQuorum
from tests.unit.broker.brokers import CONFIG
from tests.unit.broker.cluster.cluster_hosts import PORT, NoMetrics

T = TypeVar("T")

SECRET = b"a secret of the cluster"
SECRET_FILE = "/secret"
THREE = ("a", "b", "c")
NUMBERS = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
HOSTS = {number: host for host, number in NUMBERS.items()}
CLIENT = "client"  # the host of all who ask
RESTART_SECONDS = 0.5  # after a process ended with an error


def node_config(number: int, *, elects: bool = False, coordinators: int = 1) -> Config:
    """Unless the nodes elect, node 1 is on host a, and has the vote."""
    cluster = msgspec.structs.replace(
        CONFIG.cluster,
        listen=f"0.0.0.0:{PORT}",
        seeds=[] if number == 1 or elects else [f"a:{PORT}"],
        quorum="etcd://quorum:2379" if elects else CONFIG.cluster.quorum,
        secret_file=SECRET_FILE,
        rack=f"rack-{number}",
        coordinators=coordinators,
    )
    return msgspec.structs.replace(CONFIG, node_id=number, cluster=cluster)


class BrokerOnQuorum(Broker):
    """Its metadata is in the model of a quorum instead of etcd."""

    def __init__(self, environment: Environment, config: Config, log: ConsensusLog) -> None:
        super().__init__(environment, config)
        self._quorum_log = log

    async def open_metadata_log(self) -> ConsensusLog:
        return self._quorum_log


@contextlib.asynccontextmanager
async def running_broker(
    environment: Environment,
    number: int,
    host: str,
    secret: bytes = SECRET,
    quorum: SimQuorum | None = None,
    coordinators: int = 1,
    on_made: Callable[[Broker], None] = lambda _broker: None,
) -> AsyncIterator[Broker]:
    """A broker that has joined, with its cluster listener."""
    environment.disk.replace_file(SECRET_FILE, secret)
    config = node_config(number, elects=quorum is not None, coordinators=coordinators)
    if quorum is None:
        broker = Broker(environment, config)
    else:
        broker = BrokerOnQuorum(environment, config, quorum.connect(host))
    on_made(broker)
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
    """Node 1 is on host a, and so on.  Node 1 has the vote unless there is a quorum.

    One node coordinates all groups, and one all transactions, unless there are more coordinators.
    """

    def __init__(
        self,
        world: World,
        hosts: tuple[str, ...] = THREE,
        quorum: SimQuorum | None = None,
        coordinators: int = 1,
    ) -> None:
        self.world = world
        self.hosts = hosts
        self.quorum = quorum
        self.coordinators = coordinators
        self.brokers: dict[str, Broker] = {}  # by host, while they have joined
        self.started: dict[str, Broker] = {}  # those, and those that are about to
        self.contexts: dict[str, Context] = {}  # of the processes of these brokers
        self.problems: dict[str, GoQueueError] = {}  # why a node could not go on
        self._stops: dict[str, asyncio.Event] = {}
        self._asked: dict[str, set[asyncio.Future[object]]] = {}  # by host, without an answer yet
        world.fabric.network(CLIENT)

    def start(self, *hosts: str) -> None:
        for host in hosts:
            if not self.world.alive(host):
                self.world.start(host, partial(self._run, host))

    def stop(self, host: str, *, power: bool = False) -> None:
        """Power loss, or the end of the process."""
        (self.world.power_loss if power else self.world.kill)(host)
        self.forget(host)
        if not power:  # its kernel ends its connections
            self._reset_clients(host)

    def forget(self, host: str) -> None:
        """Its process has ended."""
        self.brokers.pop(host, None)
        self.started.pop(host, None)

    def terminate(self, host: str) -> None:
        """As SIGTERM does: the node hands over, leaves, and ends."""
        if host in self.brokers:
            self._stops[host].set()

    # --- asking -----------------------------------------------------------------------------------

    async def ask(self, host: str, work: Callable[[Broker], Awaitable[T]], seconds: float) -> T:
        """As a client does: `work` is done by the host's process, and ends with it.

        Raises what `work` does, `TimeoutError`, or `Uncertain` when the connection broke.  Who
        gives up closes the connection, and the process stops that work.
        """
        broker, fabric = self.brokers.get(host), self.world.fabric
        if broker is None:
            raise NodeUnreachable(f"nobody listens on {host}")
        loop, context = asyncio.get_running_loop(), self.contexts[host].copy()
        answer: asyncio.Future[object] = loop.create_future()
        asked = self._asked.setdefault(host, set())
        asked.add(answer)
        serving: asyncio.Task[None] | None = None
        if fabric.reaches(CLIENT, host):
            serve = self._serve(host, broker, work, answer)
            serving = loop.create_task(serve, context=context)
        try:
            async with asyncio.timeout(seconds):
                return await answer  # type: ignore[return-value]  # it is what `work` gave
        finally:
            asked.discard(answer)
            if serving is not None and not serving.done():
                loop.call_soon(serving.cancel, context=context)

    async def _serve(
        self,
        host: str,
        broker: Broker,
        work: Callable[[Broker], Awaitable[object]],
        answer: "asyncio.Future[object]",
    ) -> None:
        if answer.done():
            return  # the process stood still, and the client has gone
        result, error = None, None
        try:
            result = await work(broker)
        except (GoQueueError, TimeoutError) as problem:
            error = problem
        if not self.world.fabric.reaches(host, CLIENT) or answer.done():
            return  # nobody hears it
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    def _reset_clients(self, host: str) -> None:
        for answer in self._asked.pop(host, ()):
            if not answer.done():
                answer.set_exception(Uncertain(f"the connection to {host} was reset"))

    # --- looks ------------------------------------------------------------------------------------

    @property
    def controller(self) -> Broker:
        """Raises `KeyError` while there is none."""
        if self.quorum is None:
            return self.brokers["a"]
        leading = [each for each in self.brokers.values() if each.controller.is_leading]
        if not leading:
            raise KeyError("nobody is the controller")
        return max(leading, key=lambda broker: broker.controller.term)

    @property
    def metadata(self) -> Metadata | None:
        """As the controller has it; None while there is none."""
        try:
            return self.controller.metadata
        except KeyError:
            return None

    @property
    def topics_seen(self) -> dict[str, list[str]]:
        """By each node."""
        nodes = self.brokers.items()
        return {host: [str(topic.name) for topic in node.topics()] for host, node in nodes}

    def state_of(self, node_id: int) -> str:
        """As the controller has it."""
        metadata = self.metadata
        found = None if metadata is None else metadata.nodes.get(NodeId(node_id))
        return "" if found is None else found.state

    async def _run(self, host: str, environment: Environment) -> None:
        self._stops[host] = stop = asyncio.Event()
        number = NUMBERS[host]
        while not stop.is_set():
            try:
                running = running_broker(
                    environment,
                    number,
                    host,
                    quorum=self.quorum,
                    coordinators=self.coordinators,
                    on_made=partial(self.started.__setitem__, host),
                )
                async with running as broker:
                    self.contexts[host] = copy_context()
                    self.brokers[host] = broker
                    await stop.wait()
                    await _leave(broker)
                    self.forget(host)
            except GoQueueError as error:  # as a supervisor starts a process again
                self.forget(host)
                self.problems[host] = error
                await environment.clock.sleep(RESTART_SECONDS)


async def _leave(broker: Broker) -> None:
    """As the server does before it ends; it ends whatever becomes of that."""
    with contextlib.suppress(GoQueueError, TimeoutError):
        async with asyncio.timeout(5.0):
            await broker.cluster.hand_over()
            await broker.cluster.leave()
