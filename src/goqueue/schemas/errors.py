"""Refusals of the schema registry; each has the number that Confluent's clients know it by."""

from typing import ClassVar

from goqueue.model.errors import GoQueueError, InvalidRecords


class SchemaError(GoQueueError):
    """`registry_code` is `error_code` in Confluent's API; its first three digits are the status."""

    code = "schema_error"
    registry_code: ClassVar[int] = 50001


class SubjectNotFound(SchemaError):
    code = "subject_not_found"
    registry_code = 40401


class VersionNotFound(SchemaError):
    code = "schema_version_not_found"
    registry_code = 40402


class SchemaNotFound(SchemaError):
    code = "schema_not_found"
    registry_code = 40403


class SubjectSoftDeleted(SchemaError):
    """Deleted, and not permanently: what asks for it without `deleted=true` does not find it."""

    code = "subject_soft_deleted"
    registry_code = 40404


class SubjectNotSoftDeleted(SchemaError):
    """A permanent delete comes after a soft one."""

    code = "subject_not_soft_deleted"
    registry_code = 40405


class VersionSoftDeleted(SchemaError):
    code = "schema_version_soft_deleted"
    registry_code = 40406


class VersionNotSoftDeleted(SchemaError):
    code = "schema_version_not_soft_deleted"
    registry_code = 40407


class CompatibilityNotConfigured(SchemaError):
    """The subject has no level of its own; `defaultToGlobal=true` gives the global one."""

    code = "compatibility_not_configured"
    registry_code = 40408


class ModeNotConfigured(SchemaError):
    code = "mode_not_configured"
    registry_code = 40409


class IncompatibleSchema(SchemaError):
    """The schema breaks the subject's compatibility level; `problems` say where and why."""

    code = "incompatible_schema"
    registry_code = 409

    def __init__(self, text: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems


class InvalidSchema(SchemaError):
    code = "invalid_schema"
    registry_code = 42201


class InvalidVersion(SchemaError):
    code = "invalid_schema_version"
    registry_code = 42202


class InvalidCompatibility(SchemaError):
    code = "invalid_compatibility"
    registry_code = 42203


class InvalidMode(SchemaError):
    code = "invalid_schema_mode"
    registry_code = 42204


class OperationNotPermitted(SchemaError):
    """The subject's mode says no: READONLY, say."""

    code = "schema_operation_not_permitted"
    registry_code = 42205


class ReferenceExists(SchemaError):
    """Other schemas refer to the version."""

    code = "schema_reference_exists"
    registry_code = 42206


class InvalidSubject(SchemaError):
    code = "invalid_subject"
    registry_code = 42208


class RegistryChanged(SchemaError):
    """The subject changed while a schema was compared with its versions: it is decided again."""

    code = "registry_changed"
    registry_code = 50002
    retriable = True


class SchemaViolation(InvalidRecords):
    """Records that are not what the schema of their topic says; `path` is where, in the first."""

    code = "schema_violation"

    def __init__(
        self,
        rule: str,
        indexes: list[int] | None = None,
        path: str = "",
        schema_id: int | None = None,
    ) -> None:
        super().__init__(rule, indexes or [0])
        if indexes is None:  # a message that has an answer of its own
            self.args = (rule,)
        self.path = path
        self.schema_id = schema_id  # None: the record names none that is known
