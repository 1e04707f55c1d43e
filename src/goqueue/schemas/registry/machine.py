"""The registry: which schemas there are, under which subjects, and how they may change.

A subject has versions, each with a schema; the same schema has the same id everywhere.  Ids and
versions rise and are never used again.  A version is deleted softly first: it is not listed any
more, and its id still answers, for there may be data with it.  After that it can be deleted
permanently.

Whether a schema is compatible is found out before, for it takes time, and with the versions that
there were then: `register` refuses with `RegistryChanged` when they have changed meanwhile.
"""

from goqueue.model.ids import Timestamp
from goqueue.model.machine import Decision
from goqueue.schemas.compatibility import Level
from goqueue.schemas.errors import (
    OperationNotPermitted,
    ReferenceExists,
    RegistryChanged,
    SubjectNotSoftDeleted,
    SubjectSoftDeleted,
    VersionNotSoftDeleted,
    VersionSoftDeleted,
)
from goqueue.schemas.registry.records import (
    LevelSet,
    ModeSet,
    RegistryRecord,
    SchemaRegistered,
    VersionsDeleted,
    decode,
    encode,
)
from goqueue.schemas.registry.state import GLOBAL, LATEST, RegistryState
from goqueue.schemas.registry.subjects import (
    Mode,
    StoredSchema,
    SubjectVersion,
    context_prefix,
)
from goqueue.schemas.schema import SchemaText


