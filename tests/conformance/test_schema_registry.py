"""Confluent's own registry client and serializers, unchanged, against `/registry`."""

import concurrent.futures
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.conformance.http_nodes import HttpNodes, http_nodes
from tests.conformance.server import Server

USER: dict[str, Any] = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "name", "type": "string"}],
}
AGE = {"name": "age", "type": "int"}


def avro(*more: Any) -> Schema:
    return Schema(json.dumps({**USER, "fields": [*USER["fields"], *more]}), "AVRO")


def client_of(server: Server) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": f"http://{server.http_address}/registry"})


@pytest.fixture
def registry(server: Server) -> SchemaRegistryClient:
    return client_of(server)


@pytest.fixture
def subject(names: Iterator[str]) -> str:
    return f"{next(names)}-value"


def refuse(code: int, call: Any, *args: Any, **named: Any) -> SchemaRegistryError:
    with pytest.raises(SchemaRegistryError) as caught:
        call(*args, **named)
    assert caught.value.error_code == code, caught.value
    assert caught.value.http_status_code == int(str(code)[:3])
    return caught.value


# --- schemas --------------------------------------------------------------------------------------


def test_a_schema_is_registered_looked_up_and_listed(registry: SchemaRegistryClient, subject: str):
    schema_id = registry.register_schema(subject, avro())
    assert registry.register_schema(f"{subject}-other", avro()) == schema_id
    assert json.loads(registry.get_schema(schema_id).schema_str) == USER
    latest = registry.get_latest_version(subject)
    assert (latest.subject, latest.version, latest.schema_id) == (subject, 1, schema_id)
    assert registry.lookup_schema(subject, avro()).version == 1
    assert subject in registry.get_subjects()
    assert registry.get_versions(subject) == [1]
    assert {each.subject for each in registry.get_schema_versions(schema_id)} >= {subject}
    assert json.loads(registry.get_schema_by_guid(latest.guid).schema_str) == USER


def test_evolution_is_checked_by_the_level(registry: SchemaRegistryClient, subject: str):
    registry.register_schema(subject, avro())
    assert not registry.test_compatibility(subject, avro(AGE))
    problem = refuse(409, registry.register_schema, subject, avro(AGE))
    assert "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1" in problem.error_message
    registry.set_compatibility(subject, "FORWARD")
    assert registry.get_compatibility(subject) == "FORWARD"
    registry.register_schema(subject, avro(AGE))
    assert registry.get_versions(subject) == [1, 2]
    assert registry.get_compatibility() == "BACKWARD"


@pytest.mark.parametrize("level", ["NONE", "BACKWARD", "FORWARD", "FULL", "FULL_TRANSITIVE"])
def test_a_field_with_a_default_may_come_in_every_level(
    registry: SchemaRegistryClient, subject: str, level: str
):
    registry.set_compatibility(subject, level)
    for count in range(3):
        more = [{"name": f"f{number}", "type": "int", "default": 0} for number in range(count)]
        registry.register_schema(subject, avro(*more))
    assert registry.get_versions(subject) == [1, 2, 3]


def test_errors_have_confluents_codes(registry: SchemaRegistryClient, subject: str):
    refuse(40401, registry.get_latest_version, subject)
    refuse(40401, registry.lookup_schema, subject, avro())
    refuse(40403, registry.get_schema, 2_000_000)
    refuse(40408, registry.get_compatibility, subject)
    refuse(42203, registry.set_compatibility, subject, "SOMETIMES")
    refuse(42201, registry.register_schema, subject, Schema('{"type": "nothing"}', "AVRO"))
    registry.register_schema(subject, avro())
    refuse(40402, registry.get_version, subject, 7)
    refuse(40403, registry.lookup_schema, subject, avro(AGE))
    registry.delete_subject(subject)
    refuse(40404, registry.delete_subject, subject)
    assert registry.get_subjects(deleted=True).count(subject) == 1
    assert registry.delete_subject(subject, permanent=True) == [1]
    refuse(40401, registry.delete_subject, subject)


def test_references_between_subjects(registry: SchemaRegistryClient, subject: str):
    registry.register_schema(subject, avro())
    using = Schema(
        '{"type": "array", "items": "User"}', "AVRO", [SchemaReference("User", subject, 1)]
    )
    schema_id = registry.register_schema(f"{subject}s", using)
    assert registry.get_schema(schema_id).references[0].subject == subject
    refuse(42206, registry.delete_subject, subject)
    missing = Schema('"User"', "AVRO", [SchemaReference("User", "nowhere", 1)])
    refuse(42201, registry.register_schema, f"{subject}s", missing)


