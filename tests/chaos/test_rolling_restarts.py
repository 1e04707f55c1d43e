"""All nodes are restarted again and again, in good order: no client library shows an error.

`make chaos-rolling ROUNDS=50` runs the long one.  franz-go takes part where Go is, Apache Kafka's
Java clients where Java and Maven are.

An error is what the application gets: a promise or callback that fails, a poll that raises.  That a
client finds a node down, tries another one and writes a line to its log is its business.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.cluster import FOLLOW_S, NODES, Cluster
from tests.chaos.faults import restart_all
from tests.chaos.load.load import Load
from tests.conformance.test_java import LIBRARIES, fetch

ROUNDS = int(os.environ.get("ROUNDS", "50"))
PARTITIONS = 6
ANSWER_S = 60.0
PAUSE_S = 0.02
GO = shutil.which("go") or shutil.which("/usr/local/go/bin/go")

Eventually = Callable[..., None]


class LibraryLoad(Load):
    """A producer and a consumer of one library, on a topic of their own; errors fail it."""

    def __init__(self, name: str, cluster: Cluster, histories: Path) -> None:
        super().__init__(name, histories)
        self.topic = f"by-{name}"
        self.servers = cluster.bootstrap
        self.sent = 0
        self.seen: set[int] = set()
        self.errors: list[str] = []

    def fail(self, problem: object) -> None:
        self.errors.append(str(problem))
        self.file.note("error", problem=str(problem))

    def close(self) -> None:
        """Read to the end; everything that was sent was seen."""


class ConfluentLoad(LibraryLoad):
    def __init__(self, cluster: Cluster, histories: Path) -> None:
        super().__init__("confluent", cluster, histories)
        shared = {"bootstrap.servers": self.servers, "log_level": 0}
        self._producer = Producer({**shared, "acks": "all", "enable.idempotence": True})
        self._consumer = Consumer(
            {**shared, "group.id": "g-confluent", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([self.topic])

    def step(self) -> None:
        self._producer.produce(self.topic, str(self.sent), on_delivery=self._answered)
        self.sent += 1
        self._producer.poll(0)
        self._take(0.0)
        self.pause(PAUSE_S)

    def _answered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.fail(error)

    def _take(self, seconds: float) -> None:
        for message in self._consumer.consume(100, seconds):
            if message.error() is not None:
                self.fail(message.error())
            else:
                self.seen.add(int(message.value() or b"-1"))

    def close(self) -> None:
        assert self._producer.flush(ANSWER_S) == 0
        for _ in range(600):
            if len(self.seen) == self.sent:
                break
            self._take(0.1)
        self._consumer.close()


class KafkaPythonLoad(LibraryLoad):
    def __init__(self, cluster: Cluster, histories: Path) -> None:
        super().__init__("kafka-python", cluster, histories)
        servers = self.servers.split(",")
        self._producer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all")
        self._consumer = kafka.KafkaConsumer(
            self.topic,
            bootstrap_servers=servers,
            group_id="g-kafka-python",
            auto_offset_reset="earliest",
        )

    def step(self) -> None:
        self._producer.send(self.topic, str(self.sent).encode()).add_errback(self.fail)
        self.sent += 1
        self._take(10)
        self.pause(PAUSE_S)

    def _take(self, milliseconds: int) -> None:
        """Its poll raises `UnknownBrokerIdError` when a node leaves between two of its own steps.

        3.0.12 has the leader of before and the brokers of now, then; and fetches no more from that
        node, for which it believes to have a request under way.  So its reading is not counted.
        """
        with contextlib.suppress(kafka.errors.UnknownBrokerIdError):
            for records in self._consumer.poll(timeout_ms=milliseconds).values():
                self.seen |= {int(each.value) for each in records}

    def close(self) -> None:
        self._producer.flush(ANSWER_S)
        for _ in range(100):  # its reading is not counted: see `_take`
            if len(self.seen) == self.sent:
                break
            self._take(100)
        self._consumer.close()
        self._producer.close()


class AiokafkaLoad(LibraryLoad):
    def __init__(self, cluster: Cluster, histories: Path) -> None:
        super().__init__("aiokafka", cluster, histories)
        self._runner = asyncio.Runner()
        self._producer: Any = None
        self._consumer: Any = None

    def step(self) -> None:
        self._runner.run(self._work())

    async def _work(self) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.servers, acks="all", enable_idempotence=True
        )
        consumer = aiokafka.AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.servers,
            group_id="g-aiokafka",
            auto_offset_reset="earliest",
        )
        await producer.start()
        await consumer.start()
        try:
            while not self.is_ending:
                answer = await producer.send(self.topic, str(self.sent).encode())
                answer.add_done_callback(self._answered)
                self.sent += 1
                await self._take(consumer, 10)
                await asyncio.sleep(PAUSE_S)
            await producer.flush()
            for _ in range(600):
                if len(self.seen) == self.sent:
                    break
                await self._take(consumer, 100)
        finally:
            await consumer.stop()
            await producer.stop()

    def _answered(self, answer: "asyncio.Future[Any]") -> None:
        if answer.exception() is not None:
            self.fail(answer.exception())

    async def _take(self, consumer: Any, milliseconds: int) -> None:
        found = await consumer.getmany(timeout_ms=milliseconds)
        for records in found.values():
            self.seen |= {int(each.value) for each in records}

    def close(self) -> None:
        self._runner.close()


class ProgramLoad(LibraryLoad):
    """The program prints how many it sent and saw, and each error, when its input ends."""

    def __init__(self, name: str, command: list[str], cluster: Cluster, histories: Path) -> None:
        super().__init__(name, cluster, histories)
        self._process = subprocess.Popen(
            [*command, self.servers, self.topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def step(self) -> None:
        assert self._process.poll() is None, self._process.communicate()[0]
        self.pause(0.2)

    def close(self) -> None:
        output, _ = self._process.communicate(timeout=2 * ANSWER_S)
        *problems, counts = output.splitlines()
        for each in problems:
            self.fail(each)
        sent, seen = map(int, counts.split())
        self.sent, self.seen = sent, set(range(seen))


@contextlib.contextmanager
def running(loads: list[LibraryLoad]) -> Iterator[None]:
    for each in loads:
        each.start()
    try:
        yield
    finally:
        enders = [threading.Thread(target=each.ask_to_end) for each in loads]
        for ender in enders:
            ender.start()
        for ender in enders:
            ender.join()
    for each in loads:
        each.end()


def restart_under_load(
    directory: Path, rounds: int, eventually: Eventually, programs: dict[str, list[str]]
) -> None:
    cluster = Cluster(directory, topics__replication=NODES)
    with cluster.running():
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        libraries = ["confluent", "kafka-python", "aiokafka", *programs]
        names = [f"by-{each}" for each in libraries]
        for made in admin.create_topics([NewTopic(n, PARTITIONS, NODES) for n in names]).values():
            made.result(ANSWER_S)
        histories = directory / "histories"
        loads: list[LibraryLoad] = [
            ConfluentLoad(cluster, histories),
            KafkaPythonLoad(cluster, histories),
            AiokafkaLoad(cluster, histories),
        ]
        loads += [ProgramLoad(*each, cluster, histories) for each in programs.items()]
        with running(loads):
            eventually(lambda: all(each.sent > 20 for each in loads[:3]), within_s=FOLLOW_S)
            for number in range(rounds):
                eventually(cluster.is_whole, within_s=FOLLOW_S)
                restart_all(cluster, [number % NODES + 1], eventually)
                for each in loads:
                    each.check_alive()
    for each in loads:
        print(f"{each.name}: {each.sent} sent, {len(each.seen)} seen, errors: {each.errors[:5]}")
    assert {each.name: each.errors for each in loads} == {each.name: [] for each in loads}
    whole = [each for each in loads if not isinstance(each, KafkaPythonLoad)]
    assert {each.name: len(each.seen) for each in whole} == {each.name: each.sent for each in whole}


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.flaky(reruns=0)
def test_no_client_shows_an_error_while_nodes_are_restarted(
    tmp_path: Path, eventually: Eventually, programs: dict[str, list[str]]
):
    restart_under_load(tmp_path, ROUNDS, eventually, programs)


@pytest.fixture(scope="session")
def programs(franz_roller: Path | None) -> dict[str, list[str]]:
    """Clients in other languages, as far as they can be run here."""
    found = {} if franz_roller is None else {"franz": [str(franz_roller)]}
    if shutil.which("java") and shutil.which("mvn"):
        fetch("kafka-tools", LIBRARIES)
        source = Path(__file__).with_name("java") / "Numbers.java"
        found["java"] = ["java", "-Xmx128m", "-cp", f"{LIBRARIES}/*", str(source)]
    return found


@pytest.fixture(scope="session")
def franz_roller(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """The program in `franz/`, built; None where there is no Go, or no module proxy."""
    if GO is None:
        return None
    program = tmp_path_factory.mktemp("go") / "franz"
    built = subprocess.run(
        [GO, "build", "-o", str(program), "."],
        cwd=Path(__file__).with_name("franz"),
        env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        timeout=300,
        check=False,
    )
    return program if built.returncode == 0 else None
