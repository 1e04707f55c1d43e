"""Group transactions as an engine uses them: attempts over HTTP, data by Kafka's Produce."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from kio.schema.errors import ErrorCode

from goqueue.client.kafka import KafkaClient, KafkaRefused
from goqueue.model import batch as batches
from goqueue.model.batch import TRANSACTIONAL
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.record import Record
from tests.conformance.server import Server
from tests.conformance.transactional_clients import READERS

PARTITIONS = 2


class Engine:
    """A driver and its tasks."""

    def __init__(self, server: Server, topic: str) -> None:
        self._server = server
        self.topic = topic
        self.name = uuid.uuid4().hex
        self._kafka = KafkaClient(server.address, timeout_s=20)
        self._http = httpx.Client(base_url=self._http_url(), timeout=20)

    def _http_url(self) -> str:
        settings = self._kafka.describe_configs("broker", "1")
        return settings["goqueue.http.address"] or ""

    def reconnect(self) -> None:
        """The server is another process now, and its HTTP port another one."""
        self.close()
        self._kafka = KafkaClient(self._server.address, timeout_s=20)
        self._http = httpx.Client(base_url=self._http_url(), timeout=20)

    def close(self) -> None:
        self._http.close()
        self._kafka.close()

    def call(self, verb: str, status: int = 200, **body: Any) -> Any:
        answer = self._http.post(f"/transactions/groups/{self.name}/{verb}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self._http.get(f"/transactions/groups/{self.name}").json()
        return found

    def ids(self) -> list[str]:
        """Transactional ids that the broker knows of this engine."""
        found = self._http.get("/transactions", params={"all": "true"}).json()["transactions"]
        names = [each["transactional_id"] for each in found]
        return [name for name in names if name.startswith(self.name)]

    def attempt(self, run: int, version: int, task: int, attempt: int = 0) -> "Attempt":
        found = self.call("attempts", version=version, run=run, task=task, attempt=attempt)
        assert found.pop("already_decided") is False
        return Attempt(self._kafka, self.topic, found)

    def decide(self, run: int, version: int, attempts: "list[Attempt]", status: int = 200) -> Any:
        members = [attempt.member for attempt in attempts]
        return self.call("decide", status, version=version, run=run, members=members)

    def visible(self) -> list[bytes]:
        read = READERS["confluent"]
        return sorted(read(self._server.address, self.topic, PARTITIONS, "read_committed"))


class Attempt:
    def __init__(self, kafka: KafkaClient, topic: str, member: dict[str, Any]) -> None:
        self._kafka = kafka
        self._topic = topic
        self.member = member
        self._sequences = [0] * PARTITIONS

    def write(self, *values: bytes) -> None:
        """All to every partition, in one request, without adding the partitions first."""
        sent = {
            TopicPartition(TopicName(self._topic), each): self._batch(each, values)
            for each in range(2)
        }
        self._kafka.produce(sent, transactional_id=self.member["transactional_id"])
        self._sequences = [each + len(values) for each in self._sequences]

    def _batch(self, index: int, values: tuple[bytes, ...]) -> list[bytearray]:
        who = (self.member["producer_id"], self.member["epoch"], self._sequences[index])
        records = [Record(number, 1, None, value) for number, value in enumerate(values)]
        return [batches.encode(records, attributes=TRANSACTIONAL, producer=who)]


@pytest.fixture
def start(make_topic: Callable[..., str]) -> Iterator[Callable[[Server], Engine]]:
    started: list[Engine] = []

    def start(server: Server, topic: str | None = None) -> Engine:
        started.append(Engine(server, topic or make_topic(PARTITIONS)))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def engine(start: Callable[[Server], Engine], server: Server) -> Engine:
    return start(server)


def refused(attempt: Attempt) -> ErrorCode:
    """Why it may not write any more."""
    with pytest.raises(KafkaRefused) as refusal:
        attempt.write(b"late")
    return refusal.value.code


def test_a_decision_shows_the_attempts_it_names_and_no_others(engine):
    assert engine.call("runs") == {"run": 0, "last_version": -1}
    first, second = engine.attempt(0, 7, task=0), engine.attempt(0, 7, task=1)
    slow, silent = engine.attempt(0, 7, task=1, attempt=1), engine.attempt(0, 7, task=2)
    first.write(b"a", b"b")
    first.write(b"c")
    second.write(b"d")
    slow.write(b"d")
    assert engine.visible() == []
    decided = engine.decide(0, 7, [first, second, silent])
    assert decided["already_decided"] is False
    assert engine.visible() == sorted([b"a", b"b", b"c", b"d"] * PARTITIONS)
    assert engine.state() == {"application": engine.name, "run": 0, "last_version": 7}
    assert engine.ids() == [], "nothing is left of them"
    for attempt in (first, slow, silent):
        assert refused(attempt) in (
            ErrorCode.invalid_producer_id_mapping,
            ErrorCode.invalid_producer_epoch,
        )
    assert engine.decide(0, 7, [first, second])["already_decided"] is True
    again = engine.call("attempts", version=7, run=0, task=0, attempt=5)
    assert again["already_decided"] is True
    assert engine.visible() == sorted([b"a", b"b", b"c", b"d"] * PARTITIONS)


def test_an_abort_ends_every_attempt_also_those_nobody_heard_of_again(engine):
    engine.call("runs")
    lost, empty = engine.attempt(0, 0, task=0), engine.attempt(0, 0, task=1)
    lost.write(b"x")
    assert engine.call("abort", version=0, run=0) == {
        "version": 0,
        "already_decided": False,
        "aborted": 1,
    }
    assert engine.ids() == []
    assert refused(lost) is ErrorCode.invalid_producer_id_mapping
    assert refused(empty) is ErrorCode.invalid_producer_id_mapping
    retry = engine.attempt(0, 0, task=0, attempt=1)
    retry.write(b"z")
    engine.decide(0, 0, [retry])
    assert engine.call("abort", version=0, run=0)["already_decided"] is True
    assert engine.visible() == [b"z"] * PARTITIONS


def test_a_new_run_shuts_out_the_one_before(engine):
    engine.call("runs")
    zombie = engine.attempt(0, 0, task=0)
    zombie.write(b"zombie")
    assert engine.call("runs")["run"] == 1
    assert refused(zombie) is ErrorCode.invalid_producer_id_mapping
    for verb in ("attempts", "decide", "abort"):
        body = {"version": 0, "run": 0} | ({"task": 0, "attempt": 1} if verb == "attempts" else {})
        answer = engine.call(verb, 409, **body)
        assert answer["error"]["code"] == "application_fenced"
    owner = engine.attempt(1, 0, task=0)
    owner.write(b"owner")
    engine.decide(1, 0, [owner])
    assert engine.visible() == [b"owner"] * PARTITIONS


def test_attempts_belong_to_their_group(engine):
    engine.call("runs")
    attempt = engine.attempt(0, 0, task=0)
    attempt.write(b"x")
    wrong = engine.decide(0, 1, [attempt], status=409)
    assert wrong["error"]["code"] == "invalid_transaction_state"
    missing = engine.call("attempts", 409, version=0, run=9, task=0, attempt=0)
    assert missing["error"]["code"] == "invalid_transaction_state"
    for body in (
        {"version": -1, "run": 0, "task": 0, "attempt": 0},
        {"version": 0, "run": 0, "task": 0},
        {"version": 0, "run": 0, "task": 0, "attempt": 0, "timeout_ms": 0},
        {"version": 0, "run": 0, "task": 0, "attempt": 0, "timeout_ms": 86_400_001},
    ):
        engine.call("attempts", 400, **body)
    engine.call("abort", version=0, run=0)


@pytest.mark.parametrize("decided", [True, False])
def test_a_death_of_the_broker_leaves_all_of_a_version_or_nothing(
    start, own_server, eventually, decided
):
    with KafkaClient(own_server.address, timeout_s=20) as kafka:
        kafka.create_topic("results", partitions=PARTITIONS)
    engine = start(own_server, "results")
    engine.call("runs")
    attempts = [engine.attempt(0, 0, task=task) for task in range(3)]
    for number, attempt in enumerate(attempts):
        attempt.write(b"%d" % number)
    if decided:
        engine.decide(0, 0, attempts)
    own_server.kill()
    own_server.start()
    engine.reconnect()
    assert engine.call("runs") == {"run": 1, "last_version": 0 if decided else -1}
    eventually(lambda: engine.ids() == [])  # a new broker ends again what is not noted as ended
    expected = sorted([b"0", b"1", b"2"] * PARTITIONS)
    assert engine.visible() == (expected if decided else [])
    if not decided:
        retries = [engine.attempt(1, 0, task=task) for task in range(3)]
        for number, attempt in enumerate(retries):
            attempt.write(b"%d" % number)
        engine.decide(1, 0, retries)
        assert engine.visible() == expected
