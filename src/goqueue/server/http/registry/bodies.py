"""What Confluent's clients send, and what they get: its names, upper and lower case."""

from typing import Any
from uuid import UUID

import msgspec

from goqueue.model.errors import InvalidRequest
from goqueue.schemas import Reference, SchemaText, SchemaType, StoredSchema, SubjectVersion
from goqueue.schemas.errors import InvalidSchema, InvalidVersion
from goqueue.schemas.registry import LATEST

VERSION_MAX = 2**31 - 1


class SentReference(msgspec.Struct, frozen=True):
    name: str
    subject: str
    version: int = LATEST


class SentSchema(msgspec.Struct, frozen=True, rename="camel"):
    """Other fields (metadata, rules) are taken and not kept."""

    schema: str
    schema_type: str | None = None
    references: list[SentReference] | None = None
    id: int | None = None
    version: int | None = None

    def text(self) -> SchemaText:
        try:
            schema_type = SchemaType(self.schema_type or SchemaType.AVRO)
        except ValueError:
            raise InvalidSchema(
                f"schema type {str(self.schema_type)[:50]!r} is none of {', '.join(SchemaType)}"
            ) from None
        references = tuple(
            Reference(each.name, each.subject, each.version) for each in self.references or ()
        )
        return SchemaText(self.schema, schema_type, references)

    @property
    def wanted_id(self) -> int | None:
        return self.id if self.id is not None and self.id > 0 else None


class SentConfig(msgspec.Struct, frozen=True):
    compatibility: str | None = None


class SentMode(msgspec.Struct, frozen=True):
    mode: str


def read_version(text: str) -> int:
    if text in ("latest", "-1"):
        return LATEST
    if not text.isdecimal() or not 0 < int(text) <= VERSION_MAX:
        raise InvalidVersion(f"{text[:50]!r} is no version: 1 to {VERSION_MAX}, or latest")
    return int(text)


def read_id(text: str) -> int:
    if not text.isdecimal() or int(text) > VERSION_MAX:
        raise InvalidRequest(f"{text[:50]!r} is no id of a schema")
    return int(text)


def schema_body(stored: StoredSchema, text: str | None = None) -> dict[str, Any]:
    """Confluent's registry leaves out what is the default."""
    schema = stored.schema
    body: dict[str, Any] = {"schema": schema.text if text is None else text}
    if schema.schema_type is not SchemaType.AVRO:
        body["schemaType"] = schema.schema_type
    if schema.references:
        body["references"] = schema.references
    body["guid"] = guid_of(stored)
    return body


def version_body(found: SubjectVersion, text: str | None = None) -> dict[str, Any]:
    head = {"subject": found.subject, "version": found.version, "id": found.stored.schema_id}
    return {**head, **schema_body(found.stored, text)}


def guid_of(stored: StoredSchema) -> str:
    """The first half of its SHA-256."""
    return str(UUID(hex=stored.identity[:32]))
