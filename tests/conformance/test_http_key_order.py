"""Order by key from outside: many workers, many keys, and any delivery may fail."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.client import AsyncClient, Message
from tests.conformance.http_groups import HttpGroupServer

WORKERS = 64
TOPIC, GROUP = "orders", "workers"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpGroupServer]:
    server = HttpGroupServer(tmp_path)
    server.start()
    yield server
    server.kill()


class Shop:
    """Publishes numbers by key, and has them worked off; every delivery is checked."""

    def __init__(self, client: AsyncClient, keys: int, count: int) -> None:
        self._client = client
        self._chance = random.Random(keys)
        self._keys = keys
        self._count = count
        self.sent: Counter[bytes] = Counter()
        self.done: Counter[bytes] = Counter()
        self.failed = 0
        self._busy: set[bytes] = set()

    async def publish(self) -> None:
        while self.sent.total() < self._count:
            some = []
            for _ in range(min(1_000, self._count - self.sent.total())):
                key = b"key-%d" % self._chance.randrange(self._keys)
                some.append(Message(str(self.sent[key]), key=key))
                self.sent[key] += 1
            await self._client.publish(TOPIC, some)

    async def work(self, name: str) -> None:
        while self.done.total() < self._count:
            found = await self._client.receive(
                TOPIC, GROUP, consumer=name, max_messages=20, wait_ms=500
            )
            for each in found:
                key = each.key or b""
                assert key not in self._busy, "two of one key at a time"
                assert int(each.value or b"") == self.done[key], "out of order"
                self._busy.add(key)
            good = [each for each in found if self._chance.random() > 0.1]
            bad = [each for each in found if each not in good]
            # What is answered may come again before the answer is here: it is not busy before.
            for each in found:
                self._busy.discard(each.key or b"")
            for each in good:
                self.done[each.key or b""] += 1
            if good:
                await self._client.ack(*good)
            if bad:
                self.failed += len(bad)
                await self._client.nack(*bad, delay_ms=self._chance.choice([0, 20]))


async def _play(server: HttpGroupServer, keys: int, count: int) -> None:
    async with AsyncClient(f"http://{server.host}:{server.port}") as client:
        await client.create_topic(TOPIC, partitions=4)
        settings = {"ordering": "key", "max_failures": 1_000, "visibility_ms": 600_000}
        await client.change_queue_settings(GROUP, settings)
        shop = Shop(client, keys, count)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(shop.publish())
            for number in range(WORKERS):
                tasks.create_task(shop.work(f"worker-{number}"))
        assert shop.done == shop.sent
        assert shop.failed > count / 20


async def test_keys_keep_their_order(server: HttpGroupServer):
    await _play(server, keys=100, count=600)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_ten_thousand_keys_keep_their_order(server: HttpGroupServer):
    await _play(server, keys=10_000, count=60_000)
