"""Tables that rows are merged into by key, each batch in one commit.

`rows_with` reads, and `merge` commits only if nobody else has meanwhile: `MarksMoved` says so, and
what is to be written is decided again.
"""

import warnings
from collections.abc import Sequence
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from goqueue.spark.lake import delta, iceberg
from goqueue.spark.lake.delta import DeltaLakeTable
from goqueue.spark.lake.growth import plain_schema
from goqueue.spark.lake.iceberg import IcebergLakeTable
from goqueue.spark.lake.roots import normalize
from goqueue.spark.upserts.deciding import Merge

FLAG: Final = "goqueue_gone"  # of the rows that a merge is given, and of none that it writes


class MergeTable(Protocol):
    @property
    def location(self) -> str: ...

    def schema(self) -> Any: ...

    def ensure(self, schema: Any) -> None: ...

    def rows_with(self, keys: Any, names: Sequence[str]) -> Any:
        """Rows that have one of these keys, and maybe others; None when there is no table."""

    def merge(self, merge: Merge, on: Sequence[str]) -> None:
        """Put rows in the place of those with the same columns `on`, and delete others."""

    def has_moved(self) -> bool:
        """Whether somebody has committed since `rows_with`."""


def open_merge_table(format: str, root: str, catalog: str | None) -> MergeTable:
    where = normalize(root)
    if format == "iceberg":
        return IcebergMergeTable(where, date_column=None, time_column=None, catalog=catalog)
    return DeltaMergeTable(where, date_column=None, time_column=None)


class DeltaMergeTable(DeltaLakeTable):
    def rows_with(self, keys: Any, names: Sequence[str]) -> Any:
        table = self._table()
        if table is None:
            return None
        wanted = pc.field(names[0]).isin(pc.unique(keys.column(names[0])))
        rows = table.to_pyarrow_dataset().to_table(filter=wanted)
        return rows.cast(plain_schema(rows.schema))

    def has_moved(self) -> bool:
        before = None if self._known is None else self._known.version()
        table = self._table()
        return table is not None and table.version() != before

    def merge(self, merge: Merge, on: Sequence[str]) -> None:
        # The table as it was read: delta-rs looks for rivals among the commits after that.
        table = self._known
        assert table is not None, "rows_with() or ensure() comes first"
        names = merge.upserts.column_names
        source = pa.concat_tables(
            [_add_flag(merge.upserts, False), _add_flag(merge.deletes, True)],
            promote_options="default",
        )
        columns = {_quote(each): f"s.{_quote(each)}" for each in names}
        with delta.detect_conflict(self.location):
            (
                table.merge(
                    source,
                    " and ".join(f"t.{_quote(each)} = s.{_quote(each)}" for each in on),
                    source_alias="s",
                    target_alias="t",
                )
                .when_matched_delete(f"s.{FLAG}")
                .when_matched_update(columns)
                .when_not_matched_insert(columns, f"not s.{FLAG}")
                .execute()
            )


class IcebergMergeTable(IcebergLakeTable):
    def rows_with(self, keys: Any, names: Sequence[str]) -> Any:
        from pyiceberg.expressions import In, Reference

        self._read = self._table()
        if self._read is None:
            return None
        values = pc.unique(keys.column(names[0])).to_pylist()
        wanted = In(Reference(names[0]), values)  # type: ignore[call-arg]
        rows = self._read.scan(row_filter=wanted).to_arrow()
        return rows.cast(plain_schema(rows.schema))

    def has_moved(self) -> bool:
        before = None if self._read is None else self._read.metadata_location
        table = self._table()
        return table is not None and table.metadata_location != before

    def merge(self, merge: Merge, on: Sequence[str]) -> None:
        from pyiceberg.table.upsert_util import create_match_filter

        table = self._read if self._read is not None else self._present()
        touched = pa.concat_tables([merge.upserts.select(on), merge.deletes.select(on)])
        with iceberg.detect_conflict(self.location), table.transaction() as transaction:
            if table.current_snapshot() is not None:
                with warnings.catch_warnings():  # that there was nothing to delete
                    warnings.simplefilter("ignore", UserWarning)
                    transaction.delete(create_match_filter(touched, list(on)))
            if merge.upserts.num_rows:
                transaction.append(merge.upserts)


def _add_flag(rows: Any, is_gone: bool) -> Any:
    return rows.append_column(FLAG, pa.repeat(pa.scalar(is_gone), rows.num_rows))


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
