"""Keys, subject strategies and ids in headers, as Confluent's serializers write them."""

import json
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.schema_registry import (
    Schema,
    SchemaRegistryClient,
    header_schema_id_serializer,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.conformance.conftest import MakeTopic
from tests.conformance.server import Server
from tests.conformance.test_schema_registry import protobuf_message

STRATEGIES: dict[str, Any] = {
    "topic": None,
    "record": record_subject_name_strategy,
    "topic_record": topic_record_subject_name_strategy,
}
FORMATS = ("AVRO", "JSON", "PROTOBUF")


@pytest.fixture
def registry(server: Server) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": f"http://{server.http_address}/registry"})


def serializer_of(
    kind: str, registry: SchemaRegistryClient, name: str, **settings: Any
) -> tuple[Any, Any]:
    """A serializer of a record with that name, and a value for it."""
    if kind == "AVRO":
        schema: Any = {"type": "record", "name": name, "fields": [{"name": "a", "type": "int"}]}
        return AvroSerializer(registry, json.dumps(schema), conf=settings), {"a": 0}
    if kind == "JSON":
        schema = {"title": name, "type": "object", "properties": {"a": {"type": "integer"}}}
        return JSONSerializer(json.dumps(schema), registry, conf=settings), {"a": 0}
    message = protobuf_message(name)
    settings["use.deprecated.format"] = False
    return ProtobufSerializer(message, registry, settings), message(name="x")


@pytest.fixture(scope="module")
def producer(server: Server) -> Producer:
    return Producer({**server.bootstrap, "linger.ms": 0})


def produce(producer: Producer, topic: str, **record: Any) -> int | None:
    """The error's code."""
    results: list[Any] = []
    producer.produce(topic, on_delivery=lambda error, _: results.append(error), **record)
    producer.flush(20)
    return results[0] and int(results[0].code())


@pytest.mark.parametrize("field", [MessageField.KEY, MessageField.VALUE])
@pytest.mark.parametrize("strategy", list(STRATEGIES))
@pytest.mark.parametrize("kind", FORMATS)
def test_keys_and_values_under_every_subject(
    producer: Producer,
    make_topic: MakeTopic,
    registry: SchemaRegistryClient,
    kind: str,
    strategy: str,
    field: str,
):
    part = "key." if field == MessageField.KEY else ""
    settings = {
        f"goqueue.schema.{part}validation": "full",
        f"goqueue.schema.{part}subject": strategy,
    }
    topic = make_topic(**settings)
    name = "R" + topic.replace("-", "_")
    conf = {"subject.name.strategy": STRATEGIES[strategy]} if strategy != "topic" else {}
    serializer, value = serializer_of(kind, registry, name, **conf)
    data = serializer(value, SerializationContext(topic, field))
    record = {"key": data} if field == MessageField.KEY else {"value": data}
    assert produce(producer, topic, **record) is None
    other = {"value" if "key" in record else "key": b"anything"}
    assert produce(producer, topic, **record, **other) is None, "only this part is checked"
    other_id = registry.register_schema(f"other-{topic}", Schema('"string"', "AVRO"))
    wrong = dict.fromkeys(record, b"\0" + other_id.to_bytes(4) + b"\0")
    assert produce(producer, topic, **wrong) == KafkaError.INVALID_RECORD
    cut = dict.fromkeys(record, data[:6] + b"\xff\xff")
    assert produce(producer, topic, **cut) == KafkaError.INVALID_RECORD


@pytest.mark.parametrize("validation", ["id", "full"])
@pytest.mark.parametrize("kind", FORMATS)
def test_the_schemas_guid_in_a_header(
    producer: Producer,
    make_topic: MakeTopic,
    registry: SchemaRegistryClient,
    kind: str,
    validation: str,
):
    topic = make_topic(
        goqueue_schema_validation=validation, goqueue_schema_key_validation=validation
    )
    conf = {"schema.id.serializer": header_schema_id_serializer}
    serializer, value = serializer_of(kind, registry, "H" + topic.replace("-", "_"), **conf)
    headers: list[tuple[str, bytes]] = []
    parts = {
        part: serializer(value, SerializationContext(topic, part, headers))
        for part in (MessageField.KEY, MessageField.VALUE)
    }
    assert {name for name, _ in headers} == {"__key_schema_id", "__value_schema_id"}
    assert produce(producer, topic, headers=headers, **parts) is None
    unknown = [(name, b"\x01" + bytes(16)) for name, _ in headers]
    assert produce(producer, topic, headers=unknown, **parts) == KafkaError.INVALID_RECORD
    broken = [(name, b"\x07") for name, _ in headers]
    assert produce(producer, topic, headers=broken, **parts) == KafkaError.INVALID_RECORD
