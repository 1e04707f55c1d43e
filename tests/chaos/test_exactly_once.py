"""Consume, transform, produce, while broker and worker are killed again and again."""

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.conftest import free_port_config
from tests.conformance.server import Server
from tests.conformance.transactional_clients import READERS

WORKER = Path(__file__).with_name("transform_worker.py")
PARTITIONS = 2
MESSAGES_A_ROUND = 100


@pytest.fixture
def server(tmp_path: Any) -> Iterator[Server]:
    server = Server(free_port_config(tmp_path)).start()
    yield server
    server.kill()


class Worker:
    def __init__(self, server: Server, directory: Path) -> None:
        self._server = server
        self._log = directory / "worker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-P", str(WORKER), self._server.address]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "source", "target", "workers", "worker-1"], stdout=log, stderr=log
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def log(self) -> str:
        return self._log.read_text()[-3000:]


def feed(server: Server, first: int) -> None:
    producer = confluent_kafka.Producer(server.bootstrap | {"enable.idempotence": True})
    for number in range(first, first + MESSAGES_A_ROUND):
        producer.produce("source", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def results(server: Server) -> Counter[bytes]:
    return Counter(READERS["confluent"](server.address, "target", PARTITIONS, "read_committed"))


def run(server: Server, directory: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    topics = [NewTopic(name, PARTITIONS, 1) for name in ("source", "target")]
    admin = AdminClient(server.bootstrap)
    for made in admin.create_topics(topics).values():
        made.result(20)
    worker = Worker(server, directory)
    worker.start()
    try:
        for number in range(rounds):
            feed(server, number * MESSAGES_A_ROUND)
            time.sleep(chance.uniform(0.2, 2.0))  # rule-ok: somewhere in the middle of the work
            victim = chance.choice(("broker", "worker", "both"))
            if victim in ("worker", "both"):
                worker.kill()
            if victim in ("broker", "both"):
                server.kill()
                server.start()
            if victim in ("worker", "both"):
                worker.start()
        expected = Counter(b"<%d>" % number for number in range(rounds * MESSAGES_A_ROUND))
        _await_all(server, worker, len(expected))
        found = results(server)
        assert found - expected == Counter(), "duplicates"
        assert expected - found == Counter(), "losses"
    finally:
        worker.kill()


def _await_all(server: Server, worker: Worker, count: int) -> None:
    deadline = time.monotonic() + 90
    while len(results(server)) < count:
        assert time.monotonic() < deadline, worker.log() + server.log()[-3000:]
        time.sleep(0.5)  # rule-ok: another process works
    time.sleep(1.0)  # rule-ok: whatever should not come has its chance


@pytest.mark.timeout(300)
def test_a_few_deaths_neither_lose_nor_double_anything(server, tmp_path):
    run(server, tmp_path, rounds=4, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_deaths_neither_lose_nor_double_anything(server, tmp_path):
    run(server, tmp_path, rounds=100, seed=2)
