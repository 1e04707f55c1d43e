"""Schemas in the shape of this server's other operations; Confluent's API is at `/registry`."""

from typing import Annotated, Any

from litestar import Request
from litestar.params import JSONBody, PathParameter

from goqueue.api import schemas as api
from goqueue.schemas import (
    GLOBAL,
    LATEST,
    Reference,
    RegistryMachine,
    SchemaText,
    SchemaType,
    SubjectVersion,
    read_level,
    subject_name,
)
from goqueue.schemas.errors import InvalidSchema, SchemaNotFound
from goqueue.security import ResourceType
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.registry.bodies import read_version
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.security.demands import subject_topic
from goqueue.server.http.security.visibility import SchemaVisibility, visible

MEANINGS = {
    404: "No such subject, version or schema.",
    409: "The schema breaks the subject's compatibility level; `message` says where.",
    422: "The schema, version or level is not valid, or the subject's mode forbids it.",
}
routes = Routes("schemas", MEANINGS)

SubjectPath = Annotated[str, PathParameter(description="Name of a subject.")]
VersionPath = Annotated[str, PathParameter(description="A version, or `latest`.")]
Deleted = Annotated[bool, query("Also what is deleted, but not permanently.")]
Permanent = Annotated[bool, query("Delete what was deleted before, for good.")]
Normalize = Annotated[bool, query("Schemas that differ in spelling only are the same.")]


@routes.get("/schemas/subjects", "List subjects")
async def list_subjects(
    broker: TheBroker, request: Request[Any, Any, Any], deleted: Deleted = False
) -> list[str]:
    found = await broker.schemas.look(lambda machine: machine.subjects(deleted=deleted))
    may_see = visible(request.scope, broker.permissions, ResourceType.TOPIC)
    return [name for name in found if may_see(subject_topic(name))]


@routes.get("/schemas/subjects/{subject:str}/versions", "List versions of a subject", 404, 422)
async def list_schema_versions(
    broker: TheBroker, subject: SubjectPath, deleted: Deleted = False
) -> list[int]:
    name = subject_name(subject)
    return await broker.schemas.look(lambda machine: machine.versions(name, deleted=deleted))


@routes.post("/schemas/subjects/{subject:str}/versions", "Register a schema", 409, 422)
async def register_schema(
    broker: TheBroker,
    subject: SubjectPath,
    data: JSONBody[api.NewSchema],
    normalize: Normalize = False,
) -> api.RegisteredSchema:
    """The version that there is, or a new one, if it is compatible."""
    name = subject_name(subject)
    found = await broker.schemas.register(name, _text(data), normalize=normalize)
    return api.RegisteredSchema(found.stored.schema_id, found.version)


@routes.get("/schemas/subjects/{subject:str}/versions/{version:str}", "Show a version", 404, 422)
async def show_schema_version(
    broker: TheBroker, subject: SubjectPath, version: VersionPath
) -> api.SchemaVersion:
    name, number = subject_name(subject), read_version(version)
    return _body(await broker.schemas.look(lambda machine: machine.version(name, number)))


@routes.delete(
    "/schemas/subjects/{subject:str}/versions/{version:str}", "Delete a version", 404, 422
)
async def delete_schema_version(
    broker: TheBroker, subject: SubjectPath, version: VersionPath, permanent: Permanent = False
) -> api.DeletedVersion:
    name, number = subject_name(subject), read_version(version)
    return api.DeletedVersion(
        await broker.schemas.delete_version(name, number, permanent=permanent)
    )


@routes.post("/schemas/subjects/{subject:str}", "Find the version with a schema", 404, 422)
async def find_schema_version(
    broker: TheBroker,
    subject: SubjectPath,
    data: JSONBody[api.NewSchema],
    normalize: Normalize = False,
) -> api.SchemaVersion:
    name = subject_name(subject)
    return _body(await broker.schemas.find(name, _text(data), normalize=normalize))


@routes.delete("/schemas/subjects/{subject:str}", "Delete a subject", 404, 422)
async def delete_subject(
    broker: TheBroker, subject: SubjectPath, permanent: Permanent = False
) -> list[int]:
    """Gives the versions."""
    return await broker.schemas.delete_subject(subject_name(subject), permanent=permanent)


