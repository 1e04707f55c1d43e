"""Queues, end to end: publish, receive, ack; every message's content is verified.

    python -m bench.queues [--messages 200000] [--batch 500] [--workers 4] [--publishers 2]

GoQueue over HTTP, and RabbitMQ and NATS JetStream beside it in the same run where they can be had
(`queue_peers.py`).  Publishers and workers run at the same time, in this one process, each with a
connection of its own.  All brokers answer a publish when the message is durable; GoQueue's answer
to an ack is durable, too.  A rate is messages by the time from the first publish to the last ack.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from rich.console import Console
from rich.table import Table

from bench import machine, payload
from bench.brokers import GoQueue, installed_goqueue
from bench.process import Failed, Usage
from bench.queue_peers import Missing, Nats, Peer, RabbitMq, UnsyncedNats

BROKERS = ["goqueue", "rabbitmq", "nats", "nats-unsynced"]
GROUP = "bench"
TOPIC = "bench"
IDLE_TAKES_MAX = 30  # in a row, before messages are called lost


class Options(msgspec.Struct, frozen=True):
    messages: int
    size: int
    batch: int
    publishers: int
    workers: int
    partitions: int


class Result(msgspec.Struct, frozen=True):
    broker: str
    messages: int
    seconds: float
    rate: float
    broker_cpu_us: float  # a message
    client_cpu_us: float
    resident_mb: float
    doubles: int
    latency_ms: dict[str, float]  # from before its publish to its arrival


# --- HTTP, as little of it as a load generator needs ----------------------------------------------


class Link:
    """One connection that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, url: str) -> "Link":
        found = urlsplit(url)
        return cls(*await asyncio.open_connection(found.hostname, found.port, limit=2**24))

    async def send(self, method: str, path: str, body: bytes) -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        (length,) = (
            int(line.split(b":")[1])
            for line in answer.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        )
        content = await self._reader.readexactly(length)
        status = int(answer.split(b" ", 2)[1])
        if status >= 300 or status == 207:
            raise Failed(f"{method} {path}: {status} {content[:300]!r}")
        return content

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class Taken(msgspec.Struct, frozen=True, gc=False):
    value: str
    receipt_handle: str


class TakenMany(msgspec.Struct, frozen=True):
    messages: list[Taken]


_taken = msgspec.json.Decoder(TakenMany)


class Http(Peer):
    """GoQueue, known by its HTTP address."""

    name = "goqueue"

    def __init__(self, directory: Path, executable: str, options: Options) -> None:
        super().__init__(directory)
        self._broker = GoQueue(directory, executable)
        self._options = options

    def start(self) -> None:
        self._broker.start()

    async def open(self) -> None:
        link = await Link.to(self._broker.http)
        topic = {"name": TOPIC, "num_partitions": self._options.partitions}
        await link.send("POST", "/topics", msgspec.json.encode(topic))
        held = {"max_in_flight_consumer": 1_000_000, "max_in_flight_group": 10_000_000}
        await link.send("PUT", f"/groups/{GROUP}/queue", msgspec.json.encode(held))
        await link.close()

    async def publisher(self) -> "HttpPublisher":
        return HttpPublisher(await Link.to(self._broker.http))

    async def worker(self, count: int) -> "HttpWorker":
        return HttpWorker(await Link.to(self._broker.http), count)

    def usage(self) -> Usage:
        return self._broker.usage()

    def stop(self) -> None:
        self._broker.stop()


class HttpPublisher:
    def __init__(self, link: Link) -> None:
        self._link = link

    async def publish(self, values: list[bytes]) -> None:
        messages = [{"value": value.decode()} for value in values]
        body = msgspec.json.encode({"messages": messages})
        await self._link.send("POST", f"/topics/{TOPIC}/messages", body)

    async def close(self) -> None:
        await self._link.close()


class HttpWorker:
    def __init__(self, link: Link, count: int) -> None:
        self._link = link
        asked = {"group": GROUP, "consumer": f"worker-{id(self)}", "wait": 1_000}
        self._asked = msgspec.json.encode({**asked, "max_messages": count})
        self._taken: list[Taken] = []

    async def take(self) -> list[bytes]:
        answer = await self._link.send("POST", f"/queues/{TOPIC}/receive", self._asked)
        self._taken = _taken.decode(answer).messages
        return [each.value.encode() for each in self._taken]

    async def done(self) -> None:
        handles = [each.receipt_handle for each in self._taken]
        body = msgspec.json.encode({"receipt_handles": handles, "quiet": True})
        await self._link.send("POST", "/messages/ack", body)

    async def close(self) -> None:
        await self._link.close()


# --- one broker under measurement -----------------------------------------------------------------


