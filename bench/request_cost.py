"""What one small request costs the server, by kind, over one connection that stays open.

    python -m bench.request_cost [--instructions] [--only TEXT] [GOQUEUE ...]

Each GOQUEUE is the `goqueue` command of a build; without one it is the installed one.  The builds
take turns, and every kind shows its least CPU time a request, since other work on the machine can
only add to it.  `--instructions` runs the servers under valgrind and counts instructions of the
process instead: fifty times slower, and the same again to a few percent on a busy machine; what the
server does by the clock counts too, so take few requests at a time and many repeats there.  Its
data is best on a memory disk (`TMPDIR=/dev/shm`), so that no time is spent in waiting for a device.
"""

import argparse
import re
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.serial import entity_writer

from bench.brokers import READY_LINE, environment_without_src, installed_goqueue
from bench.process import Process
from bench.queues.doors import Link
from goqueue.model.batch import encode
from goqueue.model.record import Record
from goqueue.wire.messages import build, duration

TOPIC = "requests"
QUEUE = "queued"
TRANSACTED = "transacted"
BATCH = 1_000
READY_SECONDS_MAX = 300.0
FRAME = struct.Struct(">ihhi")  # length, api key, version, correlation id
CLIENT_ID = struct.pack(">h", 5) + b"bench"
PRODUCE, FETCH, API_VERSIONS = 0, 1, 18

Turn = Callable[[], object]


class Options(msgspec.Struct, frozen=True):
    requests: int
    repeats: int
    instructions: bool
    only: str  # kinds whose names have this text


class Server:
    """One build under measurement."""

    def __init__(self, directory: Path, executable: str, *, instructions: bool) -> None:
        self._instructions = instructions
        argv = [executable, "server", "--data-dir", str(directory / "data")]
        argv += ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        if instructions:
            out = f"--callgrind-out-file={directory / 'callgrind'}"
            python = str(Path(executable).with_name("python"))
            tool = ["valgrind", "--tool=callgrind", "--instr-atstart=no", out]
            argv = [*tool, python, "-P", *argv]
        env = {**environment_without_src(), "PYTHONHASHSEED": "0"}
        self._process = Process(argv, directory / "log", env=env)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not (line := READY_LINE.search(self._process.output.read_text(errors="replace"))):
            self._process.demand_alive()
            assert time.monotonic() < deadline, self._process.tail()
            time.sleep(0.01)
        self._addresses = line[1], line[2]
        self._connect()
        if instructions:
            self._control("--instr=on")

    def _connect(self) -> None:
        kafka, http = self._addresses
        self.http = Link(http)
        self.kafka = KafkaLink(kafka)

    def reconnect(self) -> None:
        """The server closes connections that were idle while the others were measured."""
        self.http.close()
        self.kafka.close()
        self._connect()

    def used(self) -> float:
        """Microseconds of CPU, or thousands of instructions, since the start."""
        if self._instructions:
            totals = re.findall(r"Th \d+ +([\d,]+)", self._control("-e"))
            return sum(int(total.replace(",", "")) for total in totals) / 1e3
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3

    def _control(self, option: str) -> str:
        argv = ["callgrind_control", option, str(self._process.pid)]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    def stop(self) -> None:
        self.http.close()
        self.kafka.close()
        self._process.stop()


