"""Damaged requests on the HTTP port: the server stays up, small, and good to everybody else.

The requests and their order follow from one seed.  GOQUEUE_FUZZ_REQUESTS says how many are sent.
"""

import asyncio
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.conformance.http_server import http_server
from tests.conformance.server import Server

REQUESTS = int(os.environ.get("GOQUEUE_FUZZ_REQUESTS", "10000"))
SEED = 20_260_101
CONNECTIONS = 24
PATIENCE_S = 0.2  # for an answer; then this side says that it has no more to send
GIVE_UP_S = 10.0
RESIDENT_GROWTH_MAX = 48 * 1024 * 1024
ROUND_TRIP_S_MAX = 10.0
LAST = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


def send(method: str, path: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


CHUNKED = (
    b"POST /topics/fuzz/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    b'1a\r\n{"messages":[{"value":"x"}\r\n3\r\n]}\n\r\n0\r\ntrailer: y\r\n\r\n'
)
SOUND = (
    get("/"),
    get("/docs"),
    get("/metrics"),
    get("/readyz?verbose"),
    get("/topics?verbose=true&limit=5&after=a"),
    get("/topics/fuzz"),
    get("/topics/%2e%2e/settings"),
    get("/topics/fuzz/partitions/0/messages?offset=0&limit=10&wait=10ms&encoding=base64"),
    get("/topics/fuzz/partitions/0/messages?from_time=2026-01-01T00:00:00Z&to_time=1"),
    get("/topics/fuzz/messages?start=latest&wait=1s&max_bytes=100"),
    get("/topics/fuzz/messages?cursor=k9kkMDAwMDAwMDAtMDAwMC0wMDAwLTAwMDAtMDAwMDAwMDAwMDAwkQDA"),
    get("/topics/fuzz/partitions/0/offsets?time=newest"),
    send("POST", "/topics", b'{"name": "made", "num_partitions": 2, "settings": {"flush.ms": 5}}'),
    send("PATCH", "/topics/fuzz/settings", b'{"set": {"retention.ms": 60000}, "unset": ["flush"]}'),
    send("POST", "/topics/fuzz/partitions", b'{"count": 3, "validate_only": true}'),
    send("POST", "/v1/topics/fuzz/messages", b'{"messages": [{"value": {"a": [1.5e3, null]}}]}'),
    send(
        "POST",
        "/topics/fuzz/messages?acks=leader",
        b'{"messages": [{"key": "k", "value": "AAEC", "partition": 0, "timestamp": 1700000000000,'
        b' "headers": [{"name": "h", "value": "eA=="}], "priority": "low"}], "encoding": "base64"}',
    ),
    send("POST", "/topics/fuzz/messages?key=k", b"\x00\xff raw", "application/octet-stream"),
    send("DELETE", "/topics/fuzz/partitions/0/messages?before=0", b""),
    send("DELETE", "/topics/made", b""),
    CHUNKED,
    LAST,
)
BARBS = (
    *(b"\r\n", b"\r", b"\n\n", b"\0", b"%00", b"%2e%2e%2f", b"..", b"//", b" ", b":", b"\xff\xfe"),
    *(b"-1", b"0", b"99999999999999999999", b"1e999", b"NaN", b"[" * 2000, b'{"a":' * 500),
    *(b'"\\ud800"', b"A" * 70_000, b"content-length: 5\r\n", b"transfer-encoding: chunked\r\n"),
    *(b"expect: 100-continue\r\n", b"connection: upgrade\r\nupgrade: websocket\r\n", b"HTTP/2.0"),
)


def damaged_requests(count: int) -> Iterator[bytes]:
    chance = random.Random(SEED)
    for _ in range(count):
        request = bytearray(chance.choice(SOUND))
        for _ in range(chance.randint(1, 4)):
            damage(request, chance)
        yield bytes(request)


def damage(request: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(request) + 1)
    end = min(len(request), place + chance.randint(1, 30))
    match chance.randrange(7):
        case 0 if place < len(request):
            request[place] = chance.randrange(256)
        case 1:
            del request[place:end]
        case 2:
            request[place:place] = chance.choice(BARBS)
        case 3:
            request[place:end] = chance.choice(BARBS)
        case 4:
            del request[place:]
        case 5:
            other = chance.choice(SOUND)
            request[place:] = other[chance.randrange(len(other)) :]
        case _:
            request[place:place] = request[place:end]
    request[:] = request or b"\n"


@pytest.mark.timeout(300)
def test_damaged_requests_harm_nobody_else(tmp_path: Path):
    with http_server(tmp_path) as (server, host, port):
        asyncio.run(run(server, host, port))


async def run(server: Server, host: str, port: int) -> None:
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=GIVE_UP_S) as client:
        for name in ("fuzz", "calm"):
            await client.post("/topics", json={"name": name, "num_partitions": 1})
        requests = damaged_requests(REQUESTS)
        await attack(host, port, damaged_requests(REQUESTS // 10))  # caches fill once
        before = server.resident_bytes()
        async with asyncio.TaskGroup() as tasks:
            calm = tasks.create_task(use_calmly(client))
            await attack(host, port, requests)
            calm.cancel()
        assert server.resident_bytes() - before < RESIDENT_GROWTH_MAX
        metrics = await metrics_when_alone(client)
        failures = [line for line in metrics.splitlines() if 'status="500"' in line]
        assert not failures, failures


async def metrics_when_alone(client: httpx.AsyncClient) -> str:
    """The server may hear a moment later that the last of the others are gone."""
    deadline = time.monotonic() + GIVE_UP_S
    while True:
        metrics = (await client.get("/metrics")).text
        if 'goqueue_active_connections{listener="http"} 1.0' in metrics:
            return metrics
        assert time.monotonic() < deadline, "connections were left open"


async def attack(host: str, port: int, requests: Iterator[bytes]) -> None:
    async def one_by_one() -> None:
        for request in requests:
            await strike(host, port, request)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(one_by_one())


async def strike(host: str, port: int, request: bytes) -> None:
    """Send it with a sound request behind, and see the connection end."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request + LAST)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await reader.read()
        except TimeoutError:
            writer.write_eof()
            async with asyncio.timeout(GIVE_UP_S):
                await reader.read()
    except ConnectionError:
        return  # closed while bytes were under way
    finally:
        writer.close()


async def use_calmly(client: httpx.AsyncClient) -> None:
    """Somebody else's messages come through, in order and in time."""
    number = 0
    while True:
        started = time.monotonic()
        value = f"message {number}"
        answer = await client.post("/topics/calm/messages", json={"messages": [{"value": value}]})
        assert answer.status_code == 200, answer.text
        page = await client.get(f"/topics/calm/partitions/0/messages?offset={number}")
        assert [each["value"] for each in page.json()["messages"]] == [value]
        assert time.monotonic() - started < ROUND_TRIP_S_MAX
        number += 1
