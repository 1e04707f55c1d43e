"""What TLS and logins cost: `python -m bench.locks [--messages N] [--repeats N] [--compression C]`.

Four servers beside each other: `plain`; `auth`, with SCRAM and a user who has roles, so that every
request is looked at; `tls`, encrypted, and asking nobody who they are; `both`.  In turns one
librdkafka client writes the same messages of 1 KiB to each (acks=all, fsync), and reads them back.
Beside the rates stand the CPU times of server and client a message, which other work on the machine
disturbs less: client and server share the cores, so the client's own part of TLS is in the rates.

Values are random, so that they do not compress.  Without compression librdkafka sends some quarter
of a batch's messages as two TLS records each, one of ten bytes and one with the value; with it
(`--compression lz4`) a batch is one run of records of 16 KiB, as other clients send it anyhow.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import GoQueue, installed_goqueue, login_arguments
from bench.sending import send_each, timed

SIZE = 1024
VALUES = 4096  # different ones, more than a compressor looks back
MODES = ("plain", "auth", "tls", "both")
PASSWORD = "a password of the benchmark"


class Taken(NamedTuple):
    """Seconds; CPU seconds are of the server, and of the client."""

    write: float
    write_cpu: float
    write_client: float
    read: float
    read_cpu: float
    read_client: float


class Server:
    def __init__(self, directory: Path, mode: str, executable: str) -> None:
        self.mode = mode
        directory.mkdir()
        arguments: list[str] = []
        self.login: dict[str, Any] = {"log_level": 0}
        is_tls, has_auth = mode in ("tls", "both"), mode in ("auth", "both")
        if has_auth:
            arguments += login_arguments(directory, "bench", PASSWORD)
            self.login |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "bench"}
            self.login |= {"sasl.password": PASSWORD}
        if is_tls:
            _make_certificate(directory)
            arguments += ["--tls-cert", str(directory / "cert.pem")]
            arguments += ["--tls-key", str(directory / "key.pem")]
            self.login["ssl.ca.location"] = str(directory / "cert.pem")
        protocol = f"{'SASL_' if has_auth else ''}{'SSL' if is_tls else 'PLAINTEXT'}"
        self.login["security.protocol"] = protocol
        self.broker = GoQueue(directory, executable, arguments)
        self.broker.start(is_plain=not is_tls)
        self.login["bootstrap.servers"] = self.broker.kafka

    def cpu_seconds(self) -> float:
        return self.broker.usage().cpu_seconds


def _make_certificate(directory: Path) -> None:
    argv = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ["-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    files = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "cert.pem")]
    subprocess.run([*argv.split(), *names, *files], check=True, capture_output=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--messages", type=int, default=200_000)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--compression", default="none")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as directory, ExitStack() as stack:
        servers = []
        for mode in MODES:
            server = Server(Path(directory) / mode, mode, installed_goqueue())
            stack.callback(server.broker.stop)
            servers.append(server)
        for server in servers:
            _pass(server, given.messages // 10, given.compression)  # a warm-up
        found: dict[str, list[Taken]] = {mode: [] for mode in MODES}
        for _ in range(given.repeats):
            for server in servers:
                found[server.mode].append(_pass(server, given.messages, given.compression))
    _show(found, given.messages)


def _pass(server: Server, messages: int, compression: str = "none") -> Taken:
    topic = f"bench-{os.urandom(4).hex()}"
    admin = AdminClient(server.login)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    more = {"acks": "all", "linger.ms": 5, "batch.size": 1_000_000}
    more["compression.type"] = compression
    producer = confluent_kafka.Producer({**server.login, **more})
    producer.list_topics(topic, 20)
    values = [os.urandom(SIZE) for _ in range(VALUES)]
    sent = itertools.islice(itertools.cycle(values), messages)
    before = client_cpu_seconds()
    written = timed(lambda: send_each(producer, topic, sent), server.cpu_seconds)
    between = client_cpu_seconds()
    read = _read(server, topic, messages)
    clients = between - before, client_cpu_seconds() - between
    admin.delete_topics([topic])[topic].result(20)
    return Taken(*written, clients[0], *read, clients[1])


def client_cpu_seconds() -> float:
    used = os.times()
    return used.user + used.system


def _read(server: Server, topic: str, messages: int) -> tuple[float, float]:
    consumer = confluent_kafka.Consumer(
        {**server.login, "group.id": topic, "fetch.message.max.bytes": 8 << 20}
    )
    consumer.list_topics(topic, 20)  # it has logged in then, as the producer had

    def read() -> None:
        consumer.assign([TopicPartition(topic, 0, 0)])
        count = 0
        while count < messages:
            found = consumer.consume(10_000, 10)
            assert found, f"{count} of {messages} messages were read"
            count += len(found)

    taken = timed(read, server.cpu_seconds)
    consumer.close()
    return taken


def _show(found: dict[str, list[Taken]], messages: int) -> None:
    print(f"{messages} messages of {SIZE} bytes, {len(found['plain'])} passes, medians")
    head = f"{'msg/s':>9} {'of plain':>9} {'best':>6} {'CPU us':>7} {'of plain':>9} {'client':>7}"
    print(f"{'':12} {head}")
    for name, at in (("write", 0), ("read", 3)):
        for mode, passes in found.items():
            pairs = list(zip(passes, found["plain"], strict=True))
            rate = messages / statistics.median(each[at] for each in passes)
            share = statistics.median(plain[at] / each[at] for each, plain in pairs)
            best = min(plain[at] for _, plain in pairs) / min(each[at] for each, _ in pairs)
            cost = statistics.median(each[at + 1] for each in passes) / messages * 1e6
            times = statistics.median(
                each[at + 1] / max(plain[at + 1], 0.01) for each, plain in pairs
            )
            client = statistics.median(each[at + 2] for each in passes) / messages * 1e6
            row = f"{rate:9.0f} {share:9.0%} {best:6.0%} {cost:7.2f} {times:9.2f} {client:7.2f}"
            print(f"{f'{name}, {mode}':12} {row}")


if __name__ == "__main__":
    main()
