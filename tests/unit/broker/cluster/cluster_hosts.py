"""Hosts of a simulated cluster: listeners for nodes, and peers that ask them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from goqueue.broker.cluster.handshake import Identity
from goqueue.broker.cluster.peer import Peer
from goqueue.model.ids import NodeId
from goqueue.runtime import Environment
from goqueue.server.cluster.listener import ClusterListener, Handler
from goqueue.testing.sim import World
from goqueue.wire.node_messages import NodeApi

PORT = 7000
ONE = Identity(NodeId(1), "cluster", b"a shared secret!")
TWO = Identity(NodeId(2), "cluster", b"a shared secret!")


class NoMetrics:
    def connection_opened(self, listener: str, /) -> None: ...
    def connection_closed(self, listener: str, /) -> None: ...


@contextlib.asynccontextmanager
async def listening(
    environment: Environment,
    handlers: dict[NodeApi, Handler],
    identity: Identity = ONE,
    listen: str = f"0.0.0.0:{PORT}",
) -> AsyncIterator[ClusterListener]:
    listener = ClusterListener(environment, listen, lambda: identity, handlers, NoMetrics())
    async with asyncio.TaskGroup() as tasks:
        await listener.start(tasks)
        try:
            yield listener
        finally:
            await listener.stop(0.1)


def serve_for_ever(
    handlers: Callable[[Environment], dict[NodeApi, Handler]], identity: Identity = ONE
) -> Callable[[Environment], Coroutine[Any, Any, None]]:
    """A process for `World.start`."""

    async def main(environment: Environment) -> None:
        async with listening(environment, handlers(environment), identity):
            await asyncio.Event().wait()

    return main


def peer_on(world: World, host: str, *targets: str, identity: Identity = TWO) -> Peer:
    return Peer(
        world.environment(host), lambda: identity, lambda: [f"{name}:{PORT}" for name in targets]
    )
