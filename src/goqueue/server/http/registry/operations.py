"""The operations of Confluent's API on schemas and subjects, each a function of the request."""

from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from goqueue._version import __version__
from goqueue.model.errors import InvalidRequest
from goqueue.schemas import (
    RegistryMachine,
    SchemaType,
    StoredSchema,
    SubjectVersion,
    context_of,
)
from goqueue.schemas.errors import VersionNotFound
from goqueue.server.http.registry.bodies import (
    SentSchema,
    guid_of,
    metadata_properties,
    read_id,
    schema_body,
    version_body,
)
from goqueue.server.http.registry.calls import Call, add

# --- schemas --------------------------------------------------------------------------------------


@add("GET", "/")
async def show_nothing(call: Call) -> Any:
    return {}


@add("GET", "/schemas/types")
async def list_types(call: Call) -> Any:
    return [SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.AVRO]


@add("GET", "/schemas")
async def list_schemas(call: Call) -> Any:
    prefix, deleted = call.prefix, call.flag("deleted")
    latest_only = call.flag("latestOnly")

    def look(machine: Any) -> list[SubjectVersion]:
        return [
            machine.version(subject, version, deleted=deleted)
            for subject in filter(call.visibility.shows, machine.subjects(prefix, deleted=deleted))
            for version in machine.versions(subject, deleted=deleted)[-1 if latest_only else 0 :]
        ]

    return [version_body(each) for each in _page(call, await call.schemas.look(look))]


@add("GET", "/schemas/ids/{id}")
async def show_schema(call: Call) -> Any:
    stored = await call.schemas.look(partial(_by_id, call))
    return schema_body(stored, await _format(call, stored))


def _by_id(call: Call, machine: RegistryMachine) -> StoredSchema:
    schema_id = read_id(call.parts["id"])
    call.visibility.demand(schema_id, machine.uses(schema_id, deleted=True))
    return machine.schema(schema_id)


@add("GET", "/schemas/guids/{guid}")
async def show_schema_by_guid(call: Call) -> Any:
    try:
        prefix = UUID(call.parts["guid"]).hex
    except ValueError:
        raise InvalidRequest(f"{call.parts['guid'][:50]!r} is no UUID") from None
    stored = await call.schemas.look(lambda machine: machine.schema_by_identity(prefix))
    return {**schema_body(stored, await _format(call, stored)), "id": stored.schema_id}


@add("GET", "/schemas/ids/{id}/schema")
async def show_schema_text(call: Call) -> Any:
    stored = await call.schemas.look(partial(_by_id, call))
    return _raw(await _format(call, stored) or stored.schema.text)


@add("GET", "/schemas/ids/{id}/subjects")
async def list_subjects_of_schema(call: Call) -> Any:
    return sorted({each.subject for each in await _uses(call)})


@add("GET", "/schemas/ids/{id}/versions")
async def list_versions_of_schema(call: Call) -> Any:
    return [{"subject": each.subject, "version": each.version} for each in await _uses(call)]


async def _uses(call: Call) -> list[SubjectVersion]:
    schema_id, deleted = read_id(call.parts["id"]), call.flag("deleted")
    wanted = call.one("subject")
    found = await call.schemas.look(lambda machine: machine.uses(schema_id, deleted=deleted))
    shown = call.visibility.demand(schema_id, found)
    return [each for each in shown if wanted in ("", each.subject)]


async def _format(call: Call, stored: StoredSchema) -> str | None:
    """The text in the format that is asked for; None for the usual one."""
    if call.one("format") != "serialized" or (stored.schema.schema_type is not SchemaType.PROTOBUF):
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
        offset, limit = int(call.one("offset", "0")), int(call.one("limit", "-1"))
    except ValueError:
        raise InvalidRequest("offset and limit are numbers") from None
    start = max(offset, 0)
    return found[start:] if limit < 0 else found[start : start + limit]


# --- subjects -------------------------------------------------------------------------------------


@add("GET", "/subjects")
async def list_subjects(call: Call) -> Any:
    prefix, deleted = call.prefix, call.flag("deleted")
    only = call.flag("deletedOnly")

    def look(machine: Any) -> list[str]:
        found: list[str] = machine.subjects(prefix, deleted=deleted or only)
        active = machine.subjects(prefix) if only else ()
        return [each for each in filter(call.visibility.shows, found) if each not in active]

    return _page(call, await call.schemas.look(look))


