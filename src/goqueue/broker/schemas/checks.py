"""Whether records are what the schemas of their topic say, before they are appended.

    off     nothing is looked at
    id      key or value name a schema that is registered under the topic's subject
    full    and the payload is what that schema describes

What names no schema is checked, in full mode, against the subject's latest version.  What is null
passes: a null value deletes a key.  `rules.py` has how data names its schema.

Records of a batch mostly have one schema.  In id mode a batch is walked for the first bytes of its
values only, and no record is built; in full mode the schema is looked up when it changes.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from goqueue.broker.schemas.directory import KnownSchema, SchemaDirectory
from goqueue.broker.schemas.rules import (
    ID_BYTES,
    Named,
    Rule,
    read_named,
    read_prefix,
    rules_of,
    subject_of,
)
from goqueue.broker.schemas.statistics import ValidationCounts
from goqueue.broker.storage.partition import Partition
from goqueue.model import batch as batches
from goqueue.model.batch import BatchHeader, Buffer
from goqueue.model.errors import GoQueueError
from goqueue.model.partial_batch import LeftOut
from goqueue.model.record import Record
from goqueue.model.records import PrefixRun, scan_prefixes
from goqueue.model.settings import TopicSettings
from goqueue.runtime import Clock, Disk
from goqueue.schemas import Problem, SchemaType, Validator
from goqueue.schemas.errors import SchemaViolation
from goqueue.schemas.limits import PAYLOAD_BYTES_MAX

SLICE_BYTES: Final = 64 * 1024  # of JSON, that are validated without a pause
RUNS_AT_ONCE: Final = 1_000
BAD_RECORDS_MAX: Final = 100  # of a batch that is refused, that are named

Problems = dict[int, SchemaViolation]  # by the place of a record in its batch


class ScanPrefixes(Protocol):
    def __call__(self, size: int, /, *, of_keys: bool) -> list[PrefixRun]: ...


class Verdict(msgspec.Struct, frozen=True):
    """What was found of the batches that a producer sent."""

    headers: list[BatchHeader]
    problems: dict[int, Problems]  # by the number of the batch; those that have some

    @property
    def left_out(self) -> LeftOut:
        return {number: frozenset(some) for number, some in self.problems.items()}

    def refuse(self) -> None:
        """Raises `SchemaViolation` with the records of the first batch that are at fault."""
        for problems in self.problems.values():
            first = problems[min(problems)]
            raise SchemaViolation(first.rule, sorted(problems), first.path, first.schema_id)


class SchemaChecks:
    def __init__(self, clock: Clock, disk: Disk, directory: SchemaDirectory) -> None:
        self._clock = clock
        self._in_background = disk.in_background
        self._directory = directory
        self.counts = ValidationCounts()

    async def check(self, partition: Partition, data: Buffer) -> Verdict:
        """Of what a producer sent to a topic that validates.

        All records that are at fault, where they go to the dead letters; else enough of them.
        """
        bytes_max = partition.log.settings.max_message_bytes
        # Checksums take as long as the ids of a whole batch, and are compared when it is appended:
        # here only where something is wrong, which damage may be the reason of.
        headers = batches.check_headers(list(batches.headers(data)), bytes_max)
        try:
            found = await self._check_batches(partition, data, headers)
        except GoQueueError:
            batches.check_produced(data, bytes_max)
            raise
        if found:
            batches.check_produced(data, bytes_max)
        return Verdict(headers, found)

    async def _check_batches(
        self, partition: Partition, data: Buffer, headers: list[BatchHeader]
    ) -> dict[int, Problems]:
        settings = partition.log.settings
        problems_max = None if settings.dead_letters_invalid else BAD_RECORDS_MAX
        found: dict[int, Problems] = {}
        for number, header in enumerate(headers):
            problems = await self._check_batch(partition, data, header, problems_max)
            if problems:
                found[number] = problems
                if problems_max is not None:
                    break
        return found

    async def find_problem(
        self, topic: str, settings: TopicSettings, record: Record
    ) -> SchemaViolation | None:
        run = _Run(self, topic, rules_of(settings))
        await run.check([record], 0)
        self._note(topic, 1, run)
        return run.problems.get(0)

    async def _check_batch(
        self, partition: Partition, data: Buffer, header: BatchHeader, problems_max: int | None
    ) -> Problems:
        run = _Run(self, partition.topic, rules_of(partition.log.settings))
        if run.is_full or not await run.check_prefixes(
            await self._prefix_scanner(partition, data, header)
        ):
            reader = await partition.record_reader(data, header)
            place = 0
            while not reader.is_done:
                some = reader.read()
                await run.check(some, place, problems_max)
                place += len(some)
                if problems_max is not None and len(run.problems) >= problems_max:
                    break
        self._note(partition.topic, header.count, run)
        return run.problems

    async def _prefix_scanner(
        self, partition: Partition, data: Buffer, header: BatchHeader
    ) -> ScanPrefixes:
        """Of a batch's keys or values, where they lie: a copy takes longer than the walk."""
        found = None if header.codec else batches.find_array(data)
        if found is None:
            return (await partition.record_reader(data, header)).scan_prefixes
        array, at = found
        start, end = at + header.position + batches.HEADER_BYTES, at + header.end

        def scan(size: int, *, of_keys: bool) -> list[PrefixRun]:
            delta = header.last_offset_delta
            return scan_prefixes(array, header.count, size, of_keys, delta, start, end)

        return scan

    def _note(self, topic: str, count: int, run: "_Run") -> None:
        self.counts.note(
            topic,
            records=count,
            invalid=len(run.problems),
            is_full=run.is_full,
            seconds=run.nanoseconds / 1e9,
        )

    # --- of one key or value ----------------------------------------------------------------------

    async def find_known(self, topic: str, rule: Rule, named: Named) -> "KnownSchema | str":
        """The schema, if it may be used here; else why not."""
        if named.schema_id is not None:
            known = self._directory.peek(named.schema_id)
            if known is None:
                known = await self._directory.find(named.schema_id)
        elif named.guid:
            known = await self._directory.find_by_guid(named.guid)
        else:
            return await self._find_latest(topic, rule)
        if known is None:
            return f"no schema has the id {named.guid or named.schema_id}"
        subject = subject_of(topic, rule, known, named)
        if subject not in known.subjects:  # it may have been registered just now
            known = await self._directory.find(known.schema_id, subject) or known
            if subject not in known.subjects:
                return f"schema {known.schema_id} is not registered under {subject!r}"
        return known

    async def _find_latest(self, topic: str, rule: Rule) -> KnownSchema | str:
        if not rule.is_full:
            return f"the {rule.part} names no schema; a serializer, or a header, does"
        subject = rule.subject_of_topic(topic)
        known = await self._directory.find_latest(subject)
        return known or f"the {rule.part} names no schema, and subject {subject!r} has none"

    async def validate(self, validator: Validator, payload: memoryview) -> Problem | None:
        """A large payload beside the event loop."""
        size = len(payload)
        if size > PAYLOAD_BYTES_MAX:
            return Problem("", f"{size} bytes, {PAYLOAD_BYTES_MAX} allowed where all is checked")
        if size * validator.weight <= SLICE_BYTES:
            return validator.check(payload)
        return await self._in_background(lambda: validator.check(payload))

    def instant(self) -> int:
        return self._clock.instant()

    async def pause(self) -> None:
        await self._clock.sleep(0)


