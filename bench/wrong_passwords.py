"""Wrong passwords in masses: `python -m bench.wrong_passwords [--attempts N] [--addresses N]`.

A server with logins, and guessers at many addresses (127.1.0.1 and on) that try passwords over HTTP
and over Kafka's protocol (PLAIN), for users that exist and others that do not.  A few guess at the
address from which the good client has logged in: these are not refused, so that nobody locks the
client out, and are answered later and later instead.  Beside them the good client publishes as it
did before.  Shown are what the guessers were told, the good client's times without and with them,
and the server's memory and CPU.  Nothing is published wrongly, nobody gets in.
"""

import argparse
import asyncio
import base64
import multiprocessing
import statistics
import struct
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from bench import machine
from bench.brokers import GoQueue, installed_goqueue, login_arguments

PASSWORD = "the right password"
GOOD_REQUESTS = 200
GUESSED_USERS = 50  # of which one exists
BESIDE = 2  # guessers at the good client's own address
OWN_ADDRESS = "127.0.0.1"


class Server(NamedTuple):
    url: str
    kafka: str


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--attempts", type=int, default=100_000)
    options.add_argument("--addresses", type=int, default=62)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as directory:
        place = Path(directory)
        broker = GoQueue(place, installed_goqueue(), login_arguments(place, "root", PASSWORD))
        broker.start()
        try:
            await _measure(broker, given.attempts, given.addresses)
        finally:
            broker.stop()


async def _measure(broker: GoQueue, attempts: int, addresses: int) -> None:
    async with good_client(broker.http, ("root", PASSWORD)) as client:
        before = await publish_times(client, GOOD_REQUESTS)
        first, began = broker.usage(), time.perf_counter()
        server = Server(broker.http, broker.kafka)
        during, memory = [], [first.resident_bytes]
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            guessing = pool.submit(run_guess, server, attempts, addresses)
            while not guessing.done():
                during += await publish_times(client, 20)
                memory.append(broker.usage().resident_bytes)
            told, seconds = guessing.result(), time.perf_counter() - began
    cpu = broker.usage().cpu_seconds - first.cpu_seconds
    print(f"{attempts} attempts in {seconds:.0f} s, {cpu:.0f} s CPU of the server: {dict(told)}")
    for name, times in (("before", before), ("during", during)):
        low, high = statistics.median(times), sorted(times)[int(len(times) * 0.99)]
        print(f"publish {name}: median {low * 1e3:.1f} ms, p99 {high * 1e3:.1f} ms")
    tenth = max(1, len(memory) // 10)
    figures = [first.resident_bytes, max(memory[-tenth * 5 : -tenth]), memory[-1]]
    print("memory at the start, at most in the second half, at the end (MB):", end=" ")
    print(", ".join(f"{each / 1e6:.1f}" for each in figures))
    print(f"load of the machine: {machine.load_average()}")


@asynccontextmanager
async def good_client(url: str, auth: tuple[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, auth=auth, timeout=60) as client:
        yield client


async def publish_times(client: httpx.AsyncClient, count: int) -> list[float]:
    """Seconds of each."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        body = {"messages": [{"value": "x"}]}
        answer = await client.post("/topics/undisturbed/messages", json=body)
        answer.raise_for_status()
        found.append(time.perf_counter() - began)
    return found


def run_guess(server: Server, attempts: int, addresses: int) -> Counter[str]:
    """In a process of its own: the good client's times must not have the guessers' work in them."""
    return asyncio.run(guess(server, attempts, addresses))


async def guess(server: Server, attempts: int, addresses: int) -> Counter[str]:
    """What the guessers were told; half of them speak Kafka's protocol."""
    numbers = iter(range(attempts))
    told: Counter[str] = Counter()
    far = [f"127.1.{number >> 8}.{number & 255}" for number in range(1, addresses + 1)]
    guessers = [
        (_guess_over_http if place % 2 else _guess_over_kafka)(server, address, numbers, told)
        for place, address in enumerate([*far, *[OWN_ADDRESS] * BESIDE])
    ]
    await asyncio.gather(*guessers)
    return told


async def _guess_over_http(
    server: Server, address: str, numbers: Iterator[int], told: Counter[str]
) -> None:
    limits = httpx.Limits(max_connections=1)
    transport = httpx.AsyncHTTPTransport(local_address=address, limits=limits)
    async with httpx.AsyncClient(base_url=server.url, timeout=120, transport=transport) as client:
        for number in numbers:
            pair = base64.b64encode(_pair(number)).decode()
            answer = await client.get("/topics", headers={"Authorization": f"Basic {pair}"})
            told[f"http {answer.status_code}"] += 1


async def _guess_over_kafka(
    server: Server, address: str, numbers: Iterator[int], told: Counter[str]
) -> None:
    for number in numbers:
        told[await _try_plain(server.kafka, address, _pair(number, b"\0"))] += 1


def _pair(number: int, separator: bytes = b":") -> bytes:
    user = b"root" if number % GUESSED_USERS == 0 else b"user%d" % (number % GUESSED_USERS)
    before = separator if separator == b"\0" else b""
    return before + user + separator + b"guess%d" % number


async def _try_plain(server: str, address: str, message: bytes) -> str:
    host, _, port = server.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(address, 0))
    try:
        name = b"PLAIN"
        handshake = struct.pack(">hhih", 17, 1, 1, -1) + struct.pack(">h", len(name)) + name
        login = struct.pack(">hhih", 36, 0, 2, -1) + struct.pack(">i", len(message)) + message
        answer = b""
        for request in (handshake, login):
            writer.write(struct.pack(">i", len(request)) + request)
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            answer = await reader.readexactly(size)
        return f"kafka {struct.unpack_from('>h', answer, 4)[0]}"
    except (ConnectionError, asyncio.IncompleteReadError):
        return "kafka closed"
    finally:
        writer.close()


if __name__ == "__main__":
    asyncio.run(main())
