"""Delayed messages and recurring schedules beside their peers; every message is verified.

    python -m bench.delays [--messages 20000] [--schedules 2000] [--broker goqueue --broker redis …]

goqueue     messages with `deliver_at` over HTTP, read by a Kafka consumer
schedules   recurring schedules that are all due in the same second, read by a Kafka consumer
redis       a sorted set by due time, a script that pops what is due into a list, appendfsync always
rabbitmq    time to live of each message, and a dead-letter exchange, confirmed and persistent; its
            messages are in the order of their due times, since only the head of a queue expires

A rate is messages by the time until all are accepted, durably.  All are due within one second, and
lateness is from a message's due time to its arrival at a reader that waits for it.
"""

import argparse
import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console
from rich.table import Table

from bench import machine
from bench.brokers import GoQueue, free_port, installed_goqueue
from bench.process import Failed, Process
from bench.queues.peers import Missing, RabbitMq
from goqueue.client import Client, Message, ScheduledMessage, ScheduleInput

BATCH = 500
WAIT_SECONDS_MAX = 180.0
TOPIC = "delayed"
PARTITIONS = 3


class Figures(msgspec.Struct, frozen=True):
    broker: str
    messages: int
    rate: float  # accepted a second
    lateness_ms: dict[str, float]
    resident_mb: float


def figures(
    name: str, accepted_seconds: float, arrivals: dict[int, tuple[int, int]], resident: int
) -> Figures:
    """`arrivals` are due time and arrival of each message, in ms, by its number."""
    late = sorted(max(0, arrived - due) for due, arrived in arrivals.values())
    places = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    count = len(late)
    found = {each: float(late[min(count - 1, int(count * part))]) for each, part in places.items()}
    return Figures(name, count, count / accepted_seconds, found, resident / 1e6)


def due_times(count: int, begin_ms: int) -> list[int]:
    """Over one second, in order."""
    return [begin_ms + number * 1_000 // count for number in range(count)]


def lead_ms(count: int) -> int:
    """How long before the first is due all must be accepted."""
    return 5_000 + count


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def verify(arrivals: dict[int, tuple[int, int]], count: int, doubles: int) -> None:
    if sorted(arrivals) != list(range(count)) or doubles:
        raise Failed(f"{len(arrivals)} of {count} arrived, {doubles} twice")


# --- GoQueue --------------------------------------------------------------------------------------


def of_goqueue(directory: Path, executable: str, count: int) -> Figures:
    with _goqueue(directory, executable) as broker, Client(broker.http) as client:
        client.create_topic(TOPIC, partitions=PARTITIONS)
        due = due_times(count, now_ms() + lead_ms(count))
        started = time.monotonic()
        for first in range(0, count, BATCH):
            some = range(first, min(first + BATCH, count))
            messages = [
                Message(f"{n} {due[n]}", headers=(("gq-deliver-at", str(due[n]).encode()),))
                for n in some
            ]
            client.publish(TOPIC, messages)
        seconds = time.monotonic() - started
        arrivals = _consume(broker.kafka, count, _numbered)
        return figures("goqueue", seconds, arrivals, broker.usage().resident_bytes_peak)


def of_schedules(directory: Path, executable: str, count: int) -> Figures:
    with _goqueue(directory, executable) as broker, Client(broker.http) as client:
        client.create_topic(TOPIC, partitions=PARTITIONS)
        begin = (now_ms() + 20 * count + 5_000) // 1_000 * 1_000
        started = time.monotonic()
        for number in range(count):
            message = ScheduledMessage(f"{number} {{{{scheduled_at_ms}}}}")
            given = ScheduleInput(TOPIC, message, every="1d", start=begin, max_runs=1)
            client.create_schedule(f"s{number}", given)
        seconds = time.monotonic() - started
        arrivals = _consume(broker.kafka, count, _numbered)
        return figures("schedules", seconds, arrivals, broker.usage().resident_bytes_peak)


class _goqueue:  # noqa: N801 # a context manager, as a function would be
    def __init__(self, directory: Path, executable: str) -> None:
        self._broker = GoQueue(directory, executable)

    def __enter__(self) -> GoQueue:
        self._broker.start()
        return self._broker

    def __exit__(self, *_: object) -> None:
        self._broker.stop()


def _numbered(value: bytes) -> tuple[int, int]:
    number, due = value.split()
    return int(number), int(due)


def _consume(
    bootstrap: str, count: int, read: Callable[[bytes], tuple[int, int]]
) -> dict[int, tuple[int, int]]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "fetch.wait.max.ms": 100}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    arrivals: dict[int, tuple[int, int]] = {}
    doubles, deadline = 0, time.monotonic() + WAIT_SECONDS_MAX
    while len(arrivals) < count and time.monotonic() < deadline:
        for message in consumer.consume(1_000, 0.2):
            if message.error() is None:
                number, due = read(message.value() or b"")
                doubles += number in arrivals
                arrivals[number] = due, now_ms()
    consumer.close()
    verify(arrivals, count, doubles)
    return arrivals