def test_a_read_only_subject_takes_no_schema(registry: SchemaRegistryClient, subject: str):
    registry.update_mode(subject, "READONLY")
    refuse(42205, registry.register_schema, subject, avro())
    registry.delete_mode(subject)
    registry.register_schema(subject, avro())


# --- serializers ----------------------------------------------------------------------------------


def round_trip(serializer: Any, deserializer: Any, value: Any, topic: str) -> Any:
    context = SerializationContext(topic, MessageField.VALUE)
    data = serializer(value, context)
    assert data[0] == 0
    return deserializer(data, context)


def test_avro_serializer(registry: SchemaRegistryClient, subject: str):
    serializer = AvroSerializer(registry, avro().schema_str)
    value = {"name": "Ada"}
    assert round_trip(serializer, AvroDeserializer(registry), value, subject) == value


def test_json_serializer(registry: SchemaRegistryClient, subject: str):
    schema = '{"title": "P", "type": "object", "properties": {"a": {"type": "integer"}}}'
    deserializer = JSONDeserializer(None, schema_registry_client=registry)
    assert round_trip(JSONSerializer(schema, registry), deserializer, {"a": 5}, subject) == {"a": 5}


def test_protobuf_serializer_with_an_import(registry: SchemaRegistryClient, subject: str):
    """The client registers the descriptors, and the imported file under its own name."""
    kind = protobuf_message(subject)
    settings = {"use.deprecated.format": False}
    serializer = ProtobufSerializer(kind, registry, settings)
    deserializer = ProtobufDeserializer(kind, settings, registry)
    value = kind(name="Ada")
    value.part.number = 7
    assert round_trip(serializer, deserializer, value, subject) == value
    registered = registry.get_latest_version(f"{subject}-value").schema
    assert registered.schema_str.startswith('syntax = "proto3";')
    assert registered.references[0].name == f"parts/{subject}.proto"


def protobuf_message(name: str) -> Any:
    file: Any = descriptor_pb2.FileDescriptorProto
    pool = descriptor_pool.Default()
    package = "p" + name.replace("-", "_")
    number = {"name": "number", "number": 1, "type": 5, "label": 1}
    part = {"name": "Part", "field": [number]}
    common = {"syntax": "proto3", "package": package}
    pool.Add(file(name=f"parts/{name}.proto", message_type=[part], **common))
    fields = [
        {"name": "name", "number": 1, "type": 9, "label": 1},
        {"name": "part", "number": 2, "type": 11, "label": 1, "type_name": f".{package}.Part"},
    ]
    whole = {"name": "Whole", "field": fields}
    imported = [f"parts/{name}.proto"]
    pool.Add(file(name=f"{name}.proto", message_type=[whole], dependency=imported, **common))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Whole"))


# --- the HTTP of it -------------------------------------------------------------------------------


def test_answers_have_confluents_content_type(server: Server):
    base = f"http://{server.http_address}/registry"
    found = httpx.get(f"{base}/subjects")
    assert found.headers["content-type"].startswith("application/vnd.schemaregistry.v1+json")
    missing = httpx.get(f"{base}/subjects/none/versions")
    assert missing.status_code == 404
    assert missing.json() == {"error_code": 40401, "message": "subject 'none' not found"}
    assert httpx.get(f"{base}/whatever").json()["error_code"] == 404
    assert httpx.post(f"{base}/subjects/x/versions", content=b"{").status_code == 400
    assert httpx.get(f"{base}/subjects/x/versions/0").json()["error_code"] == 42202


def test_schemas_survive_a_kill(own_server: Server):
    registry = client_of(own_server)
    schema_id = registry.register_schema("a", avro())
    registry.set_compatibility("a", "NONE")
    own_server.kill()
    own_server.start()
    registry = client_of(own_server)
    assert json.loads(registry.get_schema(schema_id).schema_str) == USER
    assert registry.get_compatibility("a") == "NONE"
    assert registry.register_schema("a", avro(AGE)) == schema_id + 1


# --- a cluster ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpNodes]:
    with http_nodes(tmp_path_factory.mktemp("nodes")) as found:
        yield found


def test_registrations_at_once_at_several_nodes_give_one_id(nodes: HttpNodes):
    def register(number: int) -> int:
        registry = SchemaRegistryClient({"url": nodes.url(number % 3 + 1, "/registry")})
        return int(registry.register_schema("together", avro(AGE)))

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(register, range(6)))) == 1
    for number in (1, 2, 3):
        assert nodes.get(number, "/registry/subjects/together/versions") == [1]
        missing = nodes.ask(number, "GET", "/registry/subjects/none/versions")
        assert missing.json()["error_code"] == 40401
