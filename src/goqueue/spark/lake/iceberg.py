"""An Iceberg table, through pyiceberg and a catalog in one SQLite file beside the tables.

    lake/catalog.db          the catalog: namespace `goqueue`, a table for each folder
    lake/orders/data/…       files of tasks, in the table or not
    lake/orders/metadata/…   Iceberg's own

Marks are table properties (`goqueue.mark.NAME`), set in the same metadata file that adds the
snapshot: they cost no walk over snapshots, and outlive those that expire.  The catalog swaps the
metadata in only if nobody else has meanwhile.  pyiceberg would then try again by itself, without
another look at the marks: `commit.retry.num-retries` 0 says no.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform

from goqueue.spark.lake.growth import plain_schema, widen
from goqueue.spark.lake.table import (
    NO_DATE,
    DataFile,
    LakeError,
    LakeFile,
    MarksMoved,
    Placement,
    check_marks,
    check_present,
)

CATALOG: Final = "catalog.db"
NAMESPACE: Final = "goqueue"
MARK: Final = "goqueue.mark."
PROPERTIES: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class IcebergLakeTable:
    def __init__(self, folder: Path, *, date_column: str | None, time_column: str | None) -> None:
        self._folder = folder.absolute()
        self._date_column, self._time_column = date_column, time_column
        self._name = (NAMESPACE, folder.name)
        self._opened: SqlCatalog | None = None

    @property
    def location(self) -> str:
        return str(self._folder)

    def placement(self) -> Placement:
        return Placement(self.location, "data", self._date_column, self._time_column)

    def schema(self) -> Any:
        table = self._table()
        return None if table is None else _arrow(table)

    def marks(self, names: Iterable[str]) -> dict[str, int]:
        table = self._table()
        return {} if table is None else _marks(table, names)

    def ensure(self, schema: Any) -> None:
        table = self._table() or self._make(schema)
        wider = widen(_arrow(table), schema)
        if not wider.equals(_arrow(table)):
            with _detect_conflict(self.location), table.update_schema() as update:
                update.union_by_name(wider)

    def commit(
        self, files: Sequence[DataFile], marks: Mapping[str, int], since: Mapping[str, int]
    ) -> None:
        table = self._present()
        check_marks(marks, since, _marks(table, marks))
        check_present(self._folder, files)
        with _detect_conflict(self.location), table.transaction() as transaction:
            transaction.set_properties({f"{MARK}{name}": str(at) for name, at in marks.items()})
            transaction.add_files([self._uri(each) for each in files], check_duplicate_files=False)

    def files(self) -> list[LakeFile]:
        table = self._table()
        if table is None:
            return []
        found = []
        for task in table.scan().plan_files():
            if task.delete_files:
                raise LakeError(f"{self.location} has delete files, which are not understood here")
            path = os.path.relpath(task.file.file_path.removeprefix("file://"), self._folder)
            found.append(LakeFile(path, self._date(task.file), task.file.file_size_in_bytes))
        return sorted(found, key=lambda each: each.path)

    def replace(self, old: Sequence[LakeFile], new: Sequence[DataFile]) -> None:
        table = self._present()
        check_present(self._folder, new)
        gone = {self._uri(each) for each in old}
        before = [each.file for each in table.scan().plan_files() if each.file.file_path in gone]
        if len(before) != len(gone):
            raise LakeError(f"{self.location}: a file to be replaced is gone; compact again")
        with _detect_conflict(self.location), table.transaction() as transaction:
            metadata = transaction.table_metadata
            with transaction.update_snapshot().overwrite() as snapshot:
                for each in before:
                    snapshot.delete_data_file(each)
                for file in new:
                    snapshot.append_data_file(
                        parquet_file_to_data_file(table.io, metadata, self._uri(file))
                    )

    def vacuum(self, *, hours: float, dry_run: bool) -> list[str]:
        table = self._table()
        if table is None:
            return []
        limit = datetime.now(UTC) - timedelta(hours=hours)
        if not dry_run:
            table.maintenance.expire_snapshots().older_than(limit).commit()
            table = self._present()
        garbage = [
            path
            for path in sorted(self._folder.rglob("*"))
            if path.is_file() and path.stat().st_mtime < limit.timestamp()
        ]
        referenced = _list_referenced(table)
        garbage = [path for path in garbage if str(path) not in referenced]
        if not dry_run:
            for path in garbage:
                path.unlink(missing_ok=True)
        return [str(path.relative_to(self._folder)) for path in garbage]

    def _catalog(self) -> SqlCatalog:
        if self._opened is None:
            home = self._folder.parent
            home.mkdir(parents=True, exist_ok=True)
            self._opened = SqlCatalog(
                "goqueue", uri=f"sqlite:///{home / CATALOG}", warehouse=f"file://{home}"
            )
        return self._opened

    def _table(self) -> Table | None:
        try:
            return self._catalog().load_table(self._name)
        except NoSuchTableError:
            return None

    def _present(self) -> Table:
        table = self._table()
        assert table is not None, "ensure() comes first"
        return table

    def _make(self, schema: Any) -> Table:
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(NAMESPACE)
        with (
            contextlib.suppress(TableAlreadyExistsError),
            catalog.create_table_transaction(
                self._name, schema, location=f"file://{self._folder}", properties=PROPERTIES
            ) as transaction,
        ):
            if self._date_column is not None:
                assert self._time_column is not None, "days come from a time"
                with transaction.update_spec() as spec:
                    spec.add_field(self._time_column, DayTransform(), self._date_column)
        return self._present()

    def _uri(self, file: LakeFile) -> str:
        return f"file://{self._folder / file.path}"

    def _date(self, file: Any) -> str | None:
        if self._date_column is None:
            return None
        day = file.partition[0]
        return NO_DATE if day is None else (EPOCH + timedelta(days=day)).date().isoformat()


def _arrow(table: Table) -> Any:
    return plain_schema(schema_to_pyarrow(table.schema()))


def _marks(table: Table, names: Iterable[str]) -> dict[str, int]:
    properties = table.properties
    return {name: int(properties[MARK + name]) for name in names if MARK + name in properties}


@contextlib.contextmanager
def _detect_conflict(location: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedException as error:
        raise MarksMoved(f"{location}: {error}") from error


def _list_referenced(table: Table) -> set[str]:
    """Every file that some snapshot, or the metadata itself, still needs."""
    uris = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        uris.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            uris.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            uris.update(entry.data_file.file_path for entry in entries)
    return {each.removeprefix("file://") for each in uris}
