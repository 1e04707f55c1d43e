"""Schemas by id and by subject, on any node: what the registry said is kept for a while.

A schema never changes under its id, so what was parsed stays.  Under which subjects it is can
change: that is asked again after some seconds.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.schemas.service import Schemas
from goqueue.model.ids import Instant, NodeId
from goqueue.runtime import Environment
from goqueue.schemas import (
    LATEST,
    RegistryMachine,
    Schema,
    SchemaText,
    StoredSchema,
    Validator,
    parse_schema,
)
from goqueue.schemas.errors import SchemaError

SCHEMAS_MAX: Final = 1_000  # that are kept, parsed and compiled
KNOWN_SECONDS: Final = 30
LATEST_SECONDS: Final = 1  # the latest version of a subject, on nodes without the registry
_NANOSECONDS: Final = 1_000_000_000


class FoundSchema(msgspec.Struct, frozen=True):
    schema_id: int  # 0: there is none
    schema: SchemaText = SchemaText("")
    references: dict[str, SchemaText] = {}
    subjects: tuple[str, ...] = ()


class FindSchema(Verb[FoundSchema], frozen=True):
    """By its id, its GUID, or the latest of a subject."""

    name = "find_schema"
    reply_type = FoundSchema

    schema_id: int = 0
    subject: str = ""
    guid: str = ""


class KnownSchema:
    """A schema, and what it takes to validate with it."""

    def __init__(self, found: FoundSchema, parsed: Schema, until: Instant) -> None:
        self.schema_id = found.schema_id
        self.subjects = frozenset(found.subjects)
        self.parsed = parsed
        self.until = until
        self.validator: Validator = parsed.compile()
        self.bare_validator: Validator = parsed.compile(is_framed=False)

    def record_name(self, indexes: Sequence[int]) -> str | None:
        return self.parsed.record_name(indexes)


class RegistryBroker(Protocol):
    environment: Environment
    schemas: Schemas
    others: OtherNodes | None

    def registry_node(self) -> NodeId: ...


class SchemaDirectory:
    def __init__(self, broker: RegistryBroker) -> None:
        self._broker = broker
        self._clock = broker.environment.clock
        self._disk = broker.environment.disk
        self._known: OrderedDict[int, KnownSchema] = OrderedDict()
        self._latest: OrderedDict[str, tuple[int, Instant]] = OrderedDict()
        self._guids: OrderedDict[str, int] = OrderedDict()
        if broker.others is not None:
            broker.others.serve(FindSchema, self._find_here)

    @property
    def cached(self) -> int:
        return len(self._known)

    def peek(self, schema_id: int) -> KnownSchema | None:
        """What is known without asking."""
        known = self._known.get(schema_id)
        return known if known is not None and self._clock.instant() < known.until else None

    async def find(self, schema_id: int, subject: str | None = None) -> KnownSchema | None:
        """None if there is no such schema; asked again if it is not known under the subject."""
        known = self.peek(schema_id)
        if known is not None and (subject is None or subject in known.subjects):
            return known
        found = await self._ask(FindSchema(schema_id=schema_id))
        return await self._keep_known(found) if found.schema_id else None

    async def find_by_guid(self, guid: str) -> KnownSchema | None:
        if guid in self._guids:
            return await self.find(self._guids[guid])
        found = await self._ask(FindSchema(guid=guid))
        if not found.schema_id:
            return None
        _keep(self._guids, guid, found.schema_id)
        return await self._keep_known(found)

    async def find_latest(self, subject: str) -> KnownSchema | None:
        schema_id, until = self._latest.get(subject, (0, Instant(0)))
        if self._broker.schemas.is_coordinating or self._clock.instant() >= until:
            found = await self._ask(FindSchema(subject=subject))
            schema_id = found.schema_id
            _keep(self._latest, subject, (schema_id, self._later(LATEST_SECONDS)))
            if schema_id:
                return await self._keep_known(found)
        return await self.find(schema_id) if schema_id else None

    async def _keep_known(self, found: FoundSchema) -> KnownSchema:
        before = self._known.get(found.schema_id)
        if before is not None:
            before.subjects = frozenset(found.subjects)
            before.until = self._later(KNOWN_SECONDS)
            return before
        until = self._later(KNOWN_SECONDS)

        def compile_schema() -> KnownSchema:
            return KnownSchema(found, parse_schema(found.schema, found.references), until)

        known = await self._disk.in_background(compile_schema)
        _keep(self._known, found.schema_id, known)
        return known

    def _later(self, seconds: int) -> Instant:
        return Instant(self._clock.instant() + seconds * _NANOSECONDS)

    # --- asking -----------------------------------------------------------------------------------

    async def _ask(self, verb: FindSchema) -> FoundSchema:
        others = self._broker.others
        if others is None or self._broker.schemas.is_coordinating:
            return await self._find_here(NodeId(0), verb)
        return await others.ask(self._broker.registry_node(), verb)

    async def _find_here(self, _: NodeId, verb: FindSchema) -> FoundSchema:
        return await self._broker.schemas.look(lambda machine: _look(machine, verb))


def _look(machine: RegistryMachine, verb: FindSchema) -> FoundSchema:
    try:
        if verb.guid:
            stored: StoredSchema = machine.schema_by_identity(verb.guid)
        elif verb.subject:
            stored = machine.version(verb.subject, LATEST).stored
        else:
            stored = machine.schema(verb.schema_id)
    except SchemaError:
        return FoundSchema(0)
    uses = machine.uses(stored.schema_id)
    references = machine.resolve(stored.schema.references)
    subjects = tuple({each.subject for each in uses})
    return FoundSchema(stored.schema_id, stored.schema, references, subjects)


def _keep(cache: OrderedDict, key: object, value: object) -> None:  # type: ignore[type-arg] # of anything
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > SCHEMAS_MAX:
        cache.popitem(last=False)
