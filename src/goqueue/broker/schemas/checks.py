"""Whether records are what the schemas of their topic say, before they are appended.

    off     nothing is looked at
    id      the value names a schema that is registered under the topic's subject
    full    and its payload is what that schema describes

A value names its schema in Confluent's wire format (a zero byte, four bytes of the id), or in the
header `schema-id`; one that names none is checked, in full mode, against the subject's latest
version.  A value that is null passes: it deletes a key.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from goqueue.broker.schemas.directory import KnownSchema, SchemaDirectory
from goqueue.broker.storage.partition import Partition
from goqueue.model import batch as batches
from goqueue.model.batch import Buffer
from goqueue.model.record import Record
from goqueue.model.settings import TopicSettings
from goqueue.runtime import Clock
from goqueue.schemas import SchemaType
from goqueue.schemas.errors import SchemaViolation

HEADER: Final = "schema-id"
ID_BYTES: Final = 5  # with the magic byte
SLICE_BYTES: Final = 64 * 1024  # that are validated without a pause
BAD_RECORDS_MAX: Final = 100  # of a batch, that are named
TOPICS_COUNTED_MAX: Final = 500


class Named(msgspec.Struct, frozen=True):
    """The schema that a value names; None for none, and then the payload is the whole value."""

    schema_id: int | None
    payload: memoryview
    has_prefix: bool  # the wire format's


class SchemaChecks:
    def __init__(self, clock: Clock, directory: SchemaDirectory) -> None:
        self._clock = clock
        self._directory = directory
        self.valid: Counter[str] = Counter()  # records by topic
        self.invalid: Counter[str] = Counter()
        self.seconds = 0.0

    async def check(self, partition: Partition, data: Buffer) -> None:
        """Of a topic that validates: raises `SchemaViolation` with the records at fault."""
        settings = partition.log.settings
        if not settings.validates:
            return
        for header in batches.check_produced(data, settings.max_message_bytes):
            index = 0
            problems: list[tuple[int, SchemaViolation]] = []
            for some in batches.decode_slices(data, header):
                problems += await self._find_problems(partition.topic, settings, some, index)
                index += len(some)
                if len(problems) >= BAD_RECORDS_MAX:
                    break
            if problems:
                first = problems[0][1]
                indexes = [each for each, _ in problems[:BAD_RECORDS_MAX]]
                raise SchemaViolation(first.rule, indexes, first.path)

    async def find_problem(
        self, topic: str, settings: TopicSettings, record: Record
    ) -> SchemaViolation | None:
        found = await self._find_problems(topic, settings, (record,), 0)
        return found[0][1] if found else None

    async def _find_problems(
        self, topic: str, settings: TopicSettings, records: Iterable[Record], index: int
    ) -> list[tuple[int, SchemaViolation]]:
        problems: list[tuple[int, SchemaViolation]] = []
        size, started = 0, self._clock.instant()
        count = 0
        is_full = settings.goqueue_schema_validation == "full"
        same: tuple[bytes, _Check] | None = None  # what values with this prefix need
        for count, record in enumerate(records, 1):
            if record.value is None:
                continue
            size += len(record.value) if is_full else ID_BYTES
            if same is not None and record.value[:ID_BYTES] == same[0]:
                problem = same[1].find_problem(memoryview(record.value)[ID_BYTES:])
            else:
                problem = await self._check_value(topic, settings, record)
                same = self._note_same(topic, settings, record.value)
            if problem is not None:
                problems.append((index + count - 1, problem))
                if len(problems) >= BAD_RECORDS_MAX:
                    break
            if size >= SLICE_BYTES:
                self.seconds += (self._clock.instant() - started) / 1e9
                await self._clock.sleep(0)
                size, started = 0, self._clock.instant()
        self.seconds += (self._clock.instant() - started) / 1e9
        self._count(topic, count, len(problems))
        return problems

    def _note_same(
        self, topic: str, settings: TopicSettings, value: bytes
    ) -> "tuple[bytes, _Check] | None":
        """Records of a batch mostly have the same schema: it is looked up once."""
        prefix = value[:ID_BYTES]
        if settings.goqueue_schema_subject != "topic" or prefix[:1] != b"\x00":
            return None
        known = self._directory.peek(int.from_bytes(prefix[1:]))
        if len(prefix) < ID_BYTES or known is None or f"{topic}-value" not in known.subjects:
            return None
        return prefix, _Check(known, settings.goqueue_schema_validation == "full")

    async def _check_value(
        self, topic: str, settings: TopicSettings, record: Record
    ) -> SchemaViolation | None:
        named = read_named(record)
        if isinstance(named, SchemaViolation):
            return named
        if named.schema_id is None:
            return await self._check_latest(topic, settings, named)
        known = self._directory.peek(named.schema_id)
        if known is None:
            known = await self._directory.find(named.schema_id)
        if known is None:
            return _violation(f"no schema has the id {named.schema_id}")
        subject = _subject(topic, settings, known, named)
        if subject not in known.subjects:  # it may have been registered just now
            known = await self._directory.find(named.schema_id, subject) or known
            if subject not in known.subjects:
                return _violation(f"schema {named.schema_id} is not registered under {subject!r}")
        if settings.goqueue_schema_validation == "id":
            return None
        return _validate(known, named)

    async def _check_latest(
        self, topic: str, settings: TopicSettings, named: Named
    ) -> SchemaViolation | None:
        if settings.goqueue_schema_validation == "id":
            return _violation("the value names no schema; a serializer, or schema-id, does")
        subject = f"{topic}-value"
        known = await self._directory.find_latest(subject)
        if known is None:
            return _violation(f"the value names no schema, and subject {subject!r} has none")
        return _validate(known, named)

    def _count(self, topic: str, count: int, invalid: int) -> None:
        if topic not in self.valid and len(self.valid) >= TOPICS_COUNTED_MAX:
            topic = ""
        self.valid[topic] += count - invalid
        self.invalid[topic] += invalid


class _Check:
    """Of payloads whose schema is known to be the right one."""

    def __init__(self, known: KnownSchema, is_full: bool) -> None:
        self._known = known
        self._is_full = is_full

    def find_problem(self, payload: memoryview) -> SchemaViolation | None:
        if not self._is_full:
            return None
        return _validate(self._known, Named(self._known.schema_id, payload, True))


def read_named(record: Record) -> Named | SchemaViolation:
    """What the value says of its schema; the wire format comes before the header."""
    value = record.value or b""
    if value[:1] == b"\x00" and len(value) >= ID_BYTES:
        payload = memoryview(value)[ID_BYTES:]
        return Named(int.from_bytes(value[1:ID_BYTES]), payload, True)
    for name, text in record.headers:
        if name == HEADER:
            if text is None or not text.isdigit() or len(text) > 10:
                return _violation("the header schema-id is no number")
            return Named(int(text), memoryview(value), False)
    return Named(None, memoryview(value), False)


def _subject(topic: str, settings: TopicSettings, known: KnownSchema, named: Named) -> str:
    """The name under which the schema must be registered."""
    strategy = settings.goqueue_schema_subject
    if strategy == "topic":
        return f"{topic}-value"
    indexes: list[int] = []
    if known.parsed.schema_type is SchemaType.PROTOBUF and named.has_prefix:
        from goqueue.schemas.protobuf.validation import read_indexes

        found = read_indexes(named.payload)
        indexes = found[0] if found is not None else []
    name = known.record_name(indexes) or ""
    return name if strategy == "record" else f"{topic}-{name}"


def _validate(known: KnownSchema, named: Named) -> SchemaViolation | None:
    validator = known.validator if named.has_prefix else known.bare_validator
    problem = validator.check(named.payload)
    if problem is None:
        return None
    text = f"the value is not what schema {known.schema_id} describes, at {problem}"
    return _violation(text, problem.path)


def _violation(text: str, path: str = "") -> SchemaViolation:
    return SchemaViolation(text, [0], path)
