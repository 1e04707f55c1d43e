"""Confluent's serializers evolve schemas of each format, at every level."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.conformance.server import Server
from tests.conformance.test_schema_registry import client_of, refuse

LEVELS = (
    *("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE"),
    *("FULL", "FULL_TRANSITIVE"),
)


def avro(*fields: dict[str, Any]) -> Schema:
    return Schema(json.dumps({"type": "record", "name": "R", "fields": list(fields)}), "AVRO")


def closed(required: tuple[str, ...], **properties: Any) -> Schema:
    schema = {"type": "object", "properties": properties, "required": required}
    return Schema(json.dumps({**schema, "additionalProperties": False}), "JSON")


def proto(fields: str) -> Schema:
    return Schema(f'syntax = "proto3"; message M {{ {fields} }}', "PROTOBUF")


A, B = {"name": "a", "type": "string"}, {"name": "b", "type": "int"}
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
ANY = {*LEVELS}
BACKWARD = {"NONE", "BACKWARD", "BACKWARD_TRANSITIVE"}
FORWARD = {"NONE", "FORWARD", "FORWARD_TRANSITIVE"}
# first version, second version, the levels that take it
STEPS = {
    "avro optional added": (avro(A), avro(A, {**B, "default": 0}), ANY),
    "avro required added": (avro(A), avro(A, B), FORWARD),
    "avro required removed": (avro(A, B), avro(A), BACKWARD),
    "avro type changed": (avro(A), avro({**A, "type": "int"}), {"NONE"}),
    "avro int to long": (avro(B), avro({**B, "type": "long"}), BACKWARD),
    "json optional added": (closed((), a=TEXT), closed((), a=TEXT, b=NUMBER), BACKWARD),
    "json removed": (closed((), a=TEXT, b=NUMBER), closed((), a=TEXT), FORWARD),
    "json required": (closed((), a=TEXT), closed(("a",), a=TEXT), FORWARD),
    "json type changed": (closed((), a=TEXT), closed((), a=NUMBER), {"NONE"}),
    "protobuf added": (proto("string a = 1;"), proto("string a = 1; int32 b = 2;"), ANY),
    "protobuf type changed": (proto("string a = 1;"), proto("int32 a = 1;"), {"NONE"}),
}
# Of the third version the second allows what the first does not.
CHAINS = {
    "avro": (avro(A), avro(A, {**B, "default": 0}), avro(A, B)),
    "protobuf": (proto("string a = 1;"), proto("reserved 1;"), proto("int32 a = 1;")),
}


@pytest.fixture
def registry(server: Server) -> SchemaRegistryClient:
    return client_of(server)


@pytest.fixture
def subject(names: Iterator[str]) -> str:
    return f"{next(names)}-value"


@pytest.mark.parametrize("level", LEVELS)
def test_every_level(registry: SchemaRegistryClient, subject: str, level: str):
    for number, (name, (first, second, levels)) in enumerate(STEPS.items()):
        at = f"{subject}-{number}"
        registry.set_compatibility(at, level)
        registry.register_schema(at, first)
        assert registry.test_compatibility(at, second) is (level in levels), name
        if level in levels:
            registry.register_schema(at, second)
            assert registry.get_versions(at) == [1, 2], name
        else:
            assert "(version 1)" in refuse(409, registry.register_schema, at, second).error_message


@pytest.mark.parametrize("kind", list(CHAINS))
def test_transitive_levels_look_at_all_versions(
    registry: SchemaRegistryClient, subject: str, kind: str
):
    for level in ("BACKWARD", "BACKWARD_TRANSITIVE"):
        at = f"{subject}-{level}"
        registry.set_compatibility(at, level)
        first, second, third = CHAINS[kind]
        registry.register_schema(at, first)
        registry.register_schema(at, second)
        if level == "BACKWARD":
            registry.register_schema(at, third)
        else:
            assert "(version 1)" in refuse(409, registry.register_schema, at, third).error_message


def test_an_avro_reader_with_a_newer_schema_reads_old_values(
    registry: SchemaRegistryClient, subject: str
):
    at = SerializationContext(subject, MessageField.VALUE)
    newer = avro(A, {**B, "default": 7})
    old = AvroSerializer(registry, avro(A).schema_str)({"a": "x"}, at)
    new = AvroSerializer(registry, newer.schema_str)({"a": "y", "b": 1}, at)
    read = AvroDeserializer(registry, newer.schema_str)
    assert read(old, at) == {"a": "x", "b": 7}
    assert read(new, at) == {"a": "y", "b": 1}
    assert AvroDeserializer(registry, avro(A).schema_str)(new, at) == {"a": "y"}
    with pytest.raises(SchemaRegistryError) as caught:
        AvroSerializer(registry, avro({**A, "type": "int"}).schema_str)({"a": 1}, at)
    assert caught.value.error_code == 409


def test_a_json_reader_reads_old_documents(registry: SchemaRegistryClient, subject: str):
    at = SerializationContext(subject, MessageField.VALUE)
    titled = [
        json.dumps({**json.loads(str(each.schema_str)), "title": "T"})
        for each in (closed(("a",), a=TEXT), closed(("a",), a=TEXT, b=NUMBER))
    ]
    data = JSONSerializer(titled[0], registry)({"a": "x"}, at)
    JSONSerializer(titled[1], registry)({"a": "y", "b": 1}, at)
    read = JSONDeserializer(titled[1], schema_registry_client=registry)
    assert read(data, at) == {"a": "x"}
