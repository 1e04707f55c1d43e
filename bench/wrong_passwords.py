"""Wrong passwords in masses: `python -m bench.wrong_passwords [--attempts N] [--connections N]`.

A server with logins, guessers on many connections that try passwords over HTTP and over Kafka's
protocol (PLAIN), for users that exist and others that do not, and beside them one client that
publishes as it did before.  Shown are what the guessers were told, the good client's times without
and with them, and the server's memory.  Nothing is published wrongly, nobody gets in.
"""

import argparse
import asyncio
import base64
import statistics
import struct
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from bench.brokers import READY_LINE, environment_without_src, installed_goqueue
from bench.process import Process

PASSWORD = "the right password"
READY_SECONDS_MAX = 120.0
GOOD_REQUESTS = 200
GUESSED_USERS = 50  # of which one exists


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--attempts", type=int, default=100_000)
    options.add_argument("--connections", type=int, default=64)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as directory:
        process, kafka, url = _start(Path(directory))
        try:
            async with good_client(url, ("root", PASSWORD)) as client:
                before = await publish_times(client, GOOD_REQUESTS)
                memory = process.usage().resident_bytes
                began = time.perf_counter()
                guessing = asyncio.create_task(guess(url, kafka, given.attempts, given.connections))
                during = []
                while not guessing.done():
                    during += await publish_times(client, 20)
                told = await guessing
                seconds = time.perf_counter() - began
            grown = process.usage().resident_bytes - memory
            print(f"{given.attempts} attempts in {seconds:.1f} s: {dict(told)}")
            for name, times in (("before", before), ("during", during)):
                low, high = statistics.median(times), sorted(times)[int(len(times) * 0.99)]
                print(f"publish {name}: median {low * 1e3:.1f} ms, p99 {high * 1e3:.1f} ms")
            print(f"memory grew by {grown >> 10} kB, to {(memory + grown) >> 10} kB")
        finally:
            process.stop()


def _start(directory: Path) -> tuple[Process, str, str]:
    password = directory / "password"
    password.write_text(PASSWORD)
    argv = [installed_goqueue(), "server", "--data-dir", str(directory / "data"), "--auth"]
    argv += ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--init-admin", "root"]
    argv += ["--set", f"auth.init_admin_password_file={password}"]
    process = Process(argv, directory / "log", env=environment_without_src())
    deadline = time.monotonic() + READY_SECONDS_MAX
    while not (line := READY_LINE.search(process.output.read_text(errors="replace"))):
        process.demand_alive()
        assert time.monotonic() < deadline, process.tail()
        time.sleep(0.05)
    return process, line[1], line[2]


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


async def guess(url: str, kafka: str, attempts: int, connections: int) -> Counter[str]:
    """What the guessers were told; half of them speak Kafka's protocol."""
    numbers = iter(range(attempts))
    told: Counter[str] = Counter()

    async def over_http() -> None:
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
            for number in numbers:
                pair = base64.b64encode(_pair(number)).decode()
                answer = await client.get("/topics", headers={"Authorization": f"Basic {pair}"})
                told[f"http {answer.status_code}"] += 1

    async def over_kafka() -> None:
        for number in numbers:
            told[await _try_plain(kafka, _pair(number, b"\0"))] += 1

    workers = [over_http() if each % 2 else over_kafka() for each in range(connections)]
    await asyncio.gather(*workers)
    return told


def _pair(number: int, separator: bytes = b":") -> bytes:
    user = b"root" if number % GUESSED_USERS == 0 else b"user%d" % (number % GUESSED_USERS)
    before = separator if separator == b"\0" else b""
    return before + user + separator + b"guess%d" % number


async def _try_plain(address: str, message: bytes) -> str:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
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
