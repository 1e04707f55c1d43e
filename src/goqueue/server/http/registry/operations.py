"""The operations of Confluent's API, each a function of the request's parts.

Names of subjects may have slashes in them (of Protobuf's imports, say), so paths are told apart by
patterns, not by their parts.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from goqueue._version import __version__
from goqueue.broker import Broker
from goqueue.broker.schemas.service import Schemas
from goqueue.model.errors import InvalidRequest
from goqueue.schemas import (
    GLOBAL,
    SchemaText,
    SchemaType,
    StoredSchema,
    SubjectVersion,
    context_of,
    read_level,
    read_mode,
    subject_name,
)
from goqueue.schemas.errors import InvalidCompatibility
from goqueue.server.http.registry.bodies import (
    SentConfig,
    SentMode,
    SentSchema,
    guid_of,
    read_id,
    read_version,
    schema_body,
    version_body,
)

BodyT = TypeVar("BodyT")


class Call(msgspec.Struct, frozen=True):
    broker: Broker
    parts: Mapping[str, str]  # of the path
    query: Mapping[str, str]
    content: bytes

    @property
    def schemas(self) -> Schemas:
        return self.broker.schemas

    @property
    def subject(self) -> str:
        return subject_name(self.parts["subject"])

    @property
    def version(self) -> int:
        return read_version(self.parts["version"])

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def body(self, kind: type[BodyT]) -> BodyT:
        try:
            return msgspec.json.decode(self.content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidRequest(f"the body is not what is expected: {error}") from error

    def schema(self) -> SchemaText:
        return self.body(SentSchema).text()


Operation = Callable[[Call], Awaitable[Any]]
_OPERATIONS: Final[list[tuple[str, re.Pattern[str], Operation]]] = []


def find_operation(method: str, path: str) -> tuple[Operation, Mapping[str, str]] | None:
    for known, pattern, operation in _OPERATIONS:
        match = pattern.fullmatch(path) if known == method else None
        if match is not None:
            return operation, match.groupdict()
    return None


def _add(method: str, path: str) -> Callable[[Operation], Operation]:
    """`{subject}` may hold slashes, other parts none."""
    pattern = path.replace("{subject}", "(?P<subject>.+)")
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)

    def add(operation: Operation) -> Operation:
        _OPERATIONS.append((method, re.compile(pattern), operation))
        return operation

    return add


# --- schemas --------------------------------------------------------------------------------------


@_add("GET", "/")
async def show_nothing(call: Call) -> Any:
    return {}


@_add("GET", "/schemas/types")
async def list_types(call: Call) -> Any:
    return [SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.AVRO]


@_add("GET", "/schemas")
async def list_schemas(call: Call) -> Any:
    prefix, deleted = call.query.get("subjectPrefix", ""), call.flag("deleted")
    latest_only = call.flag("latestOnly")

    def look(machine: Any) -> list[SubjectVersion]:
        return [
            machine.version(subject, version, deleted=deleted)
            for subject in machine.subjects(prefix, deleted=deleted)
            for version in machine.versions(subject, deleted=deleted)[-1 if latest_only else 0 :]
        ]

    return [version_body(each) for each in _page(call, await call.schemas.look(look))]


@_add("GET", "/schemas/ids/{id}")
async def show_schema(call: Call) -> Any:
    schema_id = read_id(call.parts["id"])
    stored = await call.schemas.look(lambda machine: machine.schema(schema_id))
    return schema_body(stored, await _format(call, stored))


@_add("GET", "/schemas/guids/{guid}")
async def show_schema_by_guid(call: Call) -> Any:
    try:
        prefix = UUID(call.parts["guid"]).hex
    except ValueError:
        raise InvalidRequest(f"{call.parts['guid'][:50]!r} is no UUID") from None
    stored = await call.schemas.look(lambda machine: machine.schema_by_identity(prefix))
    return {**schema_body(stored, await _format(call, stored)), "id": stored.schema_id}


@_add("GET", "/schemas/ids/{id}/schema")
async def show_schema_text(call: Call) -> Any:
    schema_id = read_id(call.parts["id"])
    stored = await call.schemas.look(lambda machine: machine.schema(schema_id))
    return _raw(await _format(call, stored) or stored.schema.text)


@_add("GET", "/schemas/ids/{id}/subjects")
async def list_subjects_of_schema(call: Call) -> Any:
    return sorted({each.subject for each in await _uses(call)})


@_add("GET", "/schemas/ids/{id}/versions")
async def list_versions_of_schema(call: Call) -> Any:
    return [{"subject": each.subject, "version": each.version} for each in await _uses(call)]


async def _uses(call: Call) -> list[SubjectVersion]:
    schema_id, deleted = read_id(call.parts["id"]), call.flag("deleted")
    wanted = call.query.get("subject")
    found = await call.schemas.look(lambda machine: machine.uses(schema_id, deleted=deleted))
    return [each for each in found if wanted in (None, "", each.subject)]


async def _format(call: Call, stored: StoredSchema) -> str | None:
    """The text in the format that is asked for; None for the usual one."""
    if call.query.get("format") != "serialized" or (
        stored.schema.schema_type is not SchemaType.PROTOBUF
    ):
        return None
    parsed: Any = await call.schemas.parse(stored)
    text: str = parsed.serialized
    return text


def _raw(text: str) -> Any:
    """A schema itself: JSON as it is, a .proto file as a string."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return msgspec.Raw(text.encode())


