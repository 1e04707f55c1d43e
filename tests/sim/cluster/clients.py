"""What all simulated clients of a cluster do: find a node, ask it, and wait a little."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from goqueue.broker import Broker
from goqueue.model.errors import GoQueueError, NodeUnreachable
from goqueue.model.ids import NodeId
from tests.unit.broker.cluster.cluster_world import HOSTS, ClusterWorld

T = TypeVar("T")

SECONDS_MAX = 4.0  # for one request
Refused = (GoQueueError, TimeoutError)


class Clients:
    """Some clients of one kind; `run` ends when they have done their work."""

    def __init__(self, nodes: ClusterWorld, kind: str) -> None:
        self.nodes = nodes
        self.world = nodes.world
        self.draw = random.Random(f"{nodes.world.seed}/{kind}")
        self.problems: list[str] = []

    def prepare(self) -> None:
        self.world.run(self.set_up())

    def check_end(self) -> None:
        self.world.run(self.judge())

    async def set_up(self) -> None:
        """While nothing is broken."""
        raise NotImplementedError

    async def run(self) -> None:
        """While everything breaks."""
        raise NotImplementedError

    async def judge(self) -> None:
        """When all is whole again: read everything, and note what is wrong."""
        raise NotImplementedError

    # --- asking -----------------------------------------------------------------------------------

    async def ask(
        self, host: str, work: Callable[[Broker], Awaitable[T]], seconds: float = SECONDS_MAX
    ) -> T:
        return await self.nodes.ask(host, work, seconds)

    def somewhere(self) -> str:
        """Any node that runs; raises `NodeUnreachable`."""
        running = sorted(self.nodes.brokers)
        if not running:
            raise NodeUnreachable("no node runs")
        return self.draw.choice(running)

    def leader_of(self, topic: str, index: int) -> str:
        """As any node says that runs; mostly it is so.  Raises `NodeUnreachable`."""
        metadata = self.nodes.brokers[self.somewhere()].metadata
        found = metadata.find(topic)
        if found is None or index >= found.partitions:
            raise NodeUnreachable(f"{topic}-{index} is not known there")
        return self.host_of(metadata.partition(found.topic_id, index).leader)

    def host_of(self, node: NodeId) -> str:
        host = HOSTS.get(node, "")
        if host not in self.nodes.brokers:
            raise NodeUnreachable(f"node {node} does not run")
        return host

    async def rest(self, most: float = 0.3) -> None:
        await asyncio.sleep(self.draw.uniform(0.0, most))

    # --- topics -----------------------------------------------------------------------------------

    async def create(self, topic: str, partitions: int) -> None:
        """While nothing is broken."""
        while True:
            try:
                await self.ask(
                    self.somewhere(), lambda node: node.create_topic(topic, partitions=partitions)
                )
                return
            except Refused:
                if all(node.has_topic(topic) for node in self.nodes.brokers.values()):
                    return
                await asyncio.sleep(0.2)

    def note(self, problem: str) -> None:
        self.problems.append(f"{self.world.loop.time():9.4f} {problem}")