class Ledger:
    """Every message is to arrive, as it was."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._seen = bytearray(options.messages)
        self.sent_at = [0.0] * options.messages
        self.latencies: list[float] = []
        self.left = options.messages
        self.doubles = 0

    def values(self, first: int, count: int) -> list[bytes]:
        now = time.perf_counter()
        numbers = range(first, min(first + count, self._options.messages))
        for number in numbers:
            self.sent_at[number] = now
        return [payload.message(0, number, self._options.size) for number in numbers]

    def arrived(self, values: list[bytes]) -> None:
        now = time.perf_counter()
        for value in values:
            number = int(value[:16], 16)
            if value != payload.message(0, number, self._options.size):
                raise Failed(f"message {number} arrived as {value[:80]!r}")
            if self._seen[number]:
                self.doubles += 1
                continue
            self._seen[number] = 1
            self.left -= 1
            self.latencies.append(now - self.sent_at[number])

    def latency_ms(self) -> dict[str, float]:
        found = sorted(self.latencies)
        return {
            name: round(found[int(len(found) * share)] * 1000, 2)
            for name, share in (("p50", 0.5), ("p99", 0.99))
        }


async def measure(peer: Peer, options: Options) -> Result:
    await peer.open()
    ledger = Ledger(options)
    publishers = [await peer.publisher() for _ in range(options.publishers)]
    workers = [await peer.worker(options.batch) for _ in range(options.workers)]
    before, own, started = peer.usage(), time.process_time(), time.perf_counter()
    starts = iter(range(0, options.messages, options.batch))
    async with asyncio.TaskGroup() as tasks:
        for publisher in publishers:
            tasks.create_task(_publish(publisher, starts, ledger, options))
        for worker in workers:
            tasks.create_task(_work(worker, ledger))
    seconds, after = time.perf_counter() - started, peer.usage()
    own = time.process_time() - own
    for each in (*publishers, *workers):
        await each.close()
    return Result(
        broker=peer.name,
        messages=options.messages,
        seconds=round(seconds, 2),
        rate=round(options.messages / seconds),
        broker_cpu_us=round((after.cpu_seconds - before.cpu_seconds) / options.messages * 1e6, 1),
        client_cpu_us=round(own / options.messages * 1e6, 1),
        resident_mb=round(after.resident_bytes_peak / 1e6),
        doubles=ledger.doubles,
        latency_ms=ledger.latency_ms(),
    )


async def _publish(publisher: Any, starts: Any, ledger: Ledger, options: Options) -> None:
    for first in starts:  # shared by all publishers
        await publisher.publish(ledger.values(first, options.batch))


async def _work(worker: Any, ledger: Ledger) -> None:
    idle = 0
    while ledger.left > 0:
        values = await worker.take()
        idle = 0 if values else idle + 1
        if idle > IDLE_TAKES_MAX:
            raise Failed(f"{ledger.left} messages did not arrive")
        if values:
            ledger.arrived(values)
            await worker.done()


# --- the program ----------------------------------------------------------------------------------


def main() -> int:
    arguments = _arguments()
    options = Options(
        messages=arguments.messages,
        size=arguments.size,
        batch=arguments.batch,
        publishers=arguments.publishers,
        workers=arguments.workers,
        partitions=arguments.partitions,
    )
    console = Console(width=None if sys.stdout.isatty() else 160)
    directory = Path(tempfile.mkdtemp(prefix="goqueue-queues-", dir=arguments.directory))
    results: list[Result] = []
    try:
        for name in arguments.broker or BROKERS:
            result = _one(name, directory / name, arguments.goqueue, options, console)
            results += [] if result is None else [result]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    console.print(_table(results))
    if arguments.json:
        facts = {"date": time.time(), "load_average": machine.load_average()}
        body = {**facts, "options": msgspec.to_builtins(options)}
        body["results"] = msgspec.to_builtins(results)
        Path(arguments.json).write_text(json.dumps(body, indent=2) + "\n")
    return 0 if results else 1


def _one(
    name: str, directory: Path, goqueue: str | None, options: Options, console: Console
) -> Result | None:
    peer: Peer
    match name:
        case "goqueue":
            peer = Http(directory, goqueue or installed_goqueue(), options)
        case "nats":
            peer = Nats(directory)
        case "nats-unsynced":
            peer = UnsyncedNats(directory)
        case _:
            peer = RabbitMq(directory)
    try:
        peer.start()
        return asyncio.run(measure(peer, options))
    except Missing as problem:
        console.print(f"{name} left out: {problem}", highlight=False)
    except (Failed, ExceptionGroup) as problem:
        console.print(f"[red]{name} failed:[/] {problem!r}", highlight=False)
    finally:
        peer.stop()
    return None


def _table(results: list[Result]) -> Table:
    made = Table("broker", "msg/s", "broker µs/msg", "client µs/msg", "p50 ms", "p99 ms", "peak MB")
    for each in results:
        made.add_row(
            each.broker,
            f"{each.rate:,.0f}",
            f"{each.broker_cpu_us:.1f}",
            f"{each.client_cpu_us:.1f}",
            f"{each.latency_ms['p50']:.1f}",
            f"{each.latency_ms['p99']:.1f}",
            f"{each.resident_mb:.0f}",
        )
    return made


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a message")
    parser.add_argument("--batch", type=int, default=500, help="messages of one request")
    parser.add_argument("--publishers", type=int, default=2)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--broker", action="append", choices=BROKERS)
    parser.add_argument("--goqueue", help="the command to measure")
    parser.add_argument("--directory", help="where the brokers keep their data")
    parser.add_argument("--json", help="write the figures here, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
