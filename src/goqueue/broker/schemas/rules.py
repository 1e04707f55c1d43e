"""What a topic demands of keys and values, and which schema each of them names.

A value names its schema in one of these ways, of which the first counts: Confluent's header
`__value_schema_id` (a one and the sixteen bytes of a GUID, or a zero byte and four of the id), its
wire format (a zero byte, four bytes of the id, the payload), the header `schema-id` (a number).  A
key does so in the wire format, or in the header `__key_schema_id`.
"""

from typing import Final

import msgspec

from goqueue.broker.schemas.directory import KnownSchema
from goqueue.model.record import Record
from goqueue.model.settings import TopicSettings
from goqueue.schemas import SchemaType
from goqueue.schemas.errors import SchemaViolation

HEADER: Final = "schema-id"
ID_BYTES: Final = 5  # with the magic byte
GUID_BYTES: Final = 17


class Rule(msgspec.Struct, frozen=True):
    """What is checked of all keys, or of all values."""

    part: str  # "key" or "value"
    is_full: bool  # the payload, too; else that the schema is registered under the subject
    strategy: str  # topic, record or topic_record

    def subject_of_topic(self, topic: str) -> str:
        return f"{topic}-{self.part}"

    def data_of(self, record: Record) -> bytes | None:
        return record.key if self.part == "key" else record.value


def rules_of(settings: TopicSettings) -> list[Rule]:
    """Of a topic; none where nothing is validated."""
    found = []
    if settings.goqueue_schema_key_validation != "off":
        is_full = settings.goqueue_schema_key_validation == "full"
        found.append(Rule("key", is_full, settings.goqueue_schema_key_subject))
    if settings.goqueue_schema_validation != "off":
        is_full = settings.goqueue_schema_validation == "full"
        found.append(Rule("value", is_full, settings.goqueue_schema_subject))
    return found


class Named(msgspec.Struct, frozen=True):
    """The schema that data names; None for none, and then the payload is all of the data."""

    schema_id: int | None
    payload: memoryview
    is_framed: bool  # what a serializer puts before the payload is there
    guid: str = ""  # instead of the id


def read_named(record: Record, rule: Rule) -> Named | SchemaViolation:
    """What key or value say of their schema."""
    data = rule.data_of(record) or b""
    found: Named | SchemaViolation | None = None
    for name, content in record.headers:
        if name == f"__{rule.part}_schema_id":
            return _read_header(content or b"", data)
        if name == HEADER and rule.part == "value" and found is None:
            found = _read_number(content, data)
    if (schema_id := read_prefix(data)) is not None:
        return Named(schema_id, memoryview(data)[ID_BYTES:], True)
    return found or Named(None, memoryview(data), False)


def _read_number(content: bytes | None, data: bytes) -> Named | SchemaViolation:
    if content is None or not content.isdigit() or len(content) > 10:
        return SchemaViolation("the header schema-id is no number")
    return Named(int(content), memoryview(data), False)


def read_prefix(data: bytes | None) -> int | None:
    """The id of the schema, if the data are in the wire format."""
    if data is None or len(data) < ID_BYTES or data[0]:
        return None
    return int.from_bytes(data[1:ID_BYTES])


def _read_header(content: bytes, data: bytes) -> Named | SchemaViolation:
    """Confluent's.  Behind id or GUID stand the indexes of a Protobuf message."""
    if (schema_id := read_prefix(content)) is not None:
        rest = content[ID_BYTES:]
        return Named(schema_id, memoryview(rest + data), bool(rest))
    if len(content) >= GUID_BYTES and content[0] == 1:
        rest = content[GUID_BYTES:]
        return Named(None, memoryview(rest + data), bool(rest), content[1:GUID_BYTES].hex())
    return SchemaViolation("the header with the schema's id has neither an id nor a GUID")


def subject_of(topic: str, rule: Rule, known: KnownSchema, named: Named) -> str:
    """The name under which the schema must be registered."""
    if rule.strategy == "topic":
        return rule.subject_of_topic(topic)
    indexes: list[int] = []
    if known.parsed.schema_type is SchemaType.PROTOBUF and named.is_framed:
        from goqueue.schemas.protobuf.validation import read_indexes

        found = read_indexes(named.payload)
        indexes = found[0] if found is not None else []
    name = known.record_name(indexes) or ""
    return name if rule.strategy == "record" else f"{topic}-{name}"
