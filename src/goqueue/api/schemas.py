"""Schemas of subjects: bodies of `/schemas`.  Confluent's own API is at `/registry`."""

import msgspec


class SchemaReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schema of another subject, by the name that it is used by."""

    name: str
    subject: str
    version: int = -1
    """-1: the latest one now."""


class NewSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    schema: str
    """The schema as text: JSON, or a .proto file."""
    schema_type: str = msgspec.field(name="schemaType", default="AVRO")
    """AVRO, JSON or PROTOBUF."""
    references: list[SchemaReference] = []


class RegisteredSchema(msgspec.Struct, frozen=True):
    id: int
    version: int


class SchemaVersion(msgspec.Struct, frozen=True):
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = msgspec.field(name="schemaType")
    references: list[SchemaReference]


class DeletedVersion(msgspec.Struct, frozen=True):
    deleted: int
    """The version."""


class CompatibilityCheck(msgspec.Struct, frozen=True):
    is_compatible: bool
    messages: list[str]
    """The rules that are broken, each with its place."""


class CompatibilityLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    compatibility: str
    """NONE, BACKWARD, FORWARD, FULL, or one of the last three with _TRANSITIVE."""


class SubjectStats(msgspec.Struct, frozen=True, rename="camel"):
    subject: str
    version_count: int
    latest_version: int
    latest_schema_id: int
    compatibility: str


class SchemaStats(msgspec.Struct, frozen=True, rename="camel"):
    subject_count: int
    total_schemas: int
    global_compatibility: str
    cached_validators: int
    subjects: list[SubjectStats]
