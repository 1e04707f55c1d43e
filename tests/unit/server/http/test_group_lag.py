"""The age of the oldest message that a group has not finished."""

import httpx

from goqueue.server import group_lag
from tests.unit.server.http.conftest import Serving
from tests.unit.server.http.test_metrics import scrape

Client = httpx.AsyncClient
AGE = 'goqueue_consumer_lag_seconds{group="g",topic="t"}'


async def publish_and_commit(client: Client) -> None:
    await client.post("/topics", json={"name": "t", "num_partitions": 1})
    long_ago = [{"value": "x", "timestamp": 1_000}, {"value": "y", "timestamp": 1_000}]
    await client.post("/topics/t/messages", json={"messages": long_ago})
    await client.post("/groups/g/offsets", json={"offsets": {"t": {"0": 1}}})


async def test_it_is_known_from_the_message_itself_and_read_once(serving: Serving, monkeypatch):
    """When its journey is not: after a restart, or without tracing."""
    async with serving() as server, Client(base_url=server.url) as client:
        await publish_and_commit(client)
        assert (await scrape(client))[AGE] > 1e9  # as its producer says: since 1970
        monkeypatch.setattr(group_lag, "READS_MAX", 0)
        assert (await scrape(client))[AGE] > 1e9
        await client.post("/groups/g/offsets", json={"offsets": {"t": {"0": 2}}})
        seen = await scrape(client)
        assert seen[AGE] == 0
        assert seen['goqueue_consumer_lag{group="g",partition="0",topic="t"}'] == 0


async def test_it_counts_from_when_the_message_was_persisted(serving: Serving):
    async with serving() as server, Client(base_url=server.url) as client:
        await publish_and_commit(client)
        await server.broker.trace_history.flush()
        await server.broker.latency_counter.count()
        assert (await scrape(client))[AGE] < 1e6
