"""Every Kafka API as nobody: before a login only versions and the handshake are answered."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from goqueue.broker import Broker
from goqueue.model.config import AuthConfig, Config, KafkaConfig
from goqueue.runtime import real_environment
from goqueue.server.kafka.connection import LOGIN_BYTES_MAX, api_name
from goqueue.server.kafka.handlers import SERVED_APIS
from goqueue.server.kafka.listener import KafkaListener
from goqueue.server.metrics import Metrics
from goqueue.wire.apis import ApiKey, versions_of
from tests.unit.server.kafka.test_connection import frame

Ask = Callable[[bytes], Awaitable[bytes]]

ANSWERED = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}
BODIES = {
    (ApiKey.API_VERSIONS, 0): b"",
    (ApiKey.API_VERSIONS, 4): b"\x02a\x02b\x00",
    (ApiKey.SASL_HANDSHAKE, 0): b"\x00\x05PLAIN",
    (ApiKey.SASL_HANDSHAKE, 1): b"\x00\x05PLAIN",
}
LIMIT_S = 20.0


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Ask]:
    """Sends bytes on a connection of their own, and gives all that comes until it ends."""
    kafka = KafkaConfig(listen="127.0.0.1:0")
    config = Config(data_dir=str(tmp_path), kafka=kafka, auth=AuthConfig(enabled=True))
    environment = real_environment()

    async def talk(data: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(listener.address.host, listener.address.port)
        try:
            writer.write(data)
            async with asyncio.timeout(LIMIT_S):
                return await reader.read(65_536)  # an answer, or the end
        except ConnectionError:
            return b""
        finally:
            writer.close()

    with contextlib.closing(environment.disk):
        async with Broker(environment, config).running() as broker, asyncio.TaskGroup() as tasks:
            listener = KafkaListener(broker, config.kafka, Metrics(broker))
            await listener.start(tasks)
            yield talk
            await listener.stop(1.0)


async def test_every_api_as_nobody(ask: Ask):
    table = ["API | nobody"]
    for api in SERVED_APIS:
        versions = versions_of(api)
        assert versions is not None
        told = b""
        for version in {versions.min, versions.max}:
            told = await ask(frame(api, version, 1, BODIES.get((api, version), bytes(64))))
            if api != ApiKey.SASL_AUTHENTICATE:  # without a handshake: refused, or closed
                assert bool(told) == (api in ANSWERED), (api, version)
        table.append(f"{api_name(api)} | {'answered' if told else 'closed'}")
    print("\n".join(table))  # `pytest -rP` shows it


async def test_nobody_sends_large_requests(ask: Ask):
    large = frame(ApiKey.API_VERSIONS, 0, 1, bytes(LOGIN_BYTES_MAX))
    assert await ask(large) == b""