class _Run:
    """The check of one batch: what was found so far, and what its last records named."""

    def __init__(self, checks: SchemaChecks, topic: str, rules: list[Rule]) -> None:
        self._checks = checks
        self._topic = topic
        self._rules = rules
        self.is_full = any(rule.is_full for rule in rules)
        self.problems: Problems = {}
        self.nanoseconds = 0
        # By part: the first bytes of the last one, and what validates others that have them.
        self._same: dict[str, tuple[bytes, Validator]] = {}

    async def check_prefixes(self, scan: ScanPrefixes) -> bool:
        """Whether each of them names a schema that may be used, in the wire format."""
        started = self._checks.instant()
        seen: set[bytes | None] = {None}
        for rule in self._rules:
            runs = scan(ID_BYTES, of_keys=rule.part == "key")
            for number, (prefix, _) in enumerate(runs, 1):
                if prefix not in seen:
                    if not await self._is_usable(rule, prefix):
                        return False
                    seen.add(prefix)
                if number % RUNS_AT_ONCE == 0:
                    await self._checks.pause()
        self.nanoseconds += self._checks.instant() - started
        return True

    async def _is_usable(self, rule: Rule, prefix: bytes | None) -> bool:
        schema_id = read_prefix(prefix)
        if schema_id is None:
            return False
        found = await self._checks.find_known(
            self._topic, rule, Named(schema_id, memoryview(b""), True)
        )
        if isinstance(found, str):
            return False
        # Which message of a Protobuf schema it is, the payload tells.
        return rule.strategy == "topic" or found.parsed.schema_type is not SchemaType.PROTOBUF

    async def check(
        self, records: Sequence[Record], first: int, problems_max: int | None = None
    ) -> None:
        """Records of the batch, from the place `first` on."""
        size, started = 0, self._checks.instant()
        for place, record in enumerate(records, first):
            for rule in self._rules:
                data = rule.data_of(record)
                if data is None:
                    continue
                same = self._same.get(rule.part)
                if same is not None and data.startswith(same[0]):
                    weight = len(data) * same[1].weight
                    size += weight
                    if weight <= SLICE_BYTES and same[1].check(memoryview(data)[ID_BYTES:]) is None:
                        continue
                else:
                    size += len(data) if rule.is_full else ID_BYTES
                problem = await self._check_one(rule, record)
                if problem is not None:
                    self.problems[place] = problem
                    break
            if problems_max is not None and len(self.problems) >= problems_max:
                break
            if size >= SLICE_BYTES:
                self.nanoseconds += self._checks.instant() - started
                await self._checks.pause()
                size, started = 0, self._checks.instant()
        self.nanoseconds += self._checks.instant() - started

    async def _check_one(self, rule: Rule, record: Record) -> SchemaViolation | None:
        named = read_named(record, rule)
        if isinstance(named, SchemaViolation):
            return named
        found = await self._checks.find_known(self._topic, rule, named)
        if isinstance(found, str):
            return SchemaViolation(found, schema_id=named.schema_id)
        if not rule.is_full:
            return None
        validator = found.validator if named.is_framed else found.bare_validator
        prefix = (rule.data_of(record) or b"")[:ID_BYTES]
        if rule.strategy == "topic" and read_prefix(prefix) == found.schema_id:
            self._same[rule.part] = prefix, validator
        problem = await self._checks.validate(validator, named.payload)
        if problem is None:
            return None
        text = f"the {rule.part} is not what schema {found.schema_id} describes, at {problem}"
        return SchemaViolation(text, path=problem.path, schema_id=found.schema_id)