# --- Redis ----------------------------------------------------------------------------------------

POP_DUE = """
local due = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1], 'LIMIT', 0, 500)
for _, each in ipairs(due) do
  redis.call('ZREM', KEYS[1], each)
  redis.call('RPUSH', KEYS[2], each)
end
return #due
"""


class RedisLink:
    """Redis's protocol, as far as this needs it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = self._socket.makefile("rb")

    def ask(self, *commands: tuple[object, ...]) -> list[Any]:
        """Sent together; the answer to each."""
        self._socket.sendall(b"".join(map(_encode, commands)))
        return [self._read() for _ in commands]

    def _read(self) -> Any:
        line = self._replies.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise Failed(f"redis: {rest.decode()}")
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._replies.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self._read() for _ in range(int(rest))]
        return rest


def _encode(command: tuple[object, ...]) -> bytes:
    words = [str(each).encode() for each in command]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def of_redis(directory: Path, _: str, count: int) -> Figures:
    executable = shutil.which("redis-server")
    if executable is None:
        raise Missing("redis-server is not installed (Debian: apt-get install redis-server)")
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    argv = [executable, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)]
    argv += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    process = Process(argv, directory / "redis.log")
    try:
        link = _wait_for(lambda: RedisLink(port), process)
        due = due_times(count, now_ms() + lead_ms(count))
        started = time.monotonic()
        for first in range(0, count, BATCH):
            some = range(first, min(first + BATCH, count))
            link.ask(*(("ZADD", "delayed", due[n], f"{n} {due[n]}") for n in some))
        seconds = time.monotonic() - started
        done = threading.Event()
        mover = threading.Thread(target=_move_due, args=(port, done))
        mover.start()
        try:
            arrivals = _pop_all(link, count)
        finally:
            done.set()
            mover.join()
        return figures("redis", seconds, arrivals, process.usage().resident_bytes_peak)
    finally:
        process.stop()


def _move_due(port: int, done: threading.Event) -> None:
    """What a worker fleet on Redis runs: pop what is due, every 5 ms when there is nothing."""
    link = RedisLink(port)
    while not done.is_set():
        (moved,) = link.ask(("EVAL", POP_DUE, 2, "delayed", "ready", now_ms()))
        if not moved:
            done.wait(0.005)


def _pop_all(link: RedisLink, count: int) -> dict[int, tuple[int, int]]:
    arrivals: dict[int, tuple[int, int]] = {}
    doubles, deadline = 0, time.monotonic() + WAIT_SECONDS_MAX
    while len(arrivals) < count and time.monotonic() < deadline:
        (first,) = link.ask(("BLPOP", "ready", 1))
        (more,) = link.ask(("LPOP", "ready", 500))
        for value in [*(first or [])[1:], *(more or [])]:
            number, due = _numbered(value)
            doubles += number in arrivals
            arrivals[number] = due, now_ms()
    verify(arrivals, count, doubles)
    return arrivals


def _wait_for(connect: Callable[[], Any], process: Process) -> Any:
    deadline = time.monotonic() + 60
    while True:
        try:
            return connect()
        except OSError:
            process.demand_alive()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


# --- RabbitMQ -------------------------------------------------------------------------------------


def of_rabbitmq(directory: Path, _: str, count: int) -> Figures:
    try:
        pika: Any = importlib.import_module("pika")
    except ImportError:
        raise Missing("its client is not installed: pip install pika") from None
    broker = RabbitMq(directory)
    directory.parent.chmod(0o755)
    before = os.umask(0)  # Debian's script runs it as a user of its own
    try:
        broker.start()
        link = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = link.channel()
        channel.queue_declare("ready", durable=True)
        waits = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "ready"}
        channel.queue_declare("waiting", durable=True, arguments=waits)
        channel.confirm_delivery()
        due = due_times(count, now_ms() + lead_ms(count))
        started = time.monotonic()
        for number in range(count):
            properties = pika.BasicProperties(
                delivery_mode=2, expiration=str(max(1, due[number] - now_ms()))
            )
            channel.basic_publish("", "waiting", f"{number} {due[number]}", properties)
        seconds = time.monotonic() - started
        arrivals = _deliveries(channel, count)
        resident = broker.usage().resident_bytes_peak
        link.close()
        return figures("rabbitmq", seconds, arrivals, resident)
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(str(error)) from error
    finally:
        os.umask(before)
        broker.stop()


def _deliveries(channel: Any, count: int) -> dict[int, tuple[int, int]]:
    arrivals: dict[int, tuple[int, int]] = {}
    doubles = 0
    for method, _, value in _messages(channel):
        if method is None:
            break
        number, due = _numbered(value)
        doubles += number in arrivals
        arrivals[number] = due, now_ms()
        channel.basic_ack(method.delivery_tag)
        if len(arrivals) == count:
            break
    verify(arrivals, count, doubles)
    return arrivals


def _messages(channel: Any) -> Iterator[Any]:
    yield from channel.consume("ready", inactivity_timeout=WAIT_SECONDS_MAX)


# --- all of them ----------------------------------------------------------------------------------

BROKERS: dict[str, Callable[[Path, str, int], Figures]] = {
    "goqueue": of_goqueue,
    "redis": of_redis,
    "rabbitmq": of_rabbitmq,
    "schedules": of_schedules,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="delayed messages beside their peers")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--schedules", type=int, default=2_000)
    parser.add_argument("--broker", action="append", choices=list(BROKERS))
    parser.add_argument("--goqueue", default="")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    executable = arguments.goqueue or installed_goqueue()
    console = Console(width=None if sys.stdout.isatty() else 140)
    directory = Path(tempfile.mkdtemp(prefix="goqueue-delays-"))
    facts = machine.facts(executable, directory)
    console.print(facts, highlight=False)
    found: list[Figures] = []
    try:
        for name in arguments.broker or BROKERS:
            count = arguments.schedules if name == "schedules" else arguments.messages
            try:
                found.append(BROKERS[name](directory / name, executable, count))
            except (Failed, Missing) as problem:
                console.print(f"[red]{name}:[/] {problem}", highlight=False)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    _show(console, found)
    if arguments.json:
        body = {**facts, "command": sys.argv, "results": msgspec.to_builtins(found)}
        arguments.json.write_text(json.dumps(body, indent=2) + "\n")
    return 0 if found else 1


def _show(console: Console, found: list[Figures]) -> None:
    table = Table("broker", "messages", "accepted/s", "p50 ms", "p99 ms", "max ms", "peak MB")
    for each in found:
        late = [f"{each.lateness_ms[name]:.0f}" for name in ("p50", "p99", "max")]
        row = each.broker, f"{each.messages:,}", f"{each.rate:,.0f}", *late
        table.add_row(*row, f"{each.resident_mb:.0f}")
    table.title = "due within one second: from due to arrival"
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