class RegistryMachine(RegistryState):
    # --- registering ------------------------------------------------------------------------------

    def register(
        self,
        subject: str,
        schema: SchemaText,
        *,
        identity: str,
        shape: str,
        compared_with: int,
        schema_id: int | None = None,
        version: int | None = None,
    ) -> Decision[RegistryRecord, SubjectVersion]:
        """A version of the subject with that schema: the one that there is, or a new one.

        `compared_with` is the latest version when it was found compatible.
        """
        known = self.find(subject, identity=identity)
        if known is not None and schema_id in (None, known.stored.schema_id):
            return Decision((), known)
        self.check_writable(subject, imports=schema_id is not None)
        if schema_id is None and compared_with != self.latest_version(subject):
            raise RegistryChanged(f"subject {subject!r} changed meanwhile")
        schema_id = self._choose_id(schema_id, identity)
        version = self._choose_version(subject, version)
        record = SchemaRegistered(
            subject,
            version,
            schema_id,
            schema.text,
            identity,
            shape,
            schema.schema_type,
            schema.references,
            extras=schema.extras,
        )
        stored = StoredSchema(schema_id, schema, identity, shape)
        return Decision((record,), SubjectVersion(subject, version, stored))

    def _choose_id(self, wanted: int | None, identity: str) -> int:
        if wanted is None:
            return self._ids.get(identity) or self._last_id + 1
        taken = self._schemas.get(wanted)
        if taken is not None and taken.identity != identity:
            raise OperationNotPermitted(f"id {wanted} is another schema's")
        return wanted

    def _choose_version(self, subject: str, wanted: int | None) -> int:
        if wanted is None or wanted <= 0:
            return self._last_versions.get(subject, 0) + 1
        if wanted in self._subjects.get(subject, {}):
            raise OperationNotPermitted(f"subject {subject!r} has a version {wanted}")
        return wanted

    def check_writable(self, subject: str, *, imports: bool = False) -> None:
        mode = self.mode(subject)
        if mode in (Mode.READONLY, Mode.READONLY_OVERRIDE):
            raise OperationNotPermitted(f"subject {subject!r} is in mode {mode}")
        if imports and mode is not Mode.IMPORT:
            raise OperationNotPermitted(
                f"subject {subject!r} is not in mode IMPORT, so an id cannot be chosen"
            )
        if not imports and mode is Mode.IMPORT:
            raise OperationNotPermitted(f"subject {subject!r} is in mode IMPORT: schemas have ids")

    # --- deleting ---------------------------------------------------------------------------------

    def delete_subject(
        self, subject: str, *, permanent: bool = False
    ) -> Decision[RegistryRecord, list[int]]:
        self._check_not_read_only(subject)
        self.demand_subject(subject)
        active = [each.version for each in self._of(subject, deleted=False)]
        versions = [each.version for each in self._of(subject, deleted=True)]
        if permanent and active:
            raise SubjectNotSoftDeleted(
                f"subject {subject!r} was not deleted first before being permanently deleted"
            )
        if not permanent and not active:
            raise SubjectSoftDeleted(f"subject {subject!r} was soft deleted")
        doomed = versions if permanent else active
        self._check_unreferenced(subject, doomed)
        records: list[RegistryRecord] = [VersionsDeleted(subject, tuple(doomed), permanent)]
        if subject in self._levels:
            records.append(LevelSet(subject, None))
        if subject in self._modes:
            records.append(ModeSet(subject, None))
        return Decision(records, doomed)

    def delete_version(
        self, subject: str, version: int, *, permanent: bool = False
    ) -> Decision[RegistryRecord, int]:
        self._check_not_read_only(subject)
        found = self.version(subject, version, deleted=version != LATEST)
        if permanent and not found.is_deleted:
            raise VersionNotSoftDeleted(
                f"version {found.version} of {subject!r} was not deleted first before being"
                " permanently deleted"
            )
        if not permanent and found.is_deleted:
            raise VersionSoftDeleted(f"version {found.version} of {subject!r} was soft deleted")
        self._check_unreferenced(subject, [found.version])
        record = VersionsDeleted(subject, (found.version,), permanent)
        return Decision((record,), found.version)

    def _check_not_read_only(self, subject: str) -> None:
        mode = self.mode(subject)
        if mode in (Mode.READONLY, Mode.READONLY_OVERRIDE):
            raise OperationNotPermitted(f"subject {subject!r} is in mode {mode}")

    def _check_unreferenced(self, subject: str, versions: list[int]) -> None:
        for version in versions:
            referrers = self.referrers(subject, version)
            if referrers:
                raise ReferenceExists(
                    f"version {version} of {subject!r} is referred to by schema {referrers[0]}"
                )

    # --- configuring ------------------------------------------------------------------------------

    def set_level(self, subject: str, level: Level) -> Decision[RegistryRecord, Level]:
        return Decision((LevelSet(subject, level),), level)

    def unset_level(self, subject: str) -> Decision[RegistryRecord, Level]:
        """Gives what it was."""
        if subject == GLOBAL:
            return Decision((LevelSet(GLOBAL, Level.BACKWARD),), self.level())
        level = self.level(subject, default_to_global=False)
        return Decision((LevelSet(subject, None),), level)

    def set_mode(
        self, subject: str, mode: Mode, *, force: bool = False
    ) -> Decision[RegistryRecord, Mode]:
        if mode is Mode.IMPORT and not force and self._has_schemas(subject):
            raise OperationNotPermitted("there are schemas already; force=true imports anyway")
        return Decision((ModeSet(subject, mode),), mode)

    def _has_schemas(self, subject: str) -> bool:
        """The subject; a context, or all, where it is none."""
        if subject == GLOBAL or subject == context_prefix(subject):
            return bool(self.subjects(subject))
        return subject in self._subjects

    def unset_mode(self, subject: str) -> Decision[RegistryRecord, Mode]:
        if subject == GLOBAL:
            return Decision((ModeSet(GLOBAL, Mode.READWRITE),), self.mode())
        mode = self.mode(subject, default_to_global=False)
        return Decision((ModeSet(subject, None),), mode)

    # --- the log: nothing is pending here ---------------------------------------------------------

    def encode(self, record: RegistryRecord) -> bytes:
        return encode(record)

    def decode(self, data: bytes) -> RegistryRecord:
        return decode(data)

    def next_deadline(self) -> Timestamp | None:
        return None

    def on_deadline(self, now: Timestamp) -> Decision[RegistryRecord, None]:
        return Decision((), None)
