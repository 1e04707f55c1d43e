"""An Iceberg table, through pyiceberg and a catalog.

    lake/catalog.db          the catalog: namespace `goqueue`, a table for each folder
    lake/orders/data/…       files of tasks, in the table or not
    lake/orders/metadata/…   Iceberg's own

Or a catalog that pyiceberg knows by its own configuration, as `prod` or, with a namespace,
`prod.raw`: REST, Hive, Glue, SQL.  In an object store there is no other.

Marks are table properties (`goqueue.mark.NAME`), set in the same metadata file that adds the
snapshot: they cost no walk over snapshots, and outlive those that expire.  The catalog swaps the
metadata in only if nobody else has meanwhile.  pyiceberg would then try again by itself, without
another look at the marks: `commit.retry.num-retries` 0 says no.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform

from goqueue.spark.lake.growth import plain_schema, widen
from goqueue.spark.lake.roots import base_name
from goqueue.spark.lake.store import s3_endpoint, store_of
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
    def __init__(
        self,
        root: str,
        *,
        date_column: str | None,
        time_column: str | None,
        catalog: str | None = None,
    ) -> None:
        self._store = store_of(root)
        self._date_column, self._time_column = date_column, time_column
        self._catalog_name, _, namespace = (catalog or "").partition(".")
        if self._store.is_remote and not catalog:
            raise LakeError(
                f"{root}: an Iceberg table in an object store needs a catalog that pyiceberg knows"
                " (~/.pyiceberg.yaml, or PYICEBERG_CATALOG__PROD__URI and others): --catalog prod"
            )
        self._namespace = namespace or NAMESPACE
        self._name = (self._namespace, base_name(root))
        self._opened: Catalog | None = None

    @property
    def location(self) -> str:
        return self._store.root

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
            with detect_conflict(self.location), table.update_schema() as update:
                update.union_by_name(wider)

    def commit(
        self, files: Sequence[DataFile], marks: Mapping[str, int], since: Mapping[str, int]
    ) -> None:
        table = self._present()
        check_marks(marks, since, _marks(table, marks))
        check_present(self._store, files)
        with detect_conflict(self.location), table.transaction() as transaction:
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
            path = self._relative(task.file.file_path)
            found.append(LakeFile(path, self._date(task.file), task.file.file_size_in_bytes))
        return sorted(found, key=lambda each: each.path)

    def replace(self, old: Sequence[LakeFile], new: Sequence[DataFile]) -> None:
        table = self._present()
        check_present(self._store, new)
        gone = {self._uri(each) for each in old}
        before = [each.file for each in table.scan().plan_files() if each.file.file_path in gone]
        if len(before) != len(gone):
            raise LakeError(f"{self.location}: a file to be replaced is gone; compact again")
        with detect_conflict(self.location), table.transaction() as transaction:
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
        old = [each.path for each in self._store.files() if each.modified < limit.timestamp()]
        referenced = _list_referenced(table)
        garbage = [path for path in old if _plain(self._store.url(path)) not in referenced]
        if not dry_run:
            for path in garbage:
                self._store.delete(path)
        return garbage

    def _catalog(self) -> Catalog:
        if self._opened is None:
            self._opened = self._open_catalog()
        return self._opened

    def _open_catalog(self) -> Catalog:
        if self._catalog_name:
            # pyiceberg does not look at the variable that tells all others which server it is.
            endpoint = s3_endpoint()
            try:
                return load_catalog(
                    self._catalog_name, **({"s3.endpoint": endpoint} if endpoint else {})
                )
            except (ValueError, OSError, RESTError) as error:
                raise LakeError(f"catalog {self._catalog_name!r}: {error}") from error
        home = Path(self.location).parent
        home.mkdir(parents=True, exist_ok=True)
        return SqlCatalog("goqueue", uri=f"sqlite:///{home / CATALOG}", warehouse=f"file://{home}")

    def _table(self) -> Table | None:
        try:
            table = self._catalog().load_table(self._name)
        except NoSuchTableError:
            return None
        if _plain(table.location()).rstrip("/") != self.location:
            raise LakeError(
                f"table {'.'.join(self._name)} of the catalog is in {table.location()}, not in"
                f" {self.location}: choose another namespace, or archive there"
            )
        return table

    def _present(self) -> Table:
        table = self._table()
        assert table is not None, "ensure() comes first"
        return table

    def _make(self, schema: Any) -> Table:
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(self._namespace)
        with (
            contextlib.suppress(TableAlreadyExistsError),
            catalog.create_table_transaction(
                self._name, schema, location=self._store.url(""), properties=PROPERTIES
            ) as transaction,
        ):
            if self._date_column is not None:
                assert self._time_column is not None, "days come from a time"
                with transaction.update_spec() as spec:
                    spec.add_field(self._time_column, DayTransform(), self._date_column)
        return self._present()

    def _uri(self, file: LakeFile) -> str:
        return self._store.url(file.path)

    def _relative(self, uri: str) -> str:
        root = f"{self.location}/"
        path = _plain(uri)
        if not path.startswith(root):
            raise LakeError(f"{self.location} has a file elsewhere, {uri}, which is not understood")
        return path.removeprefix(root)

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
def detect_conflict(location: str) -> Iterator[None]:
    try:
        yield
    except (CommitFailedException, CommitStateUnknownException) as error:
        # Of an answer that was lost nobody knows whether it was yes: the marks do.
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
    return {_plain(each) for each in uris}


def _plain(uri: str) -> str:
    return uri.removeprefix("file://")