def _page(call: Call, found: list[Any]) -> list[Any]:
    try:
        offset, limit = int(call.query.get("offset", 0)), int(call.query.get("limit", -1))
    except ValueError:
        raise InvalidRequest("offset and limit are numbers") from None
    start = max(offset, 0)
    return found[start:] if limit < 0 else found[start : start + limit]


# --- subjects -------------------------------------------------------------------------------------


@_add("GET", "/subjects")
async def list_subjects(call: Call) -> Any:
    prefix, deleted = call.query.get("subjectPrefix", ""), call.flag("deleted")
    only = call.flag("deletedOnly")

    def look(machine: Any) -> list[str]:
        found: list[str] = machine.subjects(prefix, deleted=deleted or only)
        active = machine.subjects(prefix) if only else ()
        return [each for each in found if each not in active]

    return _page(call, await call.schemas.look(look))


@_add("GET", "/subjects/{subject}/versions")
async def list_versions(call: Call) -> Any:
    subject, deleted = call.subject, call.flag("deleted") or call.flag("deletedOnly")
    found = await call.schemas.look(lambda machine: machine.versions(subject, deleted=deleted))
    return _page(call, found)


@_add("POST", "/subjects/{subject}/versions")
async def register(call: Call) -> Any:
    sent = call.body(SentSchema)
    found = await call.schemas.register(
        call.subject,
        sent.text(),
        normalize=call.flag("normalize"),
        schema_id=sent.wanted_id,
        version=sent.version,
    )
    stored = found.stored
    return {"id": stored.schema_id, "version": found.version, "guid": guid_of(stored)}


@_add("GET", "/subjects/{subject}/versions/{version}")
async def show_version(call: Call) -> Any:
    found = await _version(call)
    return version_body(found, await _format(call, found.stored))


@_add("GET", "/subjects/{subject}/versions/{version}/schema")
async def show_version_text(call: Call) -> Any:
    stored = (await _version(call)).stored
    return _raw(await _format(call, stored) or stored.schema.text)


@_add("GET", "/subjects/{subject}/versions/{version}/referencedby")
async def list_referrers(call: Call) -> Any:
    found = await _version(call)
    return await call.schemas.look(lambda machine: machine.referrers(found.subject, found.version))


async def _version(call: Call) -> SubjectVersion:
    subject, version, deleted = call.subject, call.version, call.flag("deleted")
    return await call.schemas.look(
        lambda machine: machine.version(subject, version, deleted=deleted)
    )


@_add("DELETE", "/subjects/{subject}/versions/{version}")
async def delete_version(call: Call) -> Any:
    permanent = call.flag("permanent")
    return await call.schemas.delete_version(call.subject, call.version, permanent=permanent)


@_add("POST", "/subjects/{subject}")
async def find_version(call: Call) -> Any:
    normalize, deleted = call.flag("normalize"), call.flag("deleted")
    found = await call.schemas.find(
        call.subject, call.schema(), normalize=normalize, deleted=deleted
    )
    return version_body(found, await _format(call, found.stored))