class KafkaLink:
    """One connection that stays open, for bytes that were made before."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=READY_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._responses = self._socket.makefile("rb")

    def send(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        (size,) = struct.unpack(">i", self._responses.read(4))
        return self._responses.read(size)

    def close(self) -> None:
        self._responses.close()
        self._socket.close()


# --- the requests -------------------------------------------------------------------------------


def prepare(server: Server) -> None:
    held = {"max_in_flight_consumer": 1_000_000, "max_in_flight_group": 1_000_000}
    for name in (TOPIC, QUEUE, TRANSACTED):
        server.http.send("POST", "/topics", {"name": name, "num_partitions": 1})
    server.http.send("PUT", "/groups/bench/queue", held)
    publish(server, TOPIC, 1)


def publish(server: Server, topic: str, count: int) -> None:
    messages = [{"value": "x" * 100}] * count
    server.http.send("POST", f"/topics/{topic}/messages", {"messages": messages})


def work_off(server: Server, count: int) -> None:
    asked = {"group": "bench", "consumer": "one", "max_messages": count, "wait": "5s"}
    found = msgspec.json.decode(server.http.send("POST", f"/queues/{QUEUE}/receive", asked))
    receipts = [each["receipt_handle"] for each in found["messages"]]
    assert len(receipts) == count, f"{len(receipts)} of {count} messages"
    body = {"receipt_handle": receipts[0]} if count == 1 else {"receipt_handles": receipts}
    server.http.send("POST", "/messages/ack", body)


def transact(server: Server) -> None:
    """A new producer each time: whoever had the name before has ended its transaction."""
    named = {"transactional_id": "bench"}
    found = msgspec.json.decode(server.http.send("POST", "/producers/init", named))
    who = {**named, "producer_id": found["producer_id"], "epoch": found["epoch"]}
    server.http.send("POST", "/transactions/begin", who)
    message = {"topic": TRANSACTED, "value": "x" * 100, "partition": 0}
    server.http.send("POST", "/transactions/publish", {**who, **message})
    server.http.send("POST", "/transactions/commit", who)


def turns(server: Server) -> dict[str, Turn]:
    """What is measured, by name."""
    record = bytes(encode([Record(0, 1, None, b"x" * 100)]))
    data = build(PartitionProduceData, index=0, records=record)
    topic_data = (build(TopicProduceData, name=TOPIC, partition_data=(data,)),)
    produce = build(ProduceRequest, acks=1, timeout=duration(1000), topic_data=topic_data)
    partition = build(FetchPartition, partition=0, fetch_offset=0, partition_max_bytes=100)
    topics = (build(FetchTopic, topic=TOPIC, partitions=(partition,)),)
    fetch = build(FetchRequest, max_wait=duration(0), min_bytes=1, topics=topics)
    frames = {
        "Kafka ApiVersions": _frame(API_VERSIONS, 0, b""),
        "Kafka Produce, one record, acks=1": _frame(PRODUCE, 9, b"\0" + _bytes_of(produce)),
        "Kafka Fetch, one record": _frame(FETCH, 12, b"\0" + _bytes_of(fetch)),
    }
    http = {
        "GET /livez": lambda: server.http.send("GET", "/livez", None),
        "publish one message": lambda: publish(server, TOPIC, 1),
        "read one message": lambda: server.http.send(
            "GET", f"/topics/{TOPIC}/messages?limit=1", None
        ),
        "receive and ack one": lambda: work_off(server, 1),
        f"receive and ack {BATCH:,}": lambda: work_off(server, BATCH),
        "transaction of one message": lambda: transact(server),
    }
    return {**http, **{name: partial(server.kafka.send, sent) for name, sent in frames.items()}}


def _bytes_of(entity: Any) -> bytes:
    out = BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def _frame(api_key: int, version: int, rest: bytes) -> bytes:
    size = FRAME.size - 4 + len(CLIENT_ID) + len(rest)
    return FRAME.pack(size, api_key, version, 1) + CLIENT_ID + rest


# --- the measurement ----------------------------------------------------------------------------


def measure(servers: list[Server], options: Options) -> list[dict[str, float]]:
    """For each server, what each kind of request costs at the least."""
    found: list[dict[str, float]] = [{} for _ in servers]
    for _ in range(options.repeats):
        for name in (each for each in turns(servers[0]) if options.only in each):
            for server, costs in zip(servers, found, strict=True):
                cost = _cost(server, name, options.requests)
                costs[name] = min(cost, costs.get(name, cost))
    return found


def _cost(server: Server, name: str, count: int) -> float:
    server.reconnect()
    turn = turns(server)[name]
    if str(BATCH) in name.replace(",", ""):
        count = max(1, count // 25)
        publish_many(server, BATCH * (count + 1))
    elif name.startswith("receive"):
        publish_many(server, count + 1)
    turn()
    before = server.used()
    for _ in range(count):
        turn()
    return (server.used() - before) / count


def publish_many(server: Server, count: int) -> None:
    for start in range(0, count, BATCH):
        publish(server, QUEUE, min(BATCH, count - start))


@contextmanager
def running(executables: list[str], options: Options) -> Iterator[list[Server]]:
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as directory, ExitStack() as stack:
        servers = []
        for number, executable in enumerate(executables):
            own = Path(directory) / str(number)
            own.mkdir()
            server = Server(own, executable, instructions=options.instructions)
            stack.callback(server.stop)
            prepare(server)
            servers.append(server)
        yield servers


def main() -> None:
    parser = argparse.ArgumentParser(description="What one small request costs the server.")
    parser.add_argument("goqueue", nargs="*", default=[installed_goqueue()])
    parser.add_argument("--instructions", action="store_true", help="count them, with valgrind")
    parser.add_argument("--requests", type=int, default=50, help="of each kind, at a time")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--only", default="", metavar="TEXT", help="kinds with this in their names")
    found = parser.parse_args()
    options = Options(found.requests, found.repeats, found.instructions, found.only)
    with running(found.goqueue, options) as servers:
        results = measure(servers, options)
    print("thousands of instructions a turn" if options.instructions else "CPU microseconds a turn")
    for name, first in results[0].items():
        others = [costs[name] for costs in results[1:]]
        shown = "".join(f"{cost:12.1f} {100 * cost / first - 100:+6.1f} %" for cost in others)
        print(f"{name:36}{first:12.1f}{shown}")


if __name__ == "__main__":
    main()
