"""Merges batches of changes into a table, one after the other, until each is in."""

from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.spark.lake.growth import plain_schema
from goqueue.spark.lake.table import LakeError, MarksMoved
from goqueue.spark.upserts.deciding import (
    GONE,
    IS_CURRENT,
    ORDER,
    VALID_FROM,
    VALID_TO,
    VERSION,
    Merge,
    decide_history,
    decide_states,
)
from goqueue.spark.upserts.merging import open_merge_table

ROUNDS_MAX: Final = 50  # each meets another job's commit
DELETED_SUFFIX: Final = "_deleted"
TIME: Final = pa.timestamp("us", "UTC")


class UpsertSettings(msgspec.Struct, frozen=True, kw_only=True):
    target: str
    """Folder or URL of the table; keys that were deleted are in a second one, `TARGET_deleted`."""
    keys: tuple[str, ...]
    format: str = "delta"
    catalog: str | None = None
    history: bool = False
    """Every change is a row, with the time from which and up to which it holds (SCD type 2)."""
    has_times: bool = False
    """Versions are times in microseconds."""


class Merged(msgspec.Struct, frozen=True):
    """What a batch did."""

    upserts: int = 0
    deletes: int = 0


class Upserter:
    def __init__(self, settings: UpsertSettings) -> None:
        self._settings = settings
        where, catalog = settings.target.rstrip("/"), settings.catalog
        self._rows = open_merge_table(settings.format, where, catalog)
        self._deleted = open_merge_table(settings.format, where + DELETED_SUFFIX, catalog)

    def merge(self, changes: Any) -> Merged:
        """Changes as a pyarrow.Table; raises `LakeError` for those without a key or version."""
        changes = changes.cast(plain_schema(changes.schema))
        self._check(changes)
        if not changes.num_rows:
            return Merged()
        done = Merged()
        for _ in range(ROUNDS_MAX):
            try:
                merged, is_settled = self._merge_once(changes)
            except MarksMoved:
                continue  # decided again, from what is there now
            done = Merged(done.upserts + merged.upserts, done.deletes + merged.deletes)
            if is_settled:
                return done
        raise LakeError(
            f"{self._settings.target}: a batch was begun {ROUNDS_MAX} times and never committed:"
            " does another job write to this table?"
        )

    def _merge_once(self, changes: Any) -> tuple[Merged, bool]:
        """What was done, and whether that was all."""
        if self._settings.history:
            return self._merge_history(changes), True
        return self._merge_states(changes)

    def _merge_states(self, changes: Any) -> tuple[Merged, bool]:
        """Marks of deleted keys in one round, rows in the next.

        No commit spans two tables.  So each side looks at the other table after its own commit:
        of two jobs that delete and write a key at the same time, one sees what the other did.
        """
        keys = list(self._settings.keys)
        schema = pa.schema([each for each in changes.schema if each.name != GONE])
        marks = pa.schema([schema.field(each) for each in (*keys, *ORDER)])
        existing, deleted = (
            self._rows.rows_with(changes, keys),
            self._deleted.rows_with(changes, keys),
        )
        merge = decide_states(
            changes,
            marks.empty_table() if existing is None else existing.select(marks.names),
            marks.empty_table() if deleted is None else deleted,
            keys,
        )
        if merge.marks.num_rows:
            if deleted is None:
                self._deleted.ensure(marks)
                raise MarksMoved("there is a table of deleted keys now")
            self._deleted.merge(Merge(merge.marks, merge.marks.slice(0, 0)), keys)
            return Merged(0, merge.marks.num_rows), False
        self._write(Merge(merge.upserts, merge.deletes), schema, keys, existing)
        is_settled = not merge.upserts.num_rows or not self._deleted.has_moved()
        return Merged(merge.upserts.num_rows), is_settled

    def _merge_history(self, changes: Any) -> Merged:
        keys = list(self._settings.keys)
        kind = TIME if self._settings.has_times else pa.int64()
        more = [pa.field(VALID_FROM, kind), pa.field(VALID_TO, kind)]
        schema = pa.schema([*changes.schema, *more, pa.field(IS_CURRENT, pa.bool_())])
        existing = self._rows.rows_with(changes, keys)
        rows = schema.empty_table() if existing is None else existing
        merge = decide_history(changes, _set_type(rows, pa.int64()), keys)
        upserts = _set_type(merge.upserts, kind)
        self._write(Merge(upserts, merge.deletes), schema, [*keys, *ORDER], existing)
        return Merged(upserts.num_rows, int(pc.sum(upserts.column(GONE)).as_py() or 0))

    def _write(self, merge: Merge, schema: Any, on: list[str], existing: Any) -> None:
        """The columns first, in a commit of their own; then the rows, by what was read before."""
        if not merge.upserts.num_rows and not merge.deletes.num_rows:
            return
        if existing is None or set(schema.names) - set(existing.column_names):
            self._rows.ensure(schema)
            raise MarksMoved("the table has more columns now")
        self._rows.merge(merge, on)

    def _check(self, changes: Any) -> None:
        for name in (*self._settings.keys, VERSION):
            count = changes.column(name).null_count
            if count:
                what = "version" if name == VERSION else f"key {name!r}"
                raise LakeError(
                    f"{self._settings.target}: {count} changes have no {what}: leave them out in a"
                    " step, or set it"
                )


def _set_type(rows: Any, kind: Any) -> Any:
    """The two times in another type."""
    for name in (VALID_FROM, VALID_TO):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, rows.column(place).cast(kind))
    return rows