@_add("DELETE", "/subjects/{subject}")
async def delete_subject(call: Call) -> Any:
    return await call.schemas.delete_subject(call.subject, permanent=call.flag("permanent"))


# --- compatibility --------------------------------------------------------------------------------


@_add("POST", "/compatibility/subjects/{subject}/versions/{version}")
async def check_version(call: Call) -> Any:
    return await _check(call, call.version)


@_add("POST", "/compatibility/subjects/{subject}/versions")
async def check_versions(call: Call) -> Any:
    return await _check(call, None)


async def _check(call: Call, version: int | None) -> Any:
    subject = call.subject
    wanted = await call.schemas.prepare(call.schema(), normalize=call.flag("normalize"))
    broken = await call.schemas.compare(subject, wanted.parsed, version)
    body: dict[str, Any] = {"is_compatible": not broken}
    if call.flag("verbose"):
        body["messages"] = [str(each) for each in broken]
    return body


# --- levels and modes -----------------------------------------------------------------------------


@_add("GET", "/config")
async def show_level(call: Call) -> Any:
    return {"compatibilityLevel": await call.schemas.look(lambda machine: machine.level())}


@_add("PUT", "/config")
async def set_level(call: Call) -> Any:
    return await _set_level(call, GLOBAL)


@_add("DELETE", "/config")
async def unset_level(call: Call) -> Any:
    return {"compatibilityLevel": await call.schemas.unset_level(GLOBAL)}


@_add("GET", "/config/{subject}")
async def show_level_of_subject(call: Call) -> Any:
    subject, default = call.subject, call.flag("defaultToGlobal")
    level = await call.schemas.look(
        lambda machine: machine.level(subject, default_to_global=default)
    )
    return {"compatibilityLevel": level}


@_add("PUT", "/config/{subject}")
async def set_level_of_subject(call: Call) -> Any:
    return await _set_level(call, call.subject)


@_add("DELETE", "/config/{subject}")
async def unset_level_of_subject(call: Call) -> Any:
    return {"compatibilityLevel": await call.schemas.unset_level(call.subject)}


async def _set_level(call: Call, subject: str) -> Any:
    text = call.body(SentConfig).compatibility
    if text is None:
        raise InvalidCompatibility("`compatibility` is missing")
    return {"compatibility": await call.schemas.set_level(subject, read_level(text))}


@_add("GET", "/mode")
async def show_mode(call: Call) -> Any:
    return {"mode": await call.schemas.look(lambda machine: machine.mode())}


@_add("PUT", "/mode")
async def set_mode(call: Call) -> Any:
    return await _set_mode(call, GLOBAL)


@_add("GET", "/mode/{subject}")
async def show_mode_of_subject(call: Call) -> Any:
    subject, default = call.subject, call.flag("defaultToGlobal")
    mode = await call.schemas.look(lambda machine: machine.mode(subject, default_to_global=default))
    return {"mode": mode}


@_add("PUT", "/mode/{subject}")
async def set_mode_of_subject(call: Call) -> Any:
    return await _set_mode(call, call.subject)


@_add("DELETE", "/mode/{subject}")
async def unset_mode_of_subject(call: Call) -> Any:
    return {"mode": await call.schemas.unset_mode(call.subject)}


async def _set_mode(call: Call, subject: str) -> Any:
    mode = read_mode(call.body(SentMode).mode)
    return {"mode": await call.schemas.set_mode(subject, mode, force=call.flag("force"))}


# --- the registry itself --------------------------------------------------------------------------


@_add("GET", "/contexts")
async def list_contexts(call: Call) -> Any:
    subjects = await call.schemas.look(lambda machine: machine.subjects(deleted=True))
    return _page(call, sorted({".", *map(context_of, subjects)}))


@_add("GET", "/v1/metadata/id")
async def show_id(call: Call) -> Any:
    cluster = {
        "schema-registry-cluster": "schema-registry",
        "kafka-cluster": call.broker.cluster_id,
    }
    return {"scope": {"path": [], "clusters": cluster}, "id": ""}


@_add("GET", "/v1/metadata/version")
async def show_server_version(call: Call) -> Any:
    return {"version": __version__, "commitId": ""}
