"""Contexts, modes, metadata and rules, as Confluent's client uses them."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.conformance.server import Server
from tests.conformance.test_schema_registry import AGE, avro, client_of, refuse


@pytest.fixture
def registry(server: Server) -> SchemaRegistryClient:
    return client_of(server)


@pytest.fixture
def subject(names: Iterator[str]) -> str:
    return f"{next(names)}-value"


@pytest.fixture
def context(names: Iterator[str]) -> str:
    return f".c{next(names)}"


# --- contexts -------------------------------------------------------------------------------------


def test_a_client_of_a_context_sees_its_subjects_only(
    server: Server, registry: SchemaRegistryClient, subject: str, context: str
):
    url = f"http://{server.http_address}/registry/contexts/{context}"
    inside = SchemaRegistryClient({"url": url})
    qualified = f":{context}:{subject}"
    refuse(40401, inside.get_latest_version, subject)
    schema_id = inside.register_schema(subject, avro())
    assert inside.get_subjects() == [qualified]
    assert inside.get_latest_version(subject).schema_id == schema_id
    assert registry.get_latest_version(qualified).schema_id == schema_id
    refuse(40401, registry.get_latest_version, subject)
    assert context in registry.get_contexts()
    inside.set_compatibility(level="NONE")
    inside.register_schema(subject, avro(AGE))
    assert registry.get_compatibility() == "BACKWARD"
    assert inside.get_versions(subject) == [1, 2]
    using = Schema('{"type":"array","items":"User"}', "AVRO", [SchemaReference("User", subject, 1)])
    inside.register_schema(f"{subject}s", using)
    assert inside.get_latest_version(f"{subject}s").schema.references[0].subject == qualified


def test_a_serializer_in_a_context_round_trips(server: Server, subject: str, context: str):
    url = f"http://{server.http_address}/registry/contexts/{context}"
    inside = SchemaRegistryClient({"url": url})
    at = SerializationContext(subject, MessageField.VALUE)
    data = AvroSerializer(inside, avro().schema_str)({"name": "Ada"}, at)
    assert AvroDeserializer(inside)(data, at) == {"name": "Ada"}


# --- modes ----------------------------------------------------------------------------------------


def test_an_import_brings_ids_and_versions(server: Server, subject: str, context: str):
    base = f"http://{server.http_address}/registry/contexts/{context}"
    versions = f"{base}/subjects/{subject}/versions"
    body: dict[str, Any] = {"schema": avro().schema_str, "id": 700_001, "version": 3}
    assert httpx.post(versions, json=body).json()["error_code"] == 42205
    assert httpx.put(f"{base}/mode", json={"mode": "IMPORT"}).json() == {"mode": "IMPORT"}
    imported = httpx.post(versions, json=body).json()
    assert (imported["id"], imported["version"]) == (700_001, 3)
    other = {"schema": avro(AGE).schema_str, "id": 700_001}
    assert httpx.post(versions, json=other).json()["error_code"] == 42205, "another schema's id"
    plain = {"schema": avro(AGE).schema_str}
    assert httpx.post(versions, json=plain).json()["error_code"] == 42205
    assert httpx.delete(f"{base}/mode").json() == {"mode": "IMPORT"}
    httpx.put(f"{base}/config", json={"compatibility": "NONE"})
    assert httpx.post(versions, json=plain).json()["version"] == 4
    refused = httpx.put(f"{base}/mode/{subject}", json={"mode": "IMPORT"}).json()
    assert refused["error_code"] == 42205
    forced = httpx.put(f"{base}/mode/{subject}?force=true", json={"mode": "IMPORT"})
    assert forced.json() == {"mode": "IMPORT"}
    assert httpx.put(f"{base}/mode", json={"mode": "SLEEPING"}).json()["error_code"] == 42204


def test_a_read_only_context_takes_nothing(server: Server, subject: str, context: str):
    inside = SchemaRegistryClient(
        {"url": f"http://{server.http_address}/registry/contexts/{context}"}
    )
    inside.register_schema(subject, avro())
    inside.update_global_mode("READONLY")
    assert inside.get_global_mode() == "READONLY"
    refuse(42205, inside.register_schema, f"{subject}2", avro(AGE))
    refuse(42205, inside.delete_subject, subject)
    assert inside.register_schema(subject, avro()), "what is there is found"
    inside.update_mode(subject, "READWRITE")
    assert inside.delete_subject(subject) == [1]


# --- metadata and rules ---------------------------------------------------------------------------

METADATA = Metadata(None, MetadataProperties({"owner": "team a", "major": "1"}), None)
RULE = Rule(
    "check",
    "a name",
    RuleKind.CONDITION,
    RuleMode.WRITE,
    "CEL",
    ["PII"],
    RuleParams({"a": "b"}),
    "size(message.name) > 0",
    None,
    "ERROR",
    False,
)


def test_metadata_and_rules_are_kept_and_given_back(registry: SchemaRegistryClient, subject: str):
    schema = Schema(avro().schema_str, "AVRO", [], METADATA, RuleSet(None, [RULE], None))
    schema_id = registry.register_schema(subject, schema)
    found = registry.get_latest_version(subject).schema
    assert found.metadata.properties == METADATA.properties
    assert [each.expr for each in found.rule_set.domain_rules] == ["size(message.name) > 0"]
    assert registry.register_schema(subject, avro()) == schema_id, "the same without them"
    assert registry.lookup_schema(subject, avro()).schema_id == schema_id
    optional = {"name": "age", "type": "int", "default": 0}
    registry.register_schema(subject, avro(optional))
    taken_over = registry.get_latest_version(subject).schema.metadata
    assert taken_over.properties == METADATA.properties
    newer = Metadata(None, MetadataProperties({"owner": "team b", "major": "2"}), None)
    other = Schema(avro(optional).schema_str, "AVRO", [], newer, None)
    registry.register_schema(subject, other)
    assert registry.get_versions(subject) == [1, 2, 3]
    with_owner = registry.get_latest_with_metadata(subject, {"owner": "team a", "major": "1"})
    assert with_owner.version == 2
    refuse(40402, registry.get_latest_with_metadata, subject, {"owner": "nobody"})


def test_settings_without_effect_are_refused(registry: SchemaRegistryClient, subject: str):
    full = ConfigCompatibilityLevel.FULL
    registry.set_config(subject, ServerConfig(compatibility=full))
    assert registry.get_config(subject).compatibility_level is full
    more = ServerConfig(compatibility=full, compatibility_group="major")
    problem = refuse(42205, registry.set_config, subject, more)
    assert "compatibility_group" in problem.error_message


def test_tags_are_kept_too(server: Server, subject: str):
    base = f"http://{server.http_address}/registry/subjects/{subject}/versions"
    metadata = {"tags": {"User.name": ["PII"]}, "sensitive": ["owner"]}
    body = {"schema": avro().schema_str, "metadata": {**metadata, "properties": None}}
    schema_id = httpx.post(base, json=body).json()["id"]
    assert httpx.get(f"{base}/1").json()["metadata"] == metadata
    ids = f"http://{server.http_address}/registry/schemas/ids/{schema_id}"
    assert httpx.get(ids).json()["metadata"] == metadata


def test_metadata_of_a_wrong_shape_is_refused(server: Server, subject: str):
    url = f"http://{server.http_address}/registry/subjects/{subject}/versions"
    wrongs: tuple[dict[str, Any], ...] = (
        {"metadata": 5},
        {"metadata": {"properties": []}},
        {"ruleSet": {"domainRules": 1}},
    )
    for wrong in wrongs:
        reply = httpx.post(url, json={"schema": avro().schema_str, **wrong})
        assert reply.status_code == 400, reply.text
    huge = {"metadata": {"properties": {"a": "x" * 600_000}}}
    reply = httpx.post(url, content=json.dumps({"schema": avro().schema_str, **huge}))
    assert reply.json()["error_code"] == 42201
