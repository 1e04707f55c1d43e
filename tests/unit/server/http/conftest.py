"""A broker with an HTTP listener on a free port, in the test's own event loop."""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.model.config import Config, HttpConfig
from goqueue.runtime import real_doors
from goqueue.server.http import Health, HttpListener
from goqueue.server.metrics import Metrics


class Server:
    """What a test may look at beside the answers."""

    def __init__(self, broker: Broker, listener: HttpListener, health: Health) -> None:
        self.broker = broker
        self.listener = listener
        self.health = health
        self.url = f"http://{listener.address}"


Serving = Callable[..., contextlib.AbstractAsyncContextManager[Server]]


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    @contextlib.asynccontextmanager
    async def serve(config: Config | None = None, **http: object) -> AsyncIterator[Server]:
        config = config or Config()
        settings = msgspec.structs.replace(HttpConfig(listen="127.0.0.1:0"), **http)
        config = msgspec.structs.replace(config, data_dir=str(tmp_path), http=settings)
        async with Broker(real_doors(), config).running() as broker:
            health = Health()
            listener = HttpListener(broker, config.http, Metrics(broker), health)
            await listener.start()
            health.set_ready()
            try:
                yield Server(broker, listener, health)
            finally:
                await listener.stop(1.0)

    return serve


@pytest.fixture
async def server(serving: Serving) -> AsyncIterator[Server]:
    async with serving() as running:
        yield running


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url) as connected:
        yield connected
