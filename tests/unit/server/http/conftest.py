"""A broker with an HTTP listener on a free port, in the tests' own event loop.

Building the application takes longer than most tests here, so they share one server and one event
loop; every topic a test leaves behind is deleted after it.  A test that wants other settings, or
to stop its server, asks for `serving`.
"""

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import msgspec
import pytest
import pytest_asyncio

from goqueue.broker import Broker
from goqueue.model.config import Config, HttpConfig
from goqueue.runtime import real_environment
from goqueue.server.http import Health, HttpListener
from goqueue.server.metrics import Metrics

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        test = getattr(item, "function", None)
        if item.path.is_relative_to(HERE) and inspect.iscoroutinefunction(test):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


class Server:
    """What a test may look at beside the answers."""

    def __init__(self, broker: Broker, listener: HttpListener) -> None:
        self.broker = broker
        self.listener = listener
        self.address = (listener.address.host, listener.address.port)
        self.url = f"http://{listener.address}"


Serving = Callable[..., contextlib.AbstractAsyncContextManager[Server]]


@contextlib.asynccontextmanager
async def serve(directory: Path, config: Config, **http: object) -> AsyncIterator[Server]:
    settings = msgspec.structs.replace(HttpConfig(listen="127.0.0.1:0"), **http)
    config = msgspec.structs.replace(config, data_dir=str(directory), http=settings)
    async with Broker(real_environment(), config).running() as broker:
        health = Health()
        listener = HttpListener(broker, config.http, Metrics(broker), health)
        await listener.start()
        health.set_ready()
        try:
            yield Server(broker, listener)
        finally:
            await listener.stop(1.0)


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    """`async with serving(body_bytes_max=100) as server:` for a server of the test's own."""
    return lambda config=None, **http: serve(tmp_path, config or Config(), **http)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    async with serve(tmp_path_factory.mktemp("http"), Config()) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def server(shared_server: Server) -> AsyncIterator[Server]:
    yield shared_server
    for topic in shared_server.broker.topics():
        await shared_server.broker.delete_topic(topic.name)


@pytest_asyncio.fixture(loop_scope="session")
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url) as connected:
        yield connected
