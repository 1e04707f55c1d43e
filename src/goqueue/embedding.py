"""A whole broker inside another program: for tests and small programs.

    async with goqueue.embedded("./data") as broker:     # on the running event loop
        await broker.publish("orders", "hello")

    with goqueue.embedded() as broker:                   # in a thread of its own
        broker.publish("orders", "hello")

It is the same node that `goqueue server` runs, with a Kafka and an HTTP listener on free ports of
the loopback.  Without a directory its data lies in a temporary one, gone when the block ends.
"""

import asyncio
import contextlib
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

import structlog

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.broker.messages.publish import Messages
from goqueue.cli.configuration import ConfigurationProblems, from_tree
from goqueue.client.http.messages import Message, Publishable, Received, as_messages, payload_bytes
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError, InvalidSetting
from goqueue.server import Node, extra_headers, running_node

T = TypeVar("T")
ANY_PORT: Final = {"listen": "127.0.0.1:0"}
PAGE_MESSAGES: Final = 1000
PAGE_BYTES: Final = 16 * 1024 * 1024


def embedded(data_dir: str | Path | None = None, **settings: Any) -> "Embedded":
    """A broker for a block: `async with` or `with`.

    `settings` are those of the server: `embedded(topics={"partitions": 1}, node_id=7)`.
    """
    return Embedded(data_dir, settings)


def configuration(data_dir: str | Path, settings: Mapping[str, Any]) -> Config:
    """Raises `InvalidSetting` with everything that is wrong."""
    tree: dict[str, Any] = {"kafka": ANY_PORT, "http": ANY_PORT}
    for name, value in settings.items():
        tree[name] = {**tree.get(name, {}), **value} if isinstance(value, Mapping) else value
    tree["data_dir"] = str(data_dir)
    try:
        return from_tree(tree)
    except ConfigurationProblems as error:
        raise InvalidSetting("; ".join(error.problems)) from error


# --- the broker, as one block sees it -------------------------------------------------------------


class EmbeddedBroker:
    """A running node and the verbs that tests use most; `broker` has all the others."""

    def __init__(self, node: Node, data_dir: Path) -> None:
        self.broker: Broker = node.broker
        self.kafka = str(node.kafka)
        """What Kafka clients call `bootstrap.servers`."""
        self.http = f"http://{node.http}"
        """The base of all URLs, and what `goqueue.Client` takes."""
        self.data_dir = data_dir
        self._messages = Messages(node.broker)

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        await self.broker.create_topic(name, partitions=partitions, settings=settings)

    async def publish(self, topic: str, *messages: Publishable) -> list[Published]:
        """Where each message went; durable on return.  Raises when any of them was refused."""
        outcomes = await self._messages.publish(
            topic, [_to_outgoing(each) for each in as_messages(messages)]
        )
        for outcome in outcomes:
            if isinstance(outcome, GoQueueError):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, Published)]

    async def read(self, topic: str, *, partition: int | None = None) -> list[Received]:
        """Every message there is; of several partitions, in the order of time."""
        count = self.broker.topic(topic).partitions
        found: list[Received] = []
        for index in range(count) if partition is None else [partition]:
            found += await self._read_partition(topic, index)
        return sorted(found, key=lambda message: message.timestamp) if partition is None else found

    async def _read_partition(self, topic: str, index: int) -> list[Received]:
        partition = await self.broker.partition(topic, index)
        offset = partition.log.start_offset
        found: list[Received] = []
        while True:
            page = await self._messages.read(
                partition, offset, limit=PAGE_MESSAGES, bytes_max=PAGE_BYTES
            )
            found += [
                Received(topic, index, r.offset, r.timestamp, r.key, r.value, r.headers)
                for r in page.records
            ]
            if page.at_end:
                return found
            offset = page.next_offset


def _to_outgoing(message: Message) -> OutgoingMessage:
    headers = (
        *((name, payload_bytes(value)) for name, value in message.header_pairs),
        *extra_headers(message.priority, message.ttl_ms, message.delay_ms, message.deliver_at),
    )
    return OutgoingMessage(
        payload_bytes(message.value),
        payload_bytes(message.key),
        headers,
        message.partition,
        message.timestamp,
    )


class BrokerInThread:
    """The same for a program that waits; the broker runs on an event loop of its own."""

    def __init__(self, embedded: EmbeddedBroker, loop: asyncio.AbstractEventLoop) -> None:
        self.kafka = embedded.kafka
        self.http = embedded.http
        self.data_dir = embedded.data_dir
        self._embedded = embedded
        self._loop = loop

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.run(self._embedded.create_topic(name, partitions=partitions, settings=settings))

    def publish(self, topic: str, *messages: Publishable) -> list[Published]:
        return self.run(self._embedded.publish(topic, *messages))

    def read(self, topic: str, *, partition: int | None = None) -> list[Received]:
        return self.run(self._embedded.read(topic, partition=partition))

    @property
    def broker(self) -> Broker:
        """For use on the broker's own loop only: `run(in_thread.broker.delete_topic("orders"))`."""
        return self._embedded.broker

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it on the broker's loop and wait for the result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


# --- starting and stopping ------------------------------------------------------------------------


class Embedded:
    """What `embedded` gives: enter it once."""

    def __init__(self, data_dir: str | Path | None, settings: Mapping[str, Any]) -> None:
        self._data_dir = data_dir
        self._settings = dict(settings)
        self._block: contextlib.AbstractAsyncContextManager[EmbeddedBroker] | None = None
        self._thread: _Thread | None = None

    async def __aenter__(self) -> EmbeddedBroker:
        self._block = _running(self._data_dir, self._settings)
        return await self._block.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._block is not None, "not entered"
        await self._block.__aexit__(kind, error, trace)

    def __enter__(self) -> BrokerInThread:
        self._thread = _Thread(_running(self._data_dir, self._settings))
        return self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._thread is not None, "not entered"
        self._thread.stop()


@contextlib.asynccontextmanager
async def _running(
    data_dir: str | Path | None, settings: Mapping[str, Any]
) -> AsyncIterator[EmbeddedBroker]:
    _quiet_logs()
    directory = Path(data_dir or tempfile.mkdtemp(prefix="goqueue-"))
    try:
        async with running_node(configuration(directory, settings)) as node:
            yield EmbeddedBroker(node, directory)
    finally:
        if data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)


def _quiet_logs() -> None:
    """A program that has not set up structlog sees warnings, on standard error."""
    if not structlog.is_configured():
        from goqueue.cli.logs import set_up

        set_up("console", "warning")


class _Thread:
    """A thread with an event loop on which the broker's block is open."""

    def __init__(self, block: contextlib.AbstractAsyncContextManager[EmbeddedBroker]) -> None:
        self._block = block
        self._started: Future[BrokerInThread] = Future()
        self._ended: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="goqueue", daemon=True)

    def start(self) -> BrokerInThread:
        self._thread.start()
        try:
            return self._started.result()
        except BaseException:
            self._thread.join()
            raise

    def stop(self) -> None:
        assert self._loop is not None, "not started"
        assert self._stop is not None, "not started"
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._ended.result()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # given to whoever waits in the other thread
            if not self._started.done():
                self._started.set_exception(error)
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._block as embedded:
            self._started.set_result(BrokerInThread(embedded, self._loop))
            await self._stop.wait()
