"""Three nodes of a cluster in this process, on loopback, and what clients ask of them over HTTP."""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec

from goqueue.model.config import ClusterConfig, Config
from goqueue.server.server import Node, running_node
from goqueue.wire.kio_import import load_kio
from tests.conformance.conftest import free_port_config

START_S = 60.0


class HttpNodes:
    def __init__(self, nodes: list[Node], client: httpx.Client) -> None:
        self.nodes = nodes
        self.client = client
        self.count = len(nodes)

    def url(self, number: int, path: str) -> str:
        return f"http://{self.nodes[number - 1].http}{path}"

    def ask(self, number: int, method: str, path: str, **body: Any) -> httpx.Response:
        """At the node with this number."""
        return self.client.request(method, self.url(number, path), json=body or None)

    def get(self, number: int, path: str, **query: Any) -> Any:
        reply = self.client.get(self.url(number, path), params=query)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def post(self, number: int, path: str, **body: Any) -> Any:
        reply = self.ask(number, "POST", path, **body)
        assert reply.status_code in (200, 201), reply.text
        return reply.json()

    def topic(self, name: str, partitions: int) -> str:
        """One whose partitions have a leader each, known to all nodes."""
        self.post(1, "/topics", name=name, partitions=partitions)
        while any(not node.broker.has_topic(name) for node in self.nodes):
            self.get(1, "/cluster/health")  # a round trip later
        assert len(set(self.leaders(name).values())) == min(partitions, self.count)
        return name

    def leaders(self, topic: str) -> dict[int, int]:
        metadata = self.nodes[0].broker.metadata
        topic_id = metadata.topic(topic).topic_id
        return {i: int(s.leader) for i, s in enumerate(metadata.partitions.of(topic_id))}

    def publish(self, number: int, topic: str, *values: str, **of_each: Any) -> list[Any]:
        messages = [{"value": value, **of_each} for value in values]
        results: list[Any] = self.post(number, f"/topics/{topic}/messages", messages=messages)[
            "results"
        ]
        return results

    def receive(self, number: int, topic: str, group: str, **more: Any) -> list[Any]:
        body = {"group": group, "consumer": "c", **more}
        found: list[Any] = self.post(number, f"/queues/{topic}/receive", **body)["messages"]
        return found


@contextlib.contextmanager
def http_nodes(directory: Path, count: int = 3) -> Iterator[HttpNodes]:
    """They run on a loop of their own, beside the test."""
    load_kio()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ended = asyncio.Event()

    async def run(ready: Any) -> None:
        async with _running(directory, count) as nodes:
            ready(nodes)
            await ended.wait()

    found: list[list[Node]] = []
    is_ready = threading.Event()

    def ready(nodes: list[Node]) -> None:
        found.append(nodes)
        is_ready.set()

    running = asyncio.run_coroutine_threadsafe(run(ready), loop)
    running.add_done_callback(lambda _: is_ready.set())
    try:
        assert is_ready.wait(START_S)
        if not found:
            running.result(0)
        with httpx.Client(trust_env=False, timeout=30) as client:
            nodes = HttpNodes(found[0], client)
            while not all(_sees_all(node, count) for node in nodes.nodes):
                nodes.get(1, "/cluster/health")  # a round trip later
            yield nodes
    finally:
        loop.call_soon_threadsafe(ended.set)
        concurrent.futures.wait([running], START_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextlib.asynccontextmanager
async def _running(directory: Path, count: int) -> AsyncIterator[list[Node]]:
    async with contextlib.AsyncExitStack() as stack:
        nodes: list[Node] = []
        for number in range(1, count + 1):
            seeds = [str(nodes[0].cluster)] if nodes else []
            config = _config(directory, number, seeds)
            nodes.append(await stack.enter_async_context(running_node(config)))
        yield nodes


def _config(directory: Path, number: int, seeds: list[str]) -> Config:
    return msgspec.structs.replace(
        free_port_config(directory / str(number)),
        node_id=number,
        cluster=ClusterConfig(listen="127.0.0.1:0", seeds=seeds),
    )


def _sees_all(node: Node, count: int) -> bool:
    nodes = node.broker.metadata.nodes
    return sum(nodes.active(each) for each in nodes) == count
