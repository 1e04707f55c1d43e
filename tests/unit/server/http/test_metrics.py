"""Numbers for Prometheus: they exist, they move, and they do not go backwards."""

import re

import httpx
import pytest_asyncio

from goqueue.model.errors import StorageFailed

Client = httpx.AsyncClient

MOVED_BY_A_PUBLISH = (
    'goqueue_messages_published_total{topic="t"}',
    'goqueue_bytes_published_total{topic="t"}',
    'goqueue_log_size_bytes{topic="t"}',
    'goqueue_log_end_offset{topic="t"}',
    'goqueue_publish_latency_seconds_count{listener="http"}',
    "goqueue_fsync_total",
    "goqueue_fsync_latency_seconds_count",
)
MOVED_BY_A_READ = (
    'goqueue_messages_consumed_total{topic="t"}',
    'goqueue_bytes_consumed_total{topic="t"}',
)
ALWAYS = (
    "goqueue_topics",
    'goqueue_topic_partitions{topic="t"}',
    'goqueue_log_start_offset{topic="t"}',
    'goqueue_active_connections{listener="http"}',
    "goqueue_uptime_seconds",
    "goqueue_fsync_errors_total",
    "process_resident_memory_bytes",
)


async def scrape(client: Client) -> dict[str, float]:
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def publish(client: Client) -> None:
    await client.post("/topics/t/messages", json={"messages": [{"value": "x"}, {"value": "y"}]})


@pytest_asyncio.fixture(loop_scope="session")
async def numbers(client: Client) -> dict[str, float]:
    await client.post("/topics", json={"name": "t", "num_partitions": 1})
    await publish(client)
    return await scrape(client)


async def test_every_number_is_there(numbers: dict[str, float]):
    for name in (*MOVED_BY_A_PUBLISH, *MOVED_BY_A_READ, *ALWAYS):
        assert name in numbers, name
    assert numbers['goqueue_messages_published_total{topic="t"}'] >= 2
    assert numbers['goqueue_topic_partitions{topic="t"}'] == 1
    assert any(name.startswith("goqueue_build_info{") for name in numbers)


async def test_publishing_and_reading_move_them(client: Client, numbers: dict[str, float]):
    await publish(client)
    after = await scrape(client)
    for name in MOVED_BY_A_PUBLISH:
        assert after[name] > numbers[name], name
    await client.get("/topics/t/partitions/0/messages?limit=3")
    read = await scrape(client)
    for name in MOVED_BY_A_READ:
        assert read[name] > numbers[name], name
    name = 'goqueue_messages_consumed_total{topic="t"}'
    assert read[name] == numbers[name] + 3


async def test_requests_are_counted_by_route_not_by_path(client: Client, numbers: dict[str, float]):
    await client.get("/topics/t")
    await client.get("/topics/t/nowhere/at/all")
    after = await scrape(client)
    routes = {
        found[1]
        for name in after
        if (found := re.search(r'http_request_seconds_count.*route="(.*?)"', name))
    }
    assert "/topics/{topic}" in routes
    assert "none" in routes
    assert not any("nowhere" in route for route in routes)


async def test_refused_messages_are_counted_by_error(client: Client, numbers: dict[str, float]):
    body = {"messages": [{"value": "x", "partition": 5}]}
    await client.post("/topics/t/messages", json=body)
    name = 'goqueue_messages_failed_total{error_type="partition_not_found"}'
    assert (await scrape(client))[name] == numbers.get(name, 0) + 1


async def test_counts_survive_the_partition_that_counted(server, client: Client, numbers):
    """When a partition is closed and opened again in this process."""
    name = 'goqueue_messages_published_total{topic="t"}'
    before = (await scrape(client))[name]
    partitions = server.broker.partitions
    closed = partitions._open["t", 0]
    partitions._forget(partitions._bundles["t", 0])
    await closed.close()
    assert (await scrape(client))[name] == before
    await publish(client)
    assert (await scrape(client))[name] == before + 2


async def test_a_failed_flush_is_counted(server, client: Client, numbers: dict[str, float]):
    partition = await server.broker.partition("t", 0)
    server.broker.partitions.observe_flush(partition, 0.1, StorageFailed("disk"))
    after = await scrape(client)
    assert after["goqueue_fsync_errors_total"] == numbers["goqueue_fsync_errors_total"] + 1
