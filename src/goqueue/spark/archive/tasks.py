"""What a task does with its rows: leave out what is there, decode, sort out, write, report.

Rows come in Arrow batches of records, or as what Spark has less work with: see `unpacking`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.spark.archive.columns import (
    DLQ_SCHEMA,
    PREFIX,
    RECORD_SCHEMA,
    decoded_schema,
    value_fields,
)
from goqueue.spark.archive.plan import Kind, Plan, Report, TopicPlan
from goqueue.spark.archive.registry_values import read_values
from goqueue.spark.archive.unpacking import records_of
from goqueue.spark.lake.json_values import decode
from goqueue.spark.lake.table import Placement
from goqueue.spark.lake.writing import FileSet
from goqueue.spark.runtime.garbage import freeze_gc
from goqueue.spark.source.read_plan import ReadPlan

# What dates can say, in microseconds: years 1 to 9999.  Producers may send any number.
TIME_US_MIN: Final = -62_135_596_800_000_000
TIME_US_MAX: Final = 253_402_300_799_999_999

REPORT_SCHEMA: Final = pa.schema([("report", pa.binary())])


def run(plan: Plan, read_plan: ReadPlan | None, batches: Iterable[Any]) -> Iterator[Any]:
    """For `mapInArrow`: batches of rows in, one row with the report out."""
    report = msgspec.msgpack.encode(archive(plan, batches, read_plan))
    freeze_gc()
    yield pa.RecordBatch.from_arrays([pa.array([report], pa.binary())], schema=REPORT_SCHEMA)


def archive(plan: Plan, batches: Iterable[Any], read_plan: ReadPlan | None = None) -> Report:
    """`read_plan`: how to read ranges, if that is what comes."""
    task = _Task(plan)
    try:
        for each in batches:
            for records in records_of(each, read_plan):
                task.take(records)
        return task.finish()
    except BaseException:
        task.discard()
        raise


class _Task:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._report = Report(files=[], ends={}, strangers=[], found=[], newer={})
        self._topics = {name: _Topic(name, each) for name, each in plan.topics.items()}
        placements: dict[tuple[str, Kind], Placement] = {}
        for name, each in plan.topics.items():
            placements[name, "rows"] = each.rows
            placements[name, "dlq"] = each.dlq
        self._files = FileSet(placements, plan.writing)

    def take(self, records: Any) -> None:
        """A batch of `RECORD_SCHEMA`."""
        for name, part in _by_topic(records):
            topic = self._topics.get(name)
            if self._note_places(name, topic, part) and topic is not None:
                self._take_topic(topic, part)

    def finish(self) -> Report:
        if not self._report.is_complete:
            self.discard()
            return self._report
        for (name, kind), file in self._files.finish():
            self._report.files.append((name, kind, file))
        return self._report

    def discard(self) -> None:
        self._files.discard()

    def _note_places(self, name: str, topic: "_Topic | None", records: Any) -> bool:
        """Whether all rows are from places that the plan lists."""
        known = {} if topic is None else topic.plan.rows_from
        ends = self._report.ends.setdefault(name, {})
        is_known = True
        for partition, last in _last_offsets(records):
            ends[partition] = max(ends.get(partition, 0), last + 1)
            if partition not in known:
                is_known = False
                if (name, partition) not in self._report.strangers:
                    self._report.strangers.append((name, partition))
        return is_known

    def _take_topic(self, topic: "_Topic", records: Any) -> None:
        rows, rejected = topic.without_time(records)
        if self._plan.decode:
            rows, more = self._decode(topic, rows)
            rejected += more
        if not self._report.is_complete:
            return  # there will be another round: do not write
        missing = topic.missing(rows, "rows")
        if missing.num_rows:
            self._files.write((topic.name, "rows"), missing)
        for each in rejected:
            missing = topic.missing(each, "dlq")
            if missing.num_rows:
                self._files.write((topic.name, "dlq"), missing)

    def _decode(self, topic: "_Topic", records: Any) -> tuple[Any, list[Any]]:
        if topic.plan.values is not None:
            found, newest = read_values(topic.plan.values, records, topic.fields)
            if newest > topic.plan.newest_id:
                self._report.newer[topic.name] = max(
                    newest, self._report.newer.get(topic.name, newest)
                )
        else:
            found = decode(records.column("value"), topic.fields, reserved_prefix=PREFIX)
        for schema in found.found:
            self._report.found.append((topic.name, schema.serialize().to_pybytes()))
        rejected = []
        if found.bad:
            indices, reasons = zip(*found.bad, strict=True)
            rejected.append(_to_rejected(records.take(pa.array(indices)), list(reasons)))
        return topic.table_rows(records, found, keep_value=self._plan.keep_value), rejected


class _Topic:
    """A topic's plan, ready for use."""

    def __init__(self, name: str, plan: TopicPlan) -> None:
        self.name = name
        self.plan = plan
        self._schema = pa.ipc.read_schema(pa.py_buffer(plan.schema))
        self.fields = value_fields(self._schema)
        self._from = {"rows": _Floors(plan.rows_from), "dlq": _Floors(plan.dlq_from)}

    def without_time(self, records: Any) -> tuple[Any, list[Any]]:
        """The records that have a date, and the others as rejected rows."""
        times = records.column("timestamp").cast(pa.int64())
        span = pc.min_max(times)
        lowest, highest = span["min"].as_py(), span["max"].as_py()
        if lowest is None or (lowest >= TIME_US_MIN and highest <= TIME_US_MAX):
            return records, []
        fits = pc.and_(pc.greater_equal(times, TIME_US_MIN), pc.less_equal(times, TIME_US_MAX))
        strange = records.filter(pc.invert(fits))
        reasons = [
            f"time stamp {each} us after 1970 is no date" for each in times.filter(pc.invert(fits))
        ]
        at = RECORD_SCHEMA.get_field_index("timestamp")
        nothing = pa.nulls(strange.num_rows, RECORD_SCHEMA.field(at).type)
        return records.filter(fits), [
            _to_rejected(strange.set_column(at, RECORD_SCHEMA.field(at), nothing), reasons)
        ]

    def table_rows(self, records: Any, found: Any, *, keep_value: bool) -> Any:
        """The rows that were decoded, in the columns of the table."""
        if len(found.good) < records.num_rows:
            records = records.take(pa.array(found.good, pa.int64()))
        fields = pa.concat_tables(found.columns) if found.columns else self.fields.empty_table()
        own = decoded_schema([], keep_value=keep_value).names
        columns = {name: records.column(name.removeprefix(PREFIX)) for name in own}
        columns |= {each: _whole(fields.column(each)) for each in fields.column_names}
        return pa.RecordBatch.from_arrays(
            [columns[each] for each in self._schema.names], schema=self._schema
        )

    def missing(self, rows: Any, kind: Kind) -> Any:
        """Those that the table does not have yet."""
        return self._from[kind].above(rows)


