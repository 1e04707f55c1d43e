"""Every request about schemas."""

from collections.abc import Sequence

from goqueue.api.schemas import (
    CompatibilityCheck,
    CompatibilityLevel,
    DeletedVersion,
    NewSchema,
    RegisteredSchema,
    SchemaReference,
    SchemaStats,
    SchemaVersion,
)
from goqueue.client.http.calls.call import Call, change, get, path_of, post


def schema_stats() -> Call[SchemaStats]:
    """All subjects, with their latest version and level."""
    return get("/schemas/stats", SchemaStats)


def schema_version(subject: str, version: int | None = None) -> Call[SchemaVersion]:
    """The latest one, if none is given."""
    return get(_version(subject, version), SchemaVersion)


def schema_by_id(schema_id: int) -> Call[SchemaVersion]:
    """With the first subject that has it."""
    return get(path_of("schemas", "ids", schema_id), SchemaVersion)


def register_schema(
    subject: str,
    schema: str,
    schema_type: str = "AVRO",
    references: Sequence[SchemaReference] = (),
) -> Call[RegisteredSchema]:
    """The version that there is, or a new one, if it is compatible."""
    body = NewSchema(schema, schema_type, list(references))
    path = path_of("schemas", "subjects", subject, "versions")
    return post(path, RegisteredSchema, body, is_repeatable=True)


def check_schema(
    subject: str,
    schema: str,
    schema_type: str = "AVRO",
    references: Sequence[SchemaReference] = (),
    version: int | None = None,
) -> Call[CompatibilityCheck]:
    """Whether it may follow a version of the subject; nothing is registered."""
    body = NewSchema(schema, schema_type, list(references))
    path = "/schemas/compatibility" + _version(subject, version).removeprefix("/schemas")
    return post(path, CompatibilityCheck, body, is_repeatable=True)


def delete_schema_version(
    subject: str, version: int, *, permanent: bool = False
) -> Call[DeletedVersion]:
    query = {"permanent": "true"} if permanent else {}
    return change("DELETE", _version(subject, version), DeletedVersion, query=query)


def delete_subject(subject: str, *, permanent: bool = False) -> Call[list[int]]:
    """Gives the versions."""
    query = {"permanent": "true"} if permanent else {}
    return change("DELETE", path_of("schemas", "subjects", subject), list[int], query=query)


def schema_level(subject: str | None = None) -> Call[CompatibilityLevel]:
    """That of a subject, or of all."""
    return get(_config(subject), CompatibilityLevel)


def set_schema_level(level: str, subject: str | None = None) -> Call[CompatibilityLevel]:
    body = CompatibilityLevel(level)
    return change("PUT", _config(subject), CompatibilityLevel, body, is_repeatable=True)


def _version(subject: str, version: int | None) -> str:
    number = "latest" if version is None else version
    return path_of("schemas", "subjects", subject, "versions", number)


def _config(subject: str | None) -> str:
    return path_of("schemas", "config", *([] if subject is None else [subject]))
