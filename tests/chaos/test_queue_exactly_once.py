"""A queue worked off in transactions, while broker and workers are killed again and again."""

import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client, Message
from goqueue.model.config import Config, HttpConfig, KafkaConfig
from tests.conformance.server import Server
from tests.conformance.transactional_clients import READERS

WORKER = Path(__file__).with_name("queue_worker.py")
SOURCE, TARGET, GROUP = "source", "target", "workers"
PARTITIONS = 2
WORKERS = 2
MESSAGES_A_ROUND = 60


class Node:
    """The server, and where its HTTP listener stays."""

    def __init__(self, directory: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            host, port = free.getsockname()
        self.url = f"http://{host}:{port}"
        self.server = Server(
            Config(
                data_dir=str(directory),
                kafka=KafkaConfig(listen="127.0.0.1:0"),
                http=HttpConfig(listen=f"{host}:{port}"),
            )
        ).start()

    def results(self) -> Counter[bytes]:
        read = READERS["confluent"]
        return Counter(read(self.server.address, TARGET, PARTITIONS, "read_committed"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "data")
    yield node
    node.server.kill()


class Worker:
    def __init__(self, node: Node, directory: Path, number: int) -> None:
        self._command = [sys.executable, "-P", str(WORKER), node.url, SOURCE, TARGET, GROUP]
        self._name = f"worker-{number}"
        self._log = directory / f"{self._name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*self._command, self._name], stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def log(self) -> str:
        return self._log.read_text()[-3000:]


def feed(node: Node, first: int) -> None:
    """Each number once: the server lives while it is fed."""
    with Client(node.url) as client:
        numbers = range(first, first + MESSAGES_A_ROUND)
        client.publish(SOURCE, [Message(str(each), key=str(each)) for each in numbers])


def run(node: Node, directory: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    with Client(node.url) as client:
        for topic in (SOURCE, TARGET):
            client.create_topic(topic, partitions=PARTITIONS)
        hasty = {"visibility_ms": 2_000, "backoff_max_ms": 1_000, "max_timeouts": 1000}
        client.change_queue_settings(GROUP, hasty)
    workers = [Worker(node, directory, number) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    try:
        for number in range(rounds):
            feed(node, number * MESSAGES_A_ROUND)
            time.sleep(chance.uniform(0.1, 1.5))  # rule-ok: somewhere in the middle of the work
            _disaster(node, workers, chance)
        expected = Counter(b"<%d>" % number for number in range(rounds * MESSAGES_A_ROUND))
        _await_all(node, workers, len(expected))
        found = node.results()
        assert found - expected == Counter(), "duplicates"
        assert expected - found == Counter(), "losses"
        _assert_worked_off(node)
    finally:
        for worker in workers:
            worker.kill()


def _disaster(node: Node, workers: list[Worker], chance: random.Random) -> None:
    victims = chance.choice(("broker", "worker", "both"))
    worker = chance.choice(workers)
    if victims in ("worker", "both"):
        worker.kill()
    if victims in ("broker", "both"):
        node.server.kill()
        node.server.start()
    if victims in ("worker", "both"):
        worker.start()


def _await_all(node: Node, workers: list[Worker], count: int) -> None:
    deadline = time.monotonic() + 120
    while len(node.results()) < count:
        told = "".join(worker.log() for worker in workers)
        assert time.monotonic() < deadline, told + node.server.log()[-3000:]
        time.sleep(0.5)  # rule-ok: another process works
    time.sleep(3.0)  # rule-ok: whatever should not come has its chance


def _assert_worked_off(node: Node) -> None:
    with Client(node.url) as client:
        assert client.receive(SOURCE, GROUP, wait_ms=3_000) == []
        stats: Any = client.queue_stats(GROUP)
        assert client.in_flight(GROUP) == [], stats


@pytest.mark.timeout(300)
def test_a_few_deaths_neither_lose_nor_double_anything(node, tmp_path):
    run(node, tmp_path, rounds=3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_deaths_neither_lose_nor_double_anything(node, tmp_path):
    run(node, tmp_path, rounds=100, seed=2)
