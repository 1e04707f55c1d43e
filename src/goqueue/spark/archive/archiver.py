"""What the driver does with a batch: let the tasks write it, then commit it, once.

Each topic has a table, and a second one (the DLQ) for rejected rows, which do not fit.  Marks of a
table say which offset of each partition it has reached, and tasks leave out rows below that.  So a
batch may be archived any number of times, by any job and split among tasks in any way: after a
crash, with a lost checkpoint, by two jobs at once.  Each row is in its table once.

    1  columns that the values need are added to the table, in a commit of their own
    2  rejected rows are committed
    3  rows are committed

Whether a row is rejected depends only on the row and the columns, and these are decided first: a
job that repeats 2 and 3 after a crash divides the rows as before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from goqueue.spark.archive.columns import (
    DATE,
    DLQ_SCHEMA,
    DLQ_SUFFIX,
    PREFIX,
    RECORD_SCHEMA,
    date_and_time,
    decoded_schema,
    is_decoded,
    value_fields,
)
from goqueue.spark.archive.plan import Kind, Plan, Report, TopicPlan
from goqueue.spark.archive.registry_values import registry_fields
from goqueue.spark.lake import LakeError, LakeTable, MarksMoved, open_table
from goqueue.spark.lake.growth import grow, widen
from goqueue.spark.lake.roots import join
from goqueue.spark.lake.store import store_of
from goqueue.spark.lake.table import DataFile
from goqueue.spark.lake.writing import WriteSettings
from goqueue.spark.source.value_plan import ValuePlan

ROUNDS_MAX: Final = 2_000  # each adds a column, a partition, or meets another job's commit

Run = Callable[[Plan], Iterable[Report]]
FindValues = Callable[[str], ValuePlan]


class ArchiveSettings(msgspec.Struct, frozen=True, kw_only=True):
    target: str
    """Folder or URL of the tables: one a topic, with its name, and one for its rejected rows."""
    format: str = "parquet"
    catalog: str | None = None
    """Of Iceberg: one that pyiceberg knows, as `prod` or `prod.namespace`."""
    decode: bool = False
    """Fields of values become columns."""
    fields: bytes | None = None
    """Columns that are known beforehand, as a serialized Arrow schema."""
    keep_value: bool = True
    """Keep the value as it is beside its columns: a replay needs it."""
    writing: WriteSettings = WriteSettings()


class TopicFacts(msgspec.Struct, frozen=True):
    """What a broker says about a topic."""

    id: str  # part of the marks: a topic that is deleted and created again starts over
    partitions: int


class Archived(msgspec.Struct, frozen=True):
    """What a batch added."""

    rows: int
    dlq: int
    files: int


class Archiver:
    """Archives batches, one after the other."""

    def __init__(
        self,
        settings: ArchiveSettings,
        facts: Callable[[str], TopicFacts],
        values: FindValues | None = None,
    ) -> None:
        """`values`: by which schema of the registry a topic's values are, now; None: by none."""
        self._settings = settings
        self._facts = facts
        self._values = values
        self._topics: dict[str, _TopicTables] = {}

    def meet(self, topics: Iterable[str]) -> None:
        """Look at the tables of topics that are known to come.  Others are met as they come."""
        for name in topics:
            if name not in self._topics:
                self._topics[name] = _TopicTables(
                    name, self._settings, self._facts(name), self._values
                )
        _check_names(self._topics)

    def archive(self, run: Run) -> Archived:
        """Have a batch written by `run`, which hands a plan to tasks and gives their reports."""
        for _ in range(ROUNDS_MAX):
            reports = list(run(self._plan()))
            try:
                if all(each.is_complete for each in reports):
                    return self._commit(reports)
                self._discard(reports)
                self._learn(reports)
            except MarksMoved:
                # What was written stays for vacuum: part of it may be committed.
                for each in self._topics.values():
                    each.look()
        raise LakeError(
            f"{self._settings.target}: a batch was begun {ROUNDS_MAX} times and never committed:"
            " does another job write to these tables?"
        )

    def positions(self) -> dict[str, dict[int, int]]:
        """For each topic met, the first offset of each partition that its table lacks."""
        return {name: dict(each.rows_from) for name, each in self._topics.items()}

    def _plan(self) -> Plan:
        return Plan(
            {name: each.plan() for name, each in self._topics.items()},
            decode=self._settings.decode,
            keep_value=self._settings.keep_value,
            writing=self._settings.writing,
        )

    def _learn(self, reports: Sequence[Report]) -> None:
        """Make the next round go further than this one."""
        strangers = sorted({each for report in reports for each in report.strangers})
        for name, partition in strangers:
            self.meet([name])
            self._topics[name].meet(partition)
        for report in reports:
            for name, schema_id in report.newer.items():
                self._topics[name].note_schema(schema_id)
        found: dict[str, list[Any]] = {}
        for report in reports:
            for name, schema in report.found:
                found.setdefault(name, []).append(pa.ipc.read_schema(pa.py_buffer(schema)))
        for name, schemas in found.items():
            self._topics[name].grow(schemas)

    def _commit(self, reports: Sequence[Report]) -> Archived:
        totals: dict[Kind, int] = {"rows": 0, "dlq": 0}
        kinds: tuple[Kind, ...] = ("dlq", "rows")
        count = 0
        for name in sorted({name for report in reports for name in report.ends}):
            ends = _ends(reports, name)
            for kind in kinds:
                files = list(_files(reports, name, kind))
                if files:
                    self._topics[name].commit(kind, files, ends)
                    totals[kind] += sum(each.rows for each in files)
                    count += len(files)
        return Archived(totals["rows"], totals["dlq"], count)

    def _discard(self, reports: Sequence[Report]) -> None:
        for report in reports:
            for name, kind, file in report.files:
                store_of(self._topics[name].tables[kind].location).delete(file.path)