@add("GET", "/subjects/{subject}/versions")
async def list_versions(call: Call) -> Any:
    subject, deleted = call.subject, call.flag("deleted") or call.flag("deletedOnly")
    found = await call.schemas.look(lambda machine: machine.versions(subject, deleted=deleted))
    return _page(call, found)


@add("POST", "/subjects/{subject}/versions")
async def register(call: Call) -> Any:
    sent = call.body(SentSchema)
    found = await call.schemas.register(
        call.subject,
        call.schema(),
        normalize=call.flag("normalize"),
        schema_id=sent.wanted_id,
        version=sent.version,
    )
    stored = found.stored
    return {"id": stored.schema_id, "version": found.version, "guid": guid_of(stored)}


@add("GET", "/subjects/{subject}/metadata")
async def show_latest_with_metadata(call: Call) -> Any:
    subject, deleted = call.subject, call.flag("deleted")
    wanted = dict(zip(call.many("key"), call.many("value"), strict=False))

    def look(machine: RegistryMachine) -> SubjectVersion:
        for number in reversed(machine.versions(subject, deleted=deleted)):
            found = machine.version(subject, number, deleted=deleted)
            if wanted.items() <= metadata_properties(found.stored.schema).items():
                return found
        raise VersionNotFound(f"no version of {subject!r} has this metadata")

    found = await call.schemas.look(look)
    return version_body(found, await _format(call, found.stored))


@add("GET", "/subjects/{subject}/versions/{version}")
async def show_version(call: Call) -> Any:
    found = await _version(call)
    return version_body(found, await _format(call, found.stored))


@add("GET", "/subjects/{subject}/versions/{version}/schema")
async def show_version_text(call: Call) -> Any:
    stored = (await _version(call)).stored
    return _raw(await _format(call, stored) or stored.schema.text)


@add("GET", "/subjects/{subject}/versions/{version}/referencedby")
async def list_referrers(call: Call) -> Any:
    found = await _version(call)
    return await call.schemas.look(lambda machine: machine.referrers(found.subject, found.version))


async def _version(call: Call) -> SubjectVersion:
    subject, version, deleted = call.subject, call.version, call.flag("deleted")
    return await call.schemas.look(
        lambda machine: machine.version(subject, version, deleted=deleted)
    )


@add("DELETE", "/subjects/{subject}/versions/{version}")
async def delete_version(call: Call) -> Any:
    permanent = call.flag("permanent")
    return await call.schemas.delete_version(call.subject, call.version, permanent=permanent)


@add("POST", "/subjects/{subject}")
async def find_version(call: Call) -> Any:
    normalize, deleted = call.flag("normalize"), call.flag("deleted")
    found = await call.schemas.find(
        call.subject, call.schema(), normalize=normalize, deleted=deleted
    )
    return version_body(found, await _format(call, found.stored))


@add("DELETE", "/subjects/{subject}")
async def delete_subject(call: Call) -> Any:
    return await call.schemas.delete_subject(call.subject, permanent=call.flag("permanent"))


# --- compatibility --------------------------------------------------------------------------------


@add("POST", "/compatibility/subjects/{subject}/versions/{version}")
async def check_version(call: Call) -> Any:
    return await _check(call, call.version)


@add("POST", "/compatibility/subjects/{subject}/versions")
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


# --- the registry itself --------------------------------------------------------------------------


@add("GET", "/contexts")
async def list_contexts(call: Call) -> Any:
    subjects = await call.schemas.look(lambda machine: machine.subjects(deleted=True))
    return _page(call, sorted({".", *map(context_of, subjects)}))


@add("GET", "/v1/metadata/id")
async def show_id(call: Call) -> Any:
    cluster = {
        "schema-registry-cluster": "schema-registry",
        "kafka-cluster": call.broker.cluster_id,
    }
    return {"scope": {"path": [], "clusters": cluster}, "id": ""}


@add("GET", "/v1/metadata/version")
async def show_server_version(call: Call) -> Any:
    return {"version": __version__, "commitId": ""}
