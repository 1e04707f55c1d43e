"""Records are checked by the broker, at every door."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.conformance.conftest import MakeTopic
from tests.conformance.http_nodes import HttpNodes, http_nodes
from tests.conformance.server import Server

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
USER = '{"type":"record","name":"User","fields":[{"name":"name","type":"string"}]}'


@pytest.fixture
def registry(server: Server) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": f"http://{server.http_address}/registry"})


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4) + payload


def produce(server: Server, topic: str, *values: bytes | None, **more: Any) -> list[Any]:
    """What each got: an error, or None."""
    producer = Producer({**server.bootstrap, "linger.ms": 50, **more.pop("settings", {})})
    results: list[Any] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: results.append(error), **more)
    producer.flush(20)
    return results


def code(error: Any) -> int | None:
    return None if error is None else error.code()


@pytest.fixture
def person(make_topic: MakeTopic, registry: SchemaRegistryClient) -> tuple[str, int]:
    """A topic that validates in full, and the id of its schema."""
    topic = make_topic(goqueue_schema_validation="full")
    schema = Schema(json.dumps(PERSON), "JSON")
    return topic, int(registry.register_schema(f"{topic}-value", schema))


def test_a_kafka_producer_hears_which_record_is_invalid(server: Server, person: tuple[str, int]):
    topic, schema_id = person
    good, bad = framed(schema_id, b'{"name": "Ada"}'), framed(schema_id, b'{"name": 5}')
    assert produce(server, topic, good, None) == [None, None]
    (error,) = produce(server, topic, bad)
    assert error.code() == KafkaError.INVALID_RECORD
    results = [code(each) for each in produce(server, topic, good, bad, good)]
    assert results.count(None) == 0, "a batch is refused as a whole"
    assert KafkaError.INVALID_RECORD in results


def test_a_value_without_an_id_is_checked_against_the_latest(
    server: Server, person: tuple[str, int]
):
    topic, schema_id = person
    assert produce(server, topic, b'{"name": "Ada"}') == [None]
    assert [code(each) for each in produce(server, topic, b"{}")] == [KafkaError.INVALID_RECORD]
    headers = [("schema-id", str(schema_id))]
    assert produce(server, topic, b'{"name": "Ada"}', headers=headers) == [None]
    (error,) = produce(server, topic, b'{"name": "Ada"}', headers=[("schema-id", "77777")])
    assert error.code() == KafkaError.INVALID_RECORD


def test_only_the_id_is_looked_at(
    server: Server, make_topic: MakeTopic, registry: SchemaRegistryClient, person: tuple[str, int]
):
    _, other_id = person
    topic = make_topic(goqueue_schema_validation="id")
    schema_id = registry.register_schema(f"{topic}-value", Schema(USER, "AVRO"))
    assert produce(server, topic, framed(schema_id, b"anything")) == [None]
    for value in (framed(other_id, b"{}"), framed(999_999, b"{}"), b"no id at all"):
        assert [code(each) for each in produce(server, topic, value)] == [KafkaError.INVALID_RECORD]


@pytest.mark.parametrize("strategy", ["record", "topic_record"])
def test_the_subject_may_be_the_records(
    server: Server, make_topic: MakeTopic, registry: SchemaRegistryClient, strategy: str
):
    topic = make_topic(goqueue_schema_validation="full", goqueue_schema_subject=strategy)
    name = f"U{topic.replace('-', '_')}"
    schema = Schema(USER.replace("User", name), "AVRO")
    subject = name if strategy == "record" else f"{topic}-{name}"
    schema_id = registry.register_schema(subject, schema)
    wrong_id = registry.register_schema(f"{topic}-value", Schema(USER, "AVRO"))
    assert produce(server, topic, framed(schema_id, b"\x06Ada")) == [None]
    (error,) = produce(server, topic, framed(wrong_id, b"\x06Ada"))
    assert error.code() == KafkaError.INVALID_RECORD


def test_confluents_serializer_passes(
    server: Server, make_topic: MakeTopic, registry: SchemaRegistryClient
):
    topic = make_topic(goqueue_schema_validation="full")
    serializer = AvroSerializer(registry, USER)
    value = serializer({"name": "Ada"}, SerializationContext(topic, MessageField.VALUE))
    assert produce(server, topic, value) == [None]
    (error,) = produce(server, topic, value[:-1])
    assert error.code() == KafkaError.INVALID_RECORD


def test_a_transaction_is_checked(server: Server, person: tuple[str, int]):
    topic, schema_id = person
    producer = Producer({**server.bootstrap, "transactional.id": f"of-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    results: list[Any] = []
    bad = framed(schema_id, b"[]")
    producer.produce(topic, bad, on_delivery=lambda error, _: results.append(code(error)))
    producer.flush(20)
    assert results == [KafkaError.INVALID_RECORD]
    producer.abort_transaction(30)


def test_http_tells_the_path_of_each_invalid_message(server: Server, person: tuple[str, int]):
    topic, _ = person
    url = f"http://{server.http_address}/topics/{topic}/messages"
    values: list[Any] = [{"name": "Ada"}, {"name": 5}, {"name": "Bob", "age": "x"}]
    reply = httpx.post(url, json={"messages": [{"value": each} for each in values]})
    assert reply.status_code == 207
    first, second, third = reply.json()["results"]
    assert first["offset"] == 0
    assert (second["error"]["code"], second["error"]["details"]["path"]) == (
        "schema_violation",
        "/name",
    )
    assert third["error"]["details"]["path"] == "/age"
    assert second["error"]["message"].endswith('at /name: 5 is not of type "string"')
    alone = httpx.post(url, json={"messages": [{"value": {}}]})
    assert alone.status_code == 400
    assert '"name" is a required property' in alone.json()["error"]["message"]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_delayed_record_is_checked_when_it_is_accepted(
    server: Server, person: tuple[str, int], codec: str
):
    topic, schema_id = person
    good, bad = framed(schema_id, b'{"name": "Ada"}'), framed(schema_id, b'{"name": 5}')
    later: dict[str, Any] = {
        "headers": [("gq-delay-ms", "3600000")],
        "settings": {"compression.type": codec},
    }
    assert produce(server, topic, good, **later) == [None]
    later["settings"] = {"compression.type": codec}
    assert [code(each) for each in produce(server, topic, bad, **later)] == [
        KafkaError.INVALID_RECORD
    ]
    url = f"http://{server.http_address}/topics/{topic}"
    messages = [{"value": each, "delay": "1h"} for each in ({"name": "Ada"}, {"name": 5})]
    reply = httpx.post(f"{url}/messages", json={"messages": messages})
    assert reply.status_code == 207, reply.text
    first, second = reply.json()["results"]
    assert first["delayed"] is True
    assert second["error"]["code"] == "schema_violation"
    assert len(httpx.get(f"{url}/delayed").json()["messages"]) == 2


def test_a_delayed_dead_letter_is_there_at_once(
    server: Server, make_topic: MakeTopic, registry: SchemaRegistryClient
):
    topic = make_topic(goqueue_schema_validation="full", goqueue_schema_invalid="dead_letter")
    schema_id = registry.register_schema(f"{topic}-value", Schema(json.dumps(PERSON), "JSON"))
    values = framed(schema_id, b'{"name": "Ada"}'), framed(schema_id, b'{"name": 5}')
    assert produce(server, topic, *values, headers=[("gq-delay-ms", "3600000")]) == [None, None]
    url = f"http://{server.http_address}/topics/{topic}"
    messages = [{"value": each, "delay": "1h"} for each in ({"name": "Ada"}, {"name": 5})]
    reply = httpx.post(f"{url}/messages", json={"messages": messages})
    assert reply.status_code == 200, reply.text
    assert "dead_letter" in reply.json()["results"][1]
    assert len(httpx.get(f"{url}/delayed").json()["messages"]) == 2
    assert len(httpx.get(f"{url}/dlq").json()["messages"]) == 2


def test_validations_are_counted_and_timed(server: Server, person: tuple[str, int]):
    topic, schema_id = person
    assert produce(server, topic, framed(schema_id, b'{"name": "Ada"}')) == [None]
    shown = httpx.get(f"http://{server.http_address}/metrics").text
    assert f'goqueue_schema_validations_total{{result="valid",topic="{topic}"}} 1.0' in shown
    assert 'goqueue_schema_validation_seconds_bucket{le="0.01",mode="full"}' in shown
    assert 'goqueue_schema_validation_seconds_count{mode="full"}' in shown


# --- a cluster ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpNodes]:
    with http_nodes(tmp_path_factory.mktemp("nodes")) as found:
        yield found


def test_leaders_ask_the_node_that_runs_the_registry(nodes: HttpNodes):
    topic = nodes.topic("people", 3)
    reply = nodes.ask(1, "PUT", "/registry/config/people-value", compatibility="NONE")
    assert reply.status_code == 200, reply.text
    schema = {"schema": json.dumps(PERSON), "schemaType": "JSON"}
    nodes.post(2, "/registry/subjects/people-value/versions", **schema)
    settings = {"goqueue.schema.validation": "full"}
    changed = nodes.ask(1, "PATCH", f"/topics/{topic}/settings", set=settings)
    assert changed.status_code == 200, changed.text
    for partition in range(3):
        messages = [{"value": each, "partition": partition} for each in ({"name": "Ada"}, {})]
        path = f"/topics/{topic}/messages"
        while True:  # until the leader knows of the setting
            reply = nodes.ask(3, "POST", path, messages=messages)
            if reply.status_code != 200:
                break
        assert reply.status_code == 207, reply.text
        assert reply.json()["results"][1]["error"]["code"] == "schema_violation"
