"""Schemas: Avro, JSON Schema and Protobuf, their compatibility, and the registry's machine."""

from goqueue.schemas.compatibility import Level, find_incompatibilities, read_level
from goqueue.schemas.parsing import parse_schema
from goqueue.schemas.registry import (
    GLOBAL,
    LATEST,
    Mode,
    RegistryMachine,
    RegistryRecord,
    StoredSchema,
    SubjectVersion,
    context_of,
    context_prefix,
    read_mode,
    subject_name,
)
from goqueue.schemas.schema import (
    Incompatibility,
    Problem,
    Reference,
    Resolved,
    Schema,
    SchemaText,
    SchemaType,
    Validator,
    identity_of,
)

__all__ = [
    "GLOBAL",
    "LATEST",
    "Incompatibility",
    "Level",
    "Mode",
    "Problem",
    "Reference",
    "RegistryMachine",
    "RegistryRecord",
    "Resolved",
    "Schema",
    "SchemaText",
    "SchemaType",
    "StoredSchema",
    "SubjectVersion",
    "Validator",
    "context_of",
    "context_prefix",
    "find_incompatibilities",
    "identity_of",
    "parse_schema",
    "read_level",
    "read_mode",
    "subject_name",
]