@routes.get("/schemas/ids/{schema_id:int}", "Show the schema with an id", 404)
async def show_schema(
    broker: TheBroker,
    request: Request[Any, Any, Any],
    schema_id: Annotated[int, PathParameter(description="Id of a schema.", ge=0)],
) -> api.SchemaVersion:
    """With the first subject that has it, of those that the caller may see."""
    visibility = SchemaVisibility(request.scope, broker.permissions)

    def look(machine: RegistryMachine) -> SubjectVersion:
        uses = visibility.demand(schema_id, machine.uses(schema_id, deleted=True))
        if not uses:
            raise SchemaNotFound(f"no subject has the schema with the id {schema_id}")
        return uses[0]

    return _body(await broker.schemas.look(look))


@routes.post(
    "/schemas/compatibility/subjects/{subject:str}/versions/{version:str}",
    "Check the compatibility of a schema",
    404,
    422,
)
async def check_schema(
    broker: TheBroker,
    subject: SubjectPath,
    version: VersionPath,
    data: JSONBody[api.NewSchema],
) -> api.CompatibilityCheck:
    """With one version, by the subject's level; nothing is registered."""
    name, number = subject_name(subject), read_version(version)
    wanted = await broker.schemas.prepare(_text(data))
    broken = await broker.schemas.compare(name, wanted.parsed, number)
    return api.CompatibilityCheck(not broken, [str(each) for each in broken])


@routes.get("/schemas/config", "Show the compatibility level of all subjects")
async def show_schema_level(broker: TheBroker) -> api.CompatibilityLevel:
    return api.CompatibilityLevel(await broker.schemas.look(lambda machine: machine.level()))


@routes.put("/schemas/config", "Set the compatibility level of all subjects", 422)
async def set_schema_level(
    broker: TheBroker, data: JSONBody[api.CompatibilityLevel]
) -> api.CompatibilityLevel:
    level = read_level(data.compatibility)
    return api.CompatibilityLevel(await broker.schemas.set_level(GLOBAL, level))


@routes.get("/schemas/config/{subject:str}", "Show the compatibility level of a subject", 422)
async def show_subject_level(broker: TheBroker, subject: SubjectPath) -> api.CompatibilityLevel:
    """Its own, or else that of all."""
    name = subject_name(subject)
    return api.CompatibilityLevel(await broker.schemas.look(lambda machine: machine.level(name)))


@routes.put("/schemas/config/{subject:str}", "Set the compatibility level of a subject", 422)
async def set_subject_level(
    broker: TheBroker, subject: SubjectPath, data: JSONBody[api.CompatibilityLevel]
) -> api.CompatibilityLevel:
    level = read_level(data.compatibility)
    return api.CompatibilityLevel(await broker.schemas.set_level(subject_name(subject), level))


@routes.get("/schemas/stats", "Show how many schemas there are")
async def show_schema_stats(broker: TheBroker) -> api.SchemaStats:
    cached = broker.schema_directory.cached

    def look(machine: RegistryMachine) -> api.SchemaStats:
        subjects = [_stats(machine, subject) for subject in machine.subjects()]
        return api.SchemaStats(
            len(subjects), machine.schema_count, machine.level(), cached, subjects
        )

    return await broker.schemas.look(look)


def _stats(machine: RegistryMachine, subject: str) -> api.SubjectStats:
    latest = machine.version(subject, LATEST)
    return api.SubjectStats(
        subject,
        len(machine.versions(subject)),
        latest.version,
        latest.stored.schema_id,
        machine.level(subject),
    )


def _text(sent: api.NewSchema) -> SchemaText:
    try:
        schema_type = SchemaType(sent.schema_type)
    except ValueError:
        raise InvalidSchema(f"schemaType is one of {', '.join(SchemaType)}") from None
    references = tuple(Reference(each.name, each.subject, each.version) for each in sent.references)
    return SchemaText(sent.schema, schema_type, references)


def _body(found: SubjectVersion) -> api.SchemaVersion:
    schema = found.stored.schema
    references = [
        api.SchemaReference(each.name, each.subject, each.version) for each in schema.references
    ]
    return api.SchemaVersion(
        found.subject,
        found.version,
        found.stored.schema_id,
        schema.text,
        schema.schema_type,
        references,
    )
