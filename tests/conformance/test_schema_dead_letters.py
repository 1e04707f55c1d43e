"""With `goqueue.schema.invalid=dead_letter`, invalid records are in `{topic}.dlq`."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tests.conformance.conftest import MakeTopic
from tests.conformance.http_nodes import HttpNodes, http_nodes
from tests.conformance.server import Server

PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
GOOD, BAD = b'{"name": "Ada"}', b'{"name": 5}'
SETTINGS = {"goqueue_schema_validation": "full", "goqueue_schema_invalid": "dead_letter"}


@pytest.fixture
def people(server: Server, make_topic: MakeTopic) -> str:
    topic = make_topic(**SETTINGS)
    registry = SchemaRegistryClient({"url": f"http://{server.http_address}/registry"})
    registry.register_schema(f"{topic}-value", Schema(json.dumps(PERSON), "JSON"))
    return topic


def read(server: Server, topic: str) -> list[Any]:
    """All committed messages of the partition."""
    settings = {**server.bootstrap, "group.id": "g", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    for message in iter(lambda: consumer.poll(10), None):
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        found.append(message)
    consumer.close()
    return found


def produce(producer: Producer, topic: str, *values: bytes) -> list[Any]:
    results: list[Any] = []
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda error, message: results.append((error, message))
        )
    assert producer.flush(20) == 0
    return results


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_an_idempotent_producer_goes_on(server: Server, people: str, compression: str):
    settings = {"enable.idempotence": True, "linger.ms": 50, "compression.type": compression}
    producer = Producer({**server.bootstrap, **settings})
    for values in ([GOOD, BAD, GOOD], [BAD, BAD], [GOOD]):
        results = produce(producer, people, *values)
        assert [error for error, _ in results] == [None] * len(values)
    found = read(server, people)
    assert [(each.offset(), each.value()) for each in found] == [(0, GOOD), (2, GOOD), (5, GOOD)]
    dead = read(server, f"{people}.dlq")
    assert [each.value() for each in dead] == [BAD] * 3
    headers = dict(dead[0].headers())
    assert headers["gq-dlq-topic"] == people.encode()
    assert headers["gq-dlq-partition"] == b"0"
    assert headers["gq-dlq-reason"] == b"schema_violation"
    assert int(headers["gq-dlq-schema-id"]) > 0
    assert b"/name: 5 is not of type" in headers["gq-dlq-error"]


def test_a_transaction_takes_them_along(server: Server, people: str):
    producer = Producer({**server.bootstrap, "transactional.id": f"of-{people}"})
    producer.init_transactions(30)
    for commits in (True, False, True):
        producer.begin_transaction()
        assert [error for error, _ in produce(producer, people, GOOD, BAD)] == [None, None]
        assert len(read(server, f"{people}.dlq")) in (0, 1)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    assert [each.value() for each in read(server, people)] == [GOOD, GOOD]
    assert [each.value() for each in read(server, f"{people}.dlq")] == [BAD, BAD]


def test_http_says_where_a_message_went(server: Server, people: str):
    url = f"http://{server.http_address}/topics/{people}/messages"
    body = {"messages": [{"value": {"name": "Ada"}}, {"value": {"name": 5}}]}
    for _ in range(2):  # under a key it is written once
        reply = httpx.post(url, json=body, headers={"Idempotency-Key": people})
        assert reply.status_code == 200
        first, second = reply.json()["results"]
        assert first["offset"] == 0
        assert "offset" not in second
        at = second["dead_letter"]
        assert (at["topic"], at["partition"], at["offset"]) == (f"{people}.dlq", 0, 0)
        assert at["path"] == "/name"
        assert "5 is not of type" in at["reason"]
    shown = httpx.get(f"http://{server.http_address}/topics/{people}/dlq").json()["messages"]
    assert [each["reason"] for each in shown] == ["schema_violation"]
    assert len(read(server, f"{people}.dlq")) == 1


def test_an_http_transaction_takes_them_along(server: Server, people: str):
    base = f"http://{server.http_address}"
    name = {"transactional_id": f"h-{people}"}
    of = {**name, **httpx.post(f"{base}/producers/init", json=name).json()}
    httpx.post(f"{base}/transactions/begin", json=of).raise_for_status()
    for sequence, value in enumerate([{"name": "Ada"}, {}, {"name": "Bob"}]):
        one = {**of, "topic": people, "value": json.dumps(value), "sequence": sequence}
        for repeat in range(2):
            reply = httpx.post(f"{base}/transactions/publish", json=one).json()
            assert reply["duplicate"] is bool(repeat), reply
            assert reply.get("dead_letter_topic") == (None if value else f"{people}.dlq")
    many = {**of, "topic": people, "messages": [{"value": {"name": "C"}}, {"value": {}}]}
    results = httpx.post(f"{base}/transactions/messages", json=many).json()["results"]
    assert [each.get("dead_letter_topic") for each in results] == [None, f"{people}.dlq"]
    assert read(server, f"{people}.dlq") == []
    httpx.post(f"{base}/transactions/commit", json=of).raise_for_status()
    assert len(read(server, people)) == 3
    assert [each.value() for each in read(server, f"{people}.dlq")] == [b"{}", b"{}"]


def test_what_a_wider_schema_allows_is_redriven(server: Server, people: str):
    base = f"http://{server.http_address}"
    produce(Producer(server.bootstrap), people, b'{"name": null}')
    redrive = f"{base}/topics/{people}/dlq/redrive"
    assert httpx.post(redrive, json={}).json()["error"]["code"] == "schema_violation"
    wider = {**PERSON, "properties": {"name": {"type": ["string", "null"]}}}
    registry = SchemaRegistryClient({"url": f"{base}/registry"})
    registry.register_schema(f"{people}-value", Schema(json.dumps(wider), "JSON"))
    assert httpx.post(redrive, json={}).status_code == 200
    assert [each.value() for each in read(server, people)] == [b'{"name": null}']
    assert dict(read(server, people)[0].headers() or ()) == {}


# --- a cluster ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpNodes]:
    with http_nodes(tmp_path_factory.mktemp("nodes")) as found:
        yield found


def test_dead_letters_may_be_led_by_another_node(nodes: HttpNodes):
    topic = nodes.topic("people", 3)
    dead = nodes.topic("people.dlq", 3)
    schema = {"schema": json.dumps(PERSON), "schemaType": "JSON"}
    nodes.post(2, "/registry/subjects/people-value/versions", **schema)
    settings = {name.replace("_", "."): value for name, value in SETTINGS.items()}
    changed = nodes.ask(1, "PATCH", f"/topics/{topic}/settings", set=settings)
    assert changed.status_code == 200, changed.text
    known = lambda: all(each.broker.topic(topic).settings.validates for each in nodes.nodes)  # noqa: E731
    while not known():
        nodes.get(1, "/cluster/health")
    for node, partition in itertools.product((1, 2, 3), range(3)):
        messages = [{"value": each, "partition": partition} for each in ({"name": "Ada"}, {})]
        reply = nodes.post(node, f"/topics/{topic}/messages", messages=messages)
        assert reply["results"][1]["dead_letter"]["topic"] == dead
        assert reply["results"][1]["dead_letter"]["partition"] == partition
    name = {"transactional_id": "people"}
    of = {**name, **nodes.post(1, "/producers/init", **name)}
    nodes.post(2, "/transactions/begin", **of)
    for partition in range(3):
        one = {"topic": topic, "value": "{}", "partition": partition, "sequence": 0}
        assert not nodes.post(2, "/transactions/publish", **of, **one)["duplicate"]
        repeat = nodes.post(3, "/transactions/publish", **of, **one)
        assert (repeat["duplicate"], repeat["dead_letter_topic"]) == (True, dead)
    counts = [nodes.get(1, f"/topics/{dead}/partitions/{n}/messages") for n in range(3)]
    assert [len(each["messages"]) for each in counts] == [3] * 3
    nodes.post(3, "/transactions/commit", **of)
    counts = [nodes.get(2, f"/topics/{dead}/partitions/{n}/messages") for n in range(3)]
    assert [len(each["messages"]) for each in counts] == [4] * 3
