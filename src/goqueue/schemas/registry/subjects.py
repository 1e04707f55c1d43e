"""Names of subjects, their versions, and the modes they are in."""

from enum import StrEnum

import msgspec

from goqueue.schemas.errors import InvalidMode, InvalidSubject
from goqueue.schemas.limits import SUBJECT_LENGTH_MAX
from goqueue.schemas.schema import SchemaText, identity_of

DEFAULT_CONTEXT = ":.:"


class Mode(StrEnum):
    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"  # schemas come with their ids and versions, from another registry


class StoredSchema(msgspec.Struct, frozen=True):
    schema_id: int
    schema: SchemaText
    identity: str
    shape: str

    @property
    def plain_identity(self) -> str:
        """That of the schema without its metadata and rules."""
        if not self.schema.extras:
            return self.identity
        return identity_of(msgspec.structs.replace(self.schema, extras=""))


class SubjectVersion(msgspec.Struct, frozen=True):
    subject: str
    version: int
    stored: StoredSchema
    is_deleted: bool = False


def read_mode(text: str) -> Mode:
    try:
        return Mode(text.upper())
    except ValueError:
        raise InvalidMode(f"{text[:50]!r} is no mode; one of {', '.join(Mode)}") from None


def subject_name(text: str) -> str:
    """Checked; one that names the default context is the same as one that names none."""
    name = text.removeprefix(DEFAULT_CONTEXT)
    if not 0 < len(name) <= SUBJECT_LENGTH_MAX:
        raise InvalidSubject(f"a subject has 1 to {SUBJECT_LENGTH_MAX} characters")
    if not name.isprintable() or name != name.strip():
        raise InvalidSubject("a subject has no control characters, and no space around it")
    return name


def context_prefix(subject: str) -> str:
    """What the names of its context begin with; that is also the context's own name in settings."""
    context = context_of(subject)
    return "" if context == "." else f":{context}:"


def context_of(subject: str) -> str:
    """`:.name:subject` is in the context `.name`; others are in the default one."""
    if subject.startswith(":."):
        return subject[1:].partition(":")[0]
    return "."
