"""A node that has joined a cluster, as far as metadata goes: it follows, registers, shows that it
is alive, and passes on what only the controller decides.

It holds no partitions and coordinates nothing.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from goqueue.broker.cluster.forwarding import Forwarding
from goqueue.broker.cluster.handshake import Identity
from goqueue.broker.cluster.membership import Membership
from goqueue.broker.metadata.controller import Controller
from goqueue.broker.metadata.node_file import NodeFile, claim, store
from goqueue.broker.metadata.registration import check
from goqueue.cluster import Metadata, MetadataRecord
from goqueue.cluster.consensus import Index
from goqueue.model.config import Config
from goqueue.runtime import Environment
from goqueue.runtime.tasks import owned_tasks


class JoinedNode:
    def __init__(
        self,
        environment: Environment,
        config: Config,
        node: NodeFile,
        secret: bytes,
        seeds: Sequence[str],
    ) -> None:
        self._environment = environment
        self._config = config
        self._node = node
        self._secret = secret
        self.membership = Membership(environment, node, lambda: self.identity, seeds)
        self.controller = Controller(
            self.membership.log,
            environment.clock,
            lambda: Metadata(config.topics.settings, config.topics.partitions_max),
            _apply,
            lambda _before, _after: None,
            lambda: asyncio.sleep(0),
        )
        self.verbs = Forwarding(self.membership, self.controller)

    @property
    def identity(self) -> Identity:
        """Of this node, for others."""
        return Identity(self._node.node_id, self._node.cluster_id, self._secret)

    @property
    def metadata(self) -> Metadata:
        """What is committed, as far as this node has heard."""
        return self.controller.image.current

    @contextlib.asynccontextmanager
    async def joined(self, addresses: Mapping[str, str]) -> AsyncIterator["JoinedNode"]:
        """Follow and be alive until the block ends; `addresses` of this node by listener."""
        try:
            await self.controller.open_as_follower()
            check(self.metadata, self._node)
            accepted = await self.membership.register(dict(addresses))
            await self._note_cluster()
            async with owned_tasks() as tasks:
                running = [
                    tasks.create_task(self.controller.run()),
                    tasks.create_task(self.membership.run(lambda: self.controller.position)),
                ]
                await self.controller.wait_for(Index(accepted.end))
                try:
                    yield self
                finally:
                    for task in running:
                        task.cancel()
        finally:
            self.membership.close()
            await self.controller.close()

    async def _note_cluster(self) -> None:
        self._node = msgspec.structs.replace(self._node, cluster_id=self.metadata.cluster_id)
        disk, node = self._environment.disk, self._node
        await disk.in_background(lambda: store(disk, self._config.data_dir, node))


def _apply(metadata: Metadata, record: MetadataRecord) -> None:
    metadata.apply(record)


@contextlib.asynccontextmanager
async def joined_node(
    environment: Environment,
    config: Config,
    *,
    seeds: Sequence[str],
    secret: bytes,
    addresses: Mapping[str, str],
) -> AsyncIterator[JoinedNode]:
    """A node with this data directory that has joined the cluster of its seeds."""
    disk = environment.disk

    def prepare() -> NodeFile:
        disk.make_directory(config.data_dir)
        return claim(disk, environment.random, config, follows=True)

    node = await disk.in_background(prepare)
    async with JoinedNode(environment, config, node, secret, seeds).joined(addresses) as joined:
        yield joined
