"""The verbs of the schema registry, for all listeners.

One node runs the registry: the one that leads `__schemas`.  Parsing and comparing take time, so
they are done beside the event loop, on what the registry said before; if the subject changed
meanwhile, the machine refuses, and it is done again.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from goqueue.broker.machine_host import MachineHost
from goqueue.model.errors import NotCoordinator
from goqueue.runtime import Disk
from goqueue.schemas import (
    LATEST,
    Incompatibility,
    Level,
    Mode,
    RegistryMachine,
    Resolved,
    Schema,
    SchemaText,
    StoredSchema,
    SubjectVersion,
    find_incompatibilities,
    identity_of,
    parse_schema,
)
from goqueue.schemas.errors import IncompatibleSchema, RegistryChanged, SchemaNotFound

ATTEMPTS_MAX: Final = 10  # to register, when others register under the same subject meanwhile

T = TypeVar("T")


class Prepared(msgspec.Struct, frozen=True):
    """A schema, parsed, as the registry would keep it."""

    parsed: Schema
    kept: SchemaText
    identity: str
    shape: str


class Broken(msgspec.Struct, frozen=True):
    """A rule that a version of the subject is broken by."""

    version: int
    problem: Incompatibility

    def __str__(self) -> str:
        return f"{self.problem} (version {self.version})"


class Schemas:
    def __init__(self, disk: Disk) -> None:
        self._in_background = disk.in_background  # its threads are the broker's
        self._host: MachineHost[RegistryMachine] | None = None

    # --- life -------------------------------------------------------------------------------------

    def attach(self, host: MachineHost[RegistryMachine]) -> None:
        """This node runs the registry."""
        self._host = host

    def resign(self) -> None:
        if self._host is not None:
            self._host.resign(_not_here, _not_here)
        self._host = None

    @property
    def is_coordinating(self) -> bool:
        return self._host is not None

    @property
    def host(self) -> MachineHost[RegistryMachine]:
        """Raises `NotCoordinator` unless this node runs the registry."""
        if self._host is None:
            raise _not_here()
        return self._host

    async def look(self, look: Callable[[RegistryMachine], T]) -> T:
        """What the registry says, once that is committed."""
        return await self.host.read(look)

    # --- schemas ----------------------------------------------------------------------------------

    async def prepare(self, schema: SchemaText, *, normalize: bool = False) -> Prepared:
        """Raises `InvalidSchema`."""

        def look(machine: RegistryMachine) -> tuple[SchemaText, Resolved]:
            resolved = machine.resolve(schema.references)
            exact = tuple(machine.pin(each) for each in schema.references)
            return msgspec.structs.replace(schema, references=exact), resolved

        wanted, resolved = await self.look(look)
        return await self._in_background(lambda: _prepare(wanted, resolved, normalize))

    async def parse(self, stored: StoredSchema) -> Schema:
        """One that is kept."""
        resolved = await self.look(lambda machine: machine.resolve(stored.schema.references))
        return await self._in_background(lambda: parse_schema(stored.schema, resolved))

    async def find(
        self, subject: str, schema: SchemaText, *, normalize: bool = False, deleted: bool = False
    ) -> SubjectVersion:
        """The version of the subject with this schema; raises what is not there."""
        wanted = await self.prepare(schema, normalize=normalize)

        def look(machine: RegistryMachine) -> SubjectVersion | None:
            machine.demand_subject(subject)
            shape = wanted.shape if normalize else ""
            return machine.find(subject, identity=wanted.identity, shape=shape, deleted=deleted)

        found = await self.look(look)
        if found is None:
            raise SchemaNotFound(f"no version of {subject!r} has this schema")
        return found

    async def register(
        self,
        subject: str,
        schema: SchemaText,
        *,
        normalize: bool = False,
        schema_id: int | None = None,
        version: int | None = None,
    ) -> SubjectVersion:
        """The version that there is, or a new one; raises `IncompatibleSchema`.

        A schema without metadata and rules takes over those of the latest version.
        """
        if not schema.extras:
            extras = await self.look(lambda machine: machine.latest_extras(subject))
            schema = msgspec.structs.replace(schema, extras=extras)
        wanted = await self.prepare(schema, normalize=normalize)
        for _ in range(ATTEMPTS_MAX):
            known = await self.look(
                lambda machine: machine.find(
                    subject, identity=wanted.identity, shape=wanted.shape if normalize else ""
                )
            )
            if known is not None and schema_id in (None, known.stored.schema_id):
                return known
            latest = await self.look(lambda machine: _check_mode(machine, subject, schema_id))
            if schema_id is None:
                await self._check(subject, wanted.parsed)
            try:
                return await self.host.submit(
                    lambda machine, latest=latest: machine.register(  # type: ignore[misc]
                        subject,
                        wanted.kept,
                        identity=wanted.identity,
                        shape=wanted.shape,
                        compared_with=latest,
                        schema_id=schema_id,
                        version=version,
                    )
                )
            except RegistryChanged:
                continue
        raise RegistryChanged(f"subject {subject!r} changes all the time: try again")

    # --- compatibility ----------------------------------------------------------------------------

    async def _check(self, subject: str, new: Schema) -> None:
        broken = await self.compare(subject, new)
        if not broken:
            return
        level = await self.look(lambda machine: machine.level(subject))
        problems = tuple(str(each) for each in broken)
        text = f"the schema is incompatible with an earlier one of {subject!r} (level {level})"
        raise IncompatibleSchema(f"{text}: {'; '.join(problems[:5])}", problems)

    async def compare(self, subject: str, new: Schema, version: int | None = None) -> list[Broken]:
        """The rules of the subject's level that a schema breaks, or those of one version of it."""

        def look(machine: RegistryMachine) -> tuple[Level, list[tuple[SubjectVersion, Resolved]]]:
            level = machine.level(subject)
            if version is None:
                former = machine.former(subject, level)
            else:
                former = [machine.version(subject, version)]
            return level, [(each, _resolve(machine, each)) for each in former]

        level, former = await self.look(look)
        return await self._in_background(lambda: _compare(new, former, level))

    # --- changes ----------------------------------------------------------------------------------

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        return await self.host.submit(
            lambda machine: machine.delete_subject(subject, permanent=permanent)
        )

    async def delete_version(
        self, subject: str, version: int = LATEST, *, permanent: bool = False
    ) -> int:
        return await self.host.submit(
            lambda machine: machine.delete_version(subject, version, permanent=permanent)
        )

    async def set_level(self, subject: str, level: Level) -> Level:
        return await self.host.submit(lambda machine: machine.set_level(subject, level))

    async def unset_level(self, subject: str) -> Level:
        return await self.host.submit(lambda machine: machine.unset_level(subject))

    async def set_mode(self, subject: str, mode: Mode, *, force: bool = False) -> Mode:
        return await self.host.submit(lambda machine: machine.set_mode(subject, mode, force=force))

    async def unset_mode(self, subject: str) -> Mode:
        return await self.host.submit(lambda machine: machine.unset_mode(subject))


def _prepare(schema: SchemaText, resolved: Resolved, normalize: bool) -> Prepared:
    parsed = parse_schema(schema, resolved)
    text = parsed.normalized if normalize else parsed.text
    kept = msgspec.structs.replace(schema, text=text)
    shape = identity_of(msgspec.structs.replace(schema, text=parsed.normalized))
    return Prepared(parsed, kept, identity_of(kept), shape)


def _check_mode(machine: RegistryMachine, subject: str, schema_id: int | None) -> int:
    """The latest version, if the subject may have another one; the mode comes before the level."""
    machine.check_writable(subject, imports=schema_id is not None)
    return machine.latest_version(subject)


def _compare(
    new: Schema, former: Sequence[tuple[SubjectVersion, Resolved]], level: Level
) -> list[Broken]:
    return [
        Broken(version.version, problem)
        for version, resolved in former
        for problem in find_incompatibilities(
            new, parse_schema(version.stored.schema, resolved), level
        )
    ]


def _resolve(machine: RegistryMachine, version: SubjectVersion) -> Resolved:
    return machine.resolve(version.stored.schema.references)


def _not_here() -> NotCoordinator:
    return NotCoordinator("this node does not run the schema registry")