class _Floors:
    """From which offset on the rows of a partition are wanted."""

    def __init__(self, floors: dict[int, int]) -> None:
        self._highest = max(floors.values(), default=0)
        size = max(floors, default=-1) + 1
        self._floors = pa.array([floors.get(each, 0) for each in range(size)], pa.int64())

    def above(self, rows: Any) -> Any:
        prefix = "" if "offset" in rows.schema.names else PREFIX
        offsets = rows.column(f"{prefix}offset")
        if not rows.num_rows or pc.min(offsets).as_py() >= self._highest:
            return rows
        floors = self._floors.take(rows.column(f"{prefix}partition"))
        return rows.filter(pc.greater_equal(offsets, floors))


def _by_topic(records: Any) -> Iterator[tuple[str, Any]]:
    names = records.column("topic").unique().to_pylist()
    if len(names) == 1:
        yield names[0], records
        return
    for name in names:
        yield name, records.filter(pc.equal(records.column("topic"), name))


def _last_offsets(records: Any) -> Iterator[tuple[int, int]]:
    groups = pa.Table.from_batches([records.select(["partition", "offset"])])
    found = groups.group_by("partition").aggregate([("offset", "max")])
    yield from zip(
        found.column("partition").to_pylist(), found.column("offset_max").to_pylist(), strict=True
    )


def _to_rejected(records: Any, reasons: list[str]) -> Any:
    columns = [*records.columns, pa.array(reasons, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=DLQ_SCHEMA)


def _whole(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
