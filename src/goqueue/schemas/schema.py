"""The words that all formats share: a schema as it was sent, parsed, and what breaks a rule."""

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec


class SchemaType(StrEnum):
    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Reference(msgspec.Struct, frozen=True):
    """A schema that another one uses, by the name that it uses it by."""

    name: str
    subject: str
    version: int


class SchemaText(msgspec.Struct, frozen=True):
    """A schema as a client sends it, or as the registry keeps it."""

    text: str
    schema_type: SchemaType = SchemaType.AVRO
    references: tuple[Reference, ...] = ()
    extras: str = ""  # JSON: metadata and rules that clients keep with it; empty: none


# The referenced schemas by reference name, those that they refer to before them.
Resolved = Mapping[str, SchemaText]


class Incompatibility(msgspec.Struct, frozen=True):
    """A rule that the new schema breaks, and where."""

    rule: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.path or '/'}: {self.text}"


class Problem(msgspec.Struct, frozen=True):
    """Why a payload is not what its schema says; `path` is a JSON pointer into the document."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.text}"


class Validator(Protocol):
    weight: int  # how much longer than a JSON validator it takes for a byte, or 1

    def check(self, payload: memoryview) -> Problem | None:
        """None for a payload that the schema describes."""


class Schema(Protocol):
    """A parsed schema of any format."""

    schema_type: SchemaType

    @property
    def text(self) -> str:
        """As the registry keeps it."""

    @property
    def normalized(self) -> str:
        """The same for schemas that differ in their spelling only."""

    def record_name(self, indexes: Sequence[int] = ()) -> str | None:
        """The full name of the record, message or title; for RecordNameStrategy."""

    def unreadable(self, written: "Schema") -> list[Incompatibility]:
        """Why a reader with this schema cannot read what was `written`; none if it can."""

    def compile(self, *, is_framed: bool = True) -> Validator:
        """Of payloads; `is_framed`: those that follow the id of a schema in the wire format."""


def identity_of(schema: SchemaText) -> str:
    """SHA-256 of all that makes a schema another one."""
    references = [(each.name, each.subject, each.version) for each in schema.references]
    parts: list[object] = [schema.schema_type, schema.text, references]
    if schema.extras:
        parts.append(schema.extras)
    data = msgspec.json.encode(parts)
    return hashlib.sha256(data).hexdigest()
