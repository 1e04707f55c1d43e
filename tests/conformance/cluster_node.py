"""A node of a small cluster in a process of its own, as `test_cluster_nodes.py` starts it.

    python cluster_node.py CONFIG-AS-JSON CLUSTER-ADDRESS SECRET [SEED]

Without a seed it is a server, and the controller; with one it follows the node there.  Each line
of standard input is a question as JSON, each line of standard output its answer; it ends with its
standard input.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import structlog
import uvloop

from goqueue.wire.kio_import import load_kio

load_kio()

from goqueue.broker.cluster.controller_service import ControllerService  # noqa: E402
from goqueue.broker.cluster.handshake import Identity  # noqa: E402
from goqueue.broker.cluster.joined_node import joined_node  # noqa: E402
from goqueue.cluster import Metadata  # noqa: E402
from goqueue.model.config import Config  # noqa: E402
from goqueue.model.errors import GoQueueError  # noqa: E402
from goqueue.model.ids import NodeId  # noqa: E402
from goqueue.runtime import Environment, real_environment  # noqa: E402
from goqueue.runtime.tasks import owned_tasks  # noqa: E402
from goqueue.server.cluster.listener import ClusterListener  # noqa: E402
from goqueue.server.server import running_node  # noqa: E402


class NoMetrics:
    def connection_opened(self, listener: str, /) -> None: ...
    def connection_closed(self, listener: str, /) -> None: ...


@contextlib.asynccontextmanager
async def serving(
    environment: Environment, address: str, identity: Identity, service: ControllerService | None
) -> AsyncIterator[str]:
    """Gives the address."""
    listener = ClusterListener(
        environment,
        address,
        lambda: identity,
        {} if service is None else service.handlers,
        NoMetrics(),
        on_lost=(lambda _: None) if service is None else service.connection_lost,
    )
    async with owned_tasks() as tasks:
        await listener.start(tasks)
        watching = None if service is None else tasks.create_task(service.run())
        yield str(listener.address)
        await listener.stop(1.0)
        if watching is not None:
            watching.cancel()


async def lead(config: Config, address: str, secret: bytes) -> None:
    async with running_node(config) as node:
        environment, broker = node.broker.environment, node.broker
        identity = Identity(NodeId(config.node_id), broker.cluster_id, secret)
        service = ControllerService(environment, broker, lambda: identity)
        async with serving(environment, address, identity, service) as listening:
            print(listening, node.http, flush=True)
            await answer(lambda: broker.metadata, broker)


async def follow(config: Config, address: str, secret: bytes, seed: str) -> None:
    environment = real_environment()
    identity = Identity(NodeId(config.node_id), "", secret)
    async with (
        serving(environment, address, identity, None) as listening,
        joined_node(
            environment, config, seeds=[seed], secret=secret, addresses={"cluster": listening}
        ) as node,
    ):
        print(listening, "-", flush=True)
        await answer(lambda: node.metadata, node.verbs)
    environment.disk.close()


async def answer(metadata: Any, verbs: Any) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        match msgspec.json.decode(line):
            case {"create": name}:
                try:
                    reply: Any = str((await verbs.create_topic(name, partitions=1)).topic_id)
                except GoQueueError as error:
                    reply = error.code
            case _:
                reply = describe(metadata())
        print(msgspec.json.encode(reply).decode(), flush=True)


def describe(metadata: Metadata) -> dict[str, Any]:
    return {
        "topics": sorted(metadata.topics),
        "nodes": {str(node.node_id): node.state for node in metadata.nodes.values()},
    }


if __name__ == "__main__":
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    given = msgspec.json.decode(sys.argv[1], type=Config)
    place, key, *seeds = sys.argv[2:]
    uvloop.run(
        follow(given, place, key.encode(), seeds[0]) if seeds else lead(given, place, key.encode())
    )
