"""What Confluent's clients send, and what they get: its names, upper and lower case."""

from typing import Any
from uuid import UUID

import msgspec

from goqueue.model.errors import InvalidRequest
from goqueue.schemas import Reference, SchemaText, SchemaType, StoredSchema, SubjectVersion
from goqueue.schemas.documents import canonical
from goqueue.schemas.errors import InvalidSchema, InvalidVersion, OperationNotPermitted
from goqueue.schemas.limits import SCHEMA_BYTES_MAX
from goqueue.schemas.registry import LATEST

VERSION_MAX = 2**31 - 1


class SentReference(msgspec.Struct, frozen=True):
    name: str
    subject: str
    version: int = LATEST


class Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """What clients keep with a schema, and look for: tags of its fields, and any properties."""

    tags: dict[str, list[str]] | None = None
    properties: dict[str, str] | None = None
    sensitive: list[str] | None = None


class RuleSet(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What clients do with payloads, and brokers do not: transformations, conditions, keys."""

    migration_rules: list[dict[str, Any]] | None = None
    domain_rules: list[dict[str, Any]] | None = None
    encoding_rules: list[dict[str, Any]] | None = None
    enable_at: str | None = None


class Extras(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None


class SentSchema(msgspec.Struct, frozen=True, rename="camel"):
    """Other fields are not kept."""

    schema: str
    schema_type: str | None = None
    references: list[SentReference] | None = None
    id: int | None = None
    version: int | None = None
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None

    def text(self, context: str = "") -> SchemaText:
        """`context` is what names of subjects begin with that say none."""
        try:
            schema_type = SchemaType(self.schema_type or SchemaType.AVRO)
        except ValueError:
            raise InvalidSchema(
                f"schema type {str(self.schema_type)[:50]!r} is none of {', '.join(SchemaType)}"
            ) from None
        references = tuple(
            Reference(each.name, _qualify(each.subject, context), each.version)
            for each in self.references or ()
        )
        extras = write_extras(Extras(self.metadata, self.rule_set))
        return SchemaText(self.schema, schema_type, references, extras)

    @property
    def wanted_id(self) -> int | None:
        return self.id if self.id is not None and self.id > 0 else None


class SentConfig(msgspec.Struct, frozen=True, rename="camel"):
    compatibility: str | None = None
    compatibility_level: str | None = None
    # What Confluent's platform knows beside the level.
    alias: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_rules: bool | None = None
    compatibility_group: str | None = None
    compatibility_policy: str | None = None
    default_metadata: Any = None
    override_metadata: Any = None
    default_rule_set: Any = None
    override_rule_set: Any = None

    def check(self) -> None:
        """Raises `OperationNotPermitted` for what would have no effect."""
        known = ("compatibility", "compatibility_level")
        given = [each for each in self.__struct_fields__ if getattr(self, each)]
        more = sorted(set(given) - set(known))
        if more:
            raise OperationNotPermitted(f"{', '.join(more)}: this registry has no such setting")


class SentMode(msgspec.Struct, frozen=True):
    mode: str


def write_extras(extras: Extras) -> str:
    """As the registry keeps them: the same text for the same content."""
    if extras == Extras():
        return ""
    text = canonical(extras)
    if len(text) > SCHEMA_BYTES_MAX:
        raise InvalidSchema(f"metadata and rules of {len(text)} bytes, {SCHEMA_BYTES_MAX} allowed")
    return text


def read_extras(schema: SchemaText) -> Extras:
    return msgspec.json.decode(schema.extras, type=Extras) if schema.extras else Extras()


def metadata_properties(schema: SchemaText) -> dict[str, str]:
    metadata = read_extras(schema).metadata
    return {} if metadata is None else metadata.properties or {}


def _qualify(subject: str, context: str) -> str:
    return subject if subject.startswith(":.") else context + subject


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
    if schema.extras:
        extras = read_extras(schema)
        if extras.metadata is not None:
            body["metadata"] = extras.metadata
        if extras.rule_set is not None:
            body["ruleSet"] = extras.rule_set
    body["guid"] = guid_of(stored)
    return body


def version_body(found: SubjectVersion, text: str | None = None) -> dict[str, Any]:
    head = {"subject": found.subject, "version": found.version, "id": found.stored.schema_id}
    return {**head, **schema_body(found.stored, text)}


def guid_of(stored: StoredSchema) -> str:
    """The first half of its SHA-256."""
    return str(UUID(hex=stored.identity[:32]))
