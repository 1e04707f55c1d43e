"""What the registry writes to `__schemas`."""

import msgspec

from goqueue.schemas.schema import Reference, SchemaType


class SchemaRegistered(msgspec.Struct, frozen=True, tag="schema", omit_defaults=True):
    """A version of a subject.  The same schema has one id under all subjects."""

    subject: str
    version: int
    schema_id: int
    text: str
    identity: str  # SHA-256 of text, type and references
    shape: str  # the same of the normalized text
    schema_type: SchemaType = SchemaType.AVRO
    references: tuple[Reference, ...] = ()
    is_deleted: bool = False  # softly; in a snapshot
    extras: str = ""


class VersionsDeleted(msgspec.Struct, frozen=True, tag="deleted"):
    subject: str
    versions: tuple[int, ...]
    permanent: bool


class LevelSet(msgspec.Struct, frozen=True, tag="level"):
    subject: str  # "": the global one
    level: str | None  # None: unset


class ModeSet(msgspec.Struct, frozen=True, tag="mode"):
    subject: str
    mode: str | None


class LastVersion(msgspec.Struct, frozen=True, tag="last_version"):
    """A subject never uses a version again; of one whose versions are all gone, in a snapshot."""

    subject: str
    version: int


class LastId(msgspec.Struct, frozen=True, tag="last_id"):
    """Ids are never used again; in a snapshot."""

    schema_id: int


RegistryRecord = SchemaRegistered | VersionsDeleted | LevelSet | ModeSet | LastVersion | LastId

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[RegistryRecord] = msgspec.json.Decoder(RegistryRecord)


def encode(record: RegistryRecord) -> bytes:
    return _encoder.encode(record)


def decode(data: bytes) -> RegistryRecord:
    return _decoder.decode(data)
