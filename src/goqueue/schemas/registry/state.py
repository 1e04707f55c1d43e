"""What the registry holds: schemas by id, subjects with their versions, levels and modes.

Only `apply` changes it.  What it keeps is what `snapshot` writes down.
"""

import itertools
from collections.abc import Generator, Iterable

from goqueue.schemas.compatibility import Level
from goqueue.schemas.errors import (
    CompatibilityNotConfigured,
    InvalidSchema,
    ModeNotConfigured,
    SchemaNotFound,
    SubjectNotFound,
    VersionNotFound,
)
from goqueue.schemas.limits import REFERENCES_MAX
from goqueue.schemas.registry.records import (
    LastId,
    LastVersion,
    LevelSet,
    ModeSet,
    RegistryRecord,
    SchemaRegistered,
    VersionsDeleted,
)
from goqueue.schemas.registry.subjects import (
    Mode,
    StoredSchema,
    SubjectVersion,
    context_prefix,
)
from goqueue.schemas.schema import Reference, SchemaText, SchemaType

GLOBAL = ""
LATEST = -1


class RegistryState:
    def __init__(self) -> None:
        self._schemas: dict[int, StoredSchema] = {}
        self._ids: dict[str, int] = {}  # by identity
        self._subjects: dict[str, dict[int, SubjectVersion]] = {}
        self._last_versions: dict[str, int] = {}  # of each subject that there ever was
        self._last_id = 0
        self._levels: dict[str, Level] = {GLOBAL: Level.BACKWARD}
        self._modes: dict[str, Mode] = {GLOBAL: Mode.READWRITE}

    # --- looking ----------------------------------------------------------------------------------

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        return sorted(
            name
            for name, versions in self._subjects.items()
            if name.startswith(prefix)
            and (deleted or not all(each.is_deleted for each in versions.values()))
        )

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Raises `SubjectNotFound` if there are none."""
        found = [each.version for each in self._of(subject, deleted=deleted)]
        if not found:
            raise _no_subject(subject)
        return found

    def version(self, subject: str, version: int, *, deleted: bool = False) -> SubjectVersion:
        """`LATEST` is the newest that is not deleted."""
        versions = self._of(subject, deleted=deleted)
        if not versions:
            raise _no_subject(subject)
        for each in reversed(versions):
            if version in (each.version, LATEST):
                return each
        raise VersionNotFound(f"subject {subject!r} has no version {version}")

    def schema(self, schema_id: int) -> StoredSchema:
        found = self._schemas.get(schema_id)
        if found is None:
            raise SchemaNotFound(f"no schema has the id {schema_id}")
        return found

    def schema_by_identity(self, prefix: str) -> StoredSchema:
        """By the first digits of its SHA-256, as many as a UUID has."""
        for identity, schema_id in self._ids.items():
            if identity.startswith(prefix):
                return self._schemas[schema_id]
        raise SchemaNotFound(f"no schema has the identity {prefix}")

    def uses(self, schema_id: int, *, deleted: bool = False) -> list[SubjectVersion]:
        """The versions that have this schema."""
        self.schema(schema_id)
        return [
            each
            for subject in sorted(self._subjects)
            for each in self._of(subject, deleted=deleted)
            if each.stored.schema_id == schema_id
        ]

    def find(
        self, subject: str, *, identity: str = "", shape: str = "", deleted: bool = False
    ) -> SubjectVersion | None:
        """The newest version with that schema, or with one that differs in spelling only.

        A schema without metadata and rules is the same as one that has some.
        """
        for each in reversed(self._of(subject, deleted=deleted)):
            if identity and identity in (each.stored.identity, each.stored.plain_identity):
                return each
            if shape and each.stored.shape == shape:
                return each
        return None

    def demand_subject(self, subject: str) -> None:
        if subject not in self._subjects:
            raise _no_subject(subject)

    def latest_version(self, subject: str) -> int:
        """0 for a subject without any."""
        versions = self._of(subject, deleted=False)
        return versions[-1].version if versions else 0

    def latest_extras(self, subject: str) -> str:
        versions = self._of(subject, deleted=False)
        return versions[-1].stored.schema.extras if versions else ""

    def referrers(self, subject: str, version: int) -> list[int]:
        """The ids of the schemas that refer to the version."""
        found = {
            each.stored.schema_id
            for name in self._subjects
            for each in self._of(name, deleted=False)
            if any(
                (other.subject, other.version) == (subject, version)
                for other in each.stored.schema.references
            )
        }
        return sorted(found)

    def resolve(self, references: Iterable[Reference]) -> dict[str, SchemaText]:
        """What they mean, by name; what they refer to themselves stands before them."""
        found: dict[str, SchemaText] = {}
        self._resolve(references, found, set())
        return found

    def pin(self, reference: Reference) -> Reference:
        """To the version that it means now, if it means the latest."""
        version = self.version(reference.subject, reference.version, deleted=True).version
        return Reference(reference.name, reference.subject, version)

    def _resolve(
        self, references: Iterable[Reference], found: dict[str, SchemaText], above: set[str]
    ) -> None:
        for each in references:
            if each.name in found or each.name in above:
                continue
            if len(found) + len(above) >= REFERENCES_MAX:
                raise InvalidSchema(f"the schema has more than {REFERENCES_MAX} references")
            try:
                version = self.version(each.subject, each.version, deleted=True)
            except (SubjectNotFound, VersionNotFound) as error:
                raise InvalidSchema(f"reference {each.name!r}: {error}") from error
            schema = version.stored.schema
            self._resolve(schema.references, found, {*above, each.name})
            found[each.name] = schema

    def level(self, subject: str = GLOBAL, *, default_to_global: bool = True) -> Level:
        """Its own, or that of its context, or the global one."""
        found = self._levels.get(subject)
        if found is None and not default_to_global:
            raise CompatibilityNotConfigured(f"subject {subject!r} has no level of its own")
        return found or self._levels.get(context_prefix(subject)) or self._levels[GLOBAL]

    def mode(self, subject: str = GLOBAL, *, default_to_global: bool = True) -> Mode:
        found = self._modes.get(subject)
        if found is None and not default_to_global:
            raise ModeNotConfigured(f"subject {subject!r} has no mode of its own")
        return found or self._modes.get(context_prefix(subject)) or self._modes[GLOBAL]

    def former(self, subject: str, level: Level) -> list[SubjectVersion]:
        """The versions that a new one is compared with, newest first."""
        versions = self._of(subject, deleted=False)[::-1]
        if level is Level.NONE:
            return []
        return versions if level.is_transitive else versions[:1]

    @property
    def schema_count(self) -> int:
        return len(self._schemas)

    def _of(self, subject: str, *, deleted: bool) -> list[SubjectVersion]:
        versions = self._subjects.get(subject, {})
        return [versions[n] for n in sorted(versions) if deleted or not versions[n].is_deleted]

    # --- applying ---------------------------------------------------------------------------------

    def apply(self, record: RegistryRecord) -> None:
        match record:
            case SchemaRegistered():
                self._add(record)
            case VersionsDeleted():
                self._delete(record)
            case LevelSet(subject=subject, level=None):
                self._levels.pop(subject, None)
            case LevelSet(subject=subject, level=level):
                self._levels[subject] = Level(str(level))
            case ModeSet(subject=subject, mode=None):
                self._modes.pop(subject, None)
            case ModeSet(subject=subject, mode=mode):
                self._modes[subject] = Mode(str(mode))
            case LastVersion(subject=subject, version=version):
                self._last_versions[subject] = max(version, self._last_versions.get(subject, 0))
            case LastId(schema_id=schema_id):
                self._last_id = max(self._last_id, schema_id)

    def _add(self, record: SchemaRegistered) -> None:
        kind = SchemaType(record.schema_type)
        schema = SchemaText(record.text, kind, record.references, record.extras)
        stored = self._schemas.get(record.schema_id)
        if stored is None:
            stored = StoredSchema(record.schema_id, schema, record.identity, record.shape)
            self._schemas[record.schema_id] = stored
            self._ids.setdefault(record.identity, record.schema_id)
        self._last_id = max(self._last_id, record.schema_id)
        version = SubjectVersion(record.subject, record.version, stored, record.is_deleted)
        self._subjects.setdefault(record.subject, {})[record.version] = version
        last = self._last_versions.get(record.subject, 0)
        self._last_versions[record.subject] = max(last, record.version)

    def _delete(self, record: VersionsDeleted) -> None:
        versions = self._subjects.get(record.subject, {})
        for each in record.versions:
            found = versions.pop(each, None)
            if found is None:
                continue
            if not record.permanent:
                versions[each] = SubjectVersion(found.subject, each, found.stored, True)
            else:
                self._forget(found.stored, besides=versions.values())
        if not versions:
            self._subjects.pop(record.subject, None)

    def _forget(self, stored: StoredSchema, besides: Iterable[SubjectVersion]) -> None:
        """A schema that no subject has any more."""
        others = itertools.chain(besides, *(some.values() for some in self._subjects.values()))
        if any(each.stored is stored for each in others):
            return
        self._schemas.pop(stored.schema_id, None)
        if self._ids.get(stored.identity) == stored.schema_id:
            del self._ids[stored.identity]

    # --- writing down -----------------------------------------------------------------------------

    def snapshot(self) -> Generator[RegistryRecord, None, None]:
        """What it is made of does not change, so a list of it is the state of this moment."""
        records: list[RegistryRecord] = [LastId(self._last_id)]
        records += [LevelSet(subject, level) for subject, level in self._levels.items()]
        records += [ModeSet(subject, mode) for subject, mode in self._modes.items()]
        records += [LastVersion(*each) for each in self._last_versions.items()]
        versions = [each for some in self._subjects.values() for each in some.values()]
        return _write_down(records, versions)


def _write_down(
    records: list[RegistryRecord], versions: list[SubjectVersion]
) -> Generator[RegistryRecord, None, None]:
    yield from records
    for each in versions:
        stored = each.stored
        yield SchemaRegistered(
            each.subject,
            each.version,
            stored.schema_id,
            stored.schema.text,
            stored.identity,
            stored.shape,
            stored.schema.schema_type,
            stored.schema.references,
            each.is_deleted,
            stored.schema.extras,
        )


def _no_subject(subject: str) -> SubjectNotFound:
    return SubjectNotFound(f"subject {subject!r} not found")
