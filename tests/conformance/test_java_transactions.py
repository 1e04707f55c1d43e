"""Apache Kafka's Java producer, which speaks the newer transaction protocol, and its tools."""

import uuid

import pytest

from tests.conformance.conftest import MakeTopic
from tests.conformance.server import Server
from tests.conformance.test_java import java, libraries, pytestmark  # noqa: F401 # fixtures
from tests.conformance.transactional_clients import READERS, ConfluentProducer


@pytest.fixture
def at(server: Server) -> tuple[str, str]:
    return "--bootstrap-server", server.address


def test_the_java_producer_commits_many_transactions(at, server: Server, make_topic: MakeTopic):
    topic = make_topic(3)
    java(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "3000", "--record-size", "100"),
        *("--throughput", "-1", "--transactional-id", uuid.uuid4().hex),
        *("--transaction-duration-ms", "20", "--bootstrap-server", server.address),
    )
    assert len(READERS["confluent"](server.address, topic, 3, "read_committed")) == 3000


def test_consume_transform_produce_in_java(at, server: Server, make_topic: MakeTopic):
    """The copier that Apache Kafka's own system tests use."""
    source, target = make_topic(1), make_topic(1)
    feeder = ConfluentProducer(server.address, uuid.uuid4().hex)
    feeder.start()
    feeder.begin()
    for number in range(200):
        feeder.send(source, b"%d" % number)
    feeder.commit()
    java(
        "TransactionalMessageCopier",
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--broker-list", server.address, "--max-messages", "200"),
        *("--transaction-size", "7", "--consumer-group", uuid.uuid4().hex),
        *("--transactional-id", uuid.uuid4().hex, "--enable-random-aborts", "--use-group-metadata"),
    )
    found = READERS["confluent"](server.address, target, 1, "read_committed")
    assert sorted(found) == sorted(b"%d" % number for number in range(200))


def test_an_operator_finds_and_aborts_what_hangs(at, server: Server, make_topic: MakeTopic):
    topic, name = make_topic(1), f"hanging-{uuid.uuid4().hex}"
    producer = ConfluentProducer(server.address, name)
    producer.start()
    producer.begin()
    producer.send(topic, b"x")
    producer._producer.flush(10)
    listed = java("TransactionsCommand", *at, "list")
    assert any(name in line and "Ongoing" in line for line in listed.splitlines()), listed
    described = java("TransactionsCommand", *at, "describe", "--transactional-id", name)
    assert f"{topic}-0" in described
    producers = java(
        "TransactionsCommand", *at, "describe-producers", "--topic", topic, "--partition", "0"
    )
    assert len(producers.splitlines()) == 2, producers
    java(
        "TransactionsCommand",
        *(*at, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0"),
    )
    assert "Ongoing" not in java("TransactionsCommand", *at, "describe", "--transactional-id", name)
    producer.close()