class _TopicTables:
    """The two tables of a topic and how far they are."""

    def __init__(
        self,
        name: str,
        settings: ArchiveSettings,
        facts: TopicFacts,
        find_values: FindValues | None = None,
    ) -> None:
        self._name, self._settings, self._id = name, settings, facts.id
        self._find_values = find_values
        self._values: ValuePlan | None = None
        self._newest_id = -1
        self._partitions = set(range(facts.partitions))
        date, time = date_and_time(decoded=settings.decode)
        self.tables: dict[Kind, LakeTable] = {
            "rows": open_table(
                settings.format,
                join(settings.target, name),
                date_column=date,
                time_column=time,
                catalog=settings.catalog,
            ),
            "dlq": open_table(
                settings.format,
                join(settings.target, f"{name}{DLQ_SUFFIX}"),
                date_column=DATE,
                time_column="timestamp",
                catalog=settings.catalog,
            ),
        }
        self.look()

    def look(self) -> None:
        """At the tables as they are now, and the schema of the values."""
        if self._find_values is not None:
            self._values = self._find_values(self._name)
            self._newest_id = max(self._newest_id, self._values.subject.id)
        known = self.tables["rows"].schema()
        if known is None:
            self._schema = self._build_initial_schema()
        else:
            self._check_kind(known)
            self._schema = widen(known, self._build_initial_schema())
        names = {self._mark(each): each for each in self._partitions}
        self._marks = {kind: each.marks(names) for kind, each in self.tables.items()}

    @property
    def rows_from(self) -> dict[int, int]:
        return self._from("rows")

    def meet(self, partition: int) -> None:
        self._partitions.add(partition)
        name = self._mark(partition)
        for kind, table in self.tables.items():
            self._marks[kind].update(table.marks([name]))

    def grow(self, found: Sequence[Any]) -> None:
        """Add the columns that tasks have found."""
        known = value_fields(self._schema)
        fields = grow(known, found, reserved_prefix=PREFIX).schema
        if fields.equals(known):  # together they cannot be columns: take what the first one saw
            fields = grow(known, found[:1], reserved_prefix=PREFIX).schema
        assert not fields.equals(known), "a task reports only what can be a column"
        wanted = decoded_schema(fields, keep_value=self._settings.keep_value)
        self.tables["rows"].ensure(wanted)
        self._schema = self.tables["rows"].schema()

    def note_schema(self, schema_id: int) -> None:
        """A task has met one that is newer than those that were known."""
        self._newest_id = max(self._newest_id, schema_id)
        self.look()
        self.tables["rows"].ensure(self._schema)

    def plan(self) -> TopicPlan:
        return TopicPlan(
            rows=self.tables["rows"].placement(),
            dlq=self.tables["dlq"].placement(),
            schema=self._schema.serialize().to_pybytes(),
            rows_from=self._from("rows"),
            dlq_from=self._from("dlq"),
            values=self._values,
            newest_id=self._newest_id,
        )

    def commit(self, kind: Kind, files: Sequence[DataFile], ends: Mapping[int, int]) -> None:
        table = self.tables[kind]
        table.ensure(self._schema if kind == "rows" else DLQ_SCHEMA)
        since = self._marks[kind]
        marks = {self._mark(each): end for each, end in ends.items()}
        marks = {name: end for name, end in marks.items() if end > since.get(name, 0)}
        table.commit(files, marks, since)
        self._marks[kind] = {**since, **marks}

    def _from(self, kind: Kind) -> dict[int, int]:
        marks = self._marks[kind]
        return {each: marks.get(self._mark(each), 0) for each in sorted(self._partitions)}

    def _mark(self, partition: int) -> str:
        return f"{self._id}/{partition}"

    def _build_initial_schema(self) -> Any:
        """The schema that is known before any row is seen."""
        if not self._settings.decode:
            return RECORD_SCHEMA
        if self._values is not None:
            fields = registry_fields(self._values, reserved_prefix=PREFIX)
            return decoded_schema(fields, keep_value=self._settings.keep_value)
        fields = self._settings.fields
        known = [] if fields is None else pa.ipc.read_schema(pa.py_buffer(fields))
        return decoded_schema(known, keep_value=self._settings.keep_value)

    def _check_kind(self, schema: Any) -> None:
        where = self.tables["rows"].location
        if is_decoded(schema) != self._settings.decode:
            kind = "decoded values" if is_decoded(schema) else "records as they are"
            raise LakeError(f"{where} holds {kind}: archive into another folder, or as before")
        kept = f"{PREFIX}value" in schema.names
        if self._settings.decode and kept != self._settings.keep_value:
            raise LakeError(
                f"{where} was begun {'with' if kept else 'without'} keeping values:"
                " go on as before, or archive into another folder"
            )


def _ends(reports: Sequence[Report], topic: str) -> dict[int, int]:
    ends: dict[int, int] = {}
    for report in reports:
        for partition, end in report.ends.get(topic, {}).items():
            ends[partition] = max(end, ends.get(partition, 0))
    return ends


def _files(reports: Sequence[Report], topic: str, kind: Kind) -> Iterator[DataFile]:
    for report in reports:
        for name, each, file in report.files:
            if (name, each) == (topic, kind):
                yield file


def _check_names(topics: Iterable[str]) -> None:
    names = set(topics)
    for each in sorted(names):
        if f"{each}{DLQ_SUFFIX}" in names:
            raise LakeError(
                f"topic {each + DLQ_SUFFIX!r} would share a table with rejected rows of"
                f" {each!r}: archive it into another folder"
            )
