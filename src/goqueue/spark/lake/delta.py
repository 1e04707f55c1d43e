"""A Delta table, through delta-rs: no jar is needed, and any reader of Delta reads it.

Files and marks are one commit of Delta's own log: an `add` action for each file and a `txn` action
(application id, version) for each mark.  delta-rs refuses a commit when a concurrent one has moved
the same application.  A column is added by a commit of its own before the rows that need it.
"""

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from goqueue.spark.lake.growth import plain_schema, widen
from goqueue.spark.lake.store import is_in_clear, store_of
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

APPLICATION: Final = "goqueue:"  # before the name of a mark


class DeltaLakeTable:
    def __init__(self, root: str, *, date_column: str | None, time_column: str | None) -> None:
        self._store = store_of(root)
        self._date_column, self._time_column = date_column, time_column
        self._known: DeltaTable | None = None  # brought up to date before each use

    @property
    def location(self) -> str:
        return self._store.root

    def placement(self) -> Placement:
        return Placement(self.location, "", self._date_column, self._time_column)

    def schema(self) -> Any:
        table = self._table()
        if table is None:
            return None
        schema = plain_schema(pa.schema(table.schema()))
        return pa.schema([each for each in schema if each.name != self._date_column])

    def marks(self, names: Iterable[str]) -> dict[str, int]:
        table = self._table()
        return {} if table is None else _marks(table, names)

    def ensure(self, schema: Any) -> None:
        table = self._table()
        if table is None:
            if not self._store.is_remote:
                Path(self.location).mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                self.location,
                Schema.from_arrow(self._with_date(schema)),
                mode="ignore",
                partition_by=[self._date_column] if self._date_column else None,
                storage_options=_storage_options(),
            )
            table = self._table()
            assert table is not None, "it was just made"
        there = {each.name: each.type for each in self.schema()}
        wider = widen(self.schema(), schema)
        added = pa.schema([each for each in wider if there.get(each.name) != each.type])
        if len(added):
            with detect_conflict(self.location):
                table.alter.add_columns(list(Schema.from_arrow(added).fields))

    def commit(
        self, files: Sequence[DataFile], marks: Mapping[str, int], since: Mapping[str, int]
    ) -> None:
        check_present(self._store, files)
        actions = [self._add_action(each, data_change=True) for each in files]
        transactions = [Transaction(f"{APPLICATION}{name}", value) for name, value in marks.items()]
        # From here on the table must not be brought up to date: delta-rs looks for rivals only
        # among the commits that came after the version which it knows.
        table = self._table()
        assert table is not None, "ensure() comes first"
        check_marks(marks, since, _marks(table, marks))
        self._write(table, actions, transactions)

    def files(self) -> list[LakeFile]:
        table = self._table()
        if table is None:
            return []
        if len(pa.table(table.deletion_vectors().read_all())):
            raise LakeError(f"{self.location} has deletion vectors, which are not understood here")
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        return sorted(
            (LakeFile(unquote(e["path"]), self._date_of(e), e["size_bytes"]) for e in actions),
            key=lambda each: each.path,
        )

    def replace(self, old: Sequence[LakeFile], new: Sequence[DataFile]) -> None:
        check_present(self._store, new)
        now = _now_ms()
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(each.path, False, now, each.bytes, self._values(each)) for each in old
        ]
        actions += [self._add_action(each, data_change=False) for each in new]
        if {each.path for each in old} - {each.path for each in self.files()}:
            raise LakeError(f"{self.location}: a file to be replaced is gone; compact again")
        assert self._known is not None, "files() has just looked"
        # delta-rs does not see that a rival removes the same files: let nobody come between.
        self._write(self._known, actions, [], retries=0)

    def vacuum(self, *, hours: float, dry_run: bool) -> list[str]:
        table = self._table()
        if table is None:
            return []
        return table.vacuum(
            retention_hours=int(hours),
            dry_run=dry_run,
            enforce_retention_duration=False,
            full=True,
        )

    def _table(self) -> DeltaTable | None:
        try:
            if self._known is None:
                self._known = DeltaTable(self.location, storage_options=_storage_options())
            else:
                self._known.update_incremental()
        except TableNotFoundError:
            return None
        return self._known

    def _write(
        self,
        table: DeltaTable,
        actions: Sequence[AddAction | RemoveAction],
        transactions: list[Transaction],
        *,
        retries: int | None = None,
    ) -> None:
        with detect_conflict(self.location):
            table.create_write_transaction(
                list(actions),
                "append",
                table.schema(),
                [self._date_column] if self._date_column else None,
                commit_properties=CommitProperties(
                    app_transactions=transactions, max_commit_retries=retries
                ),
            )

    def _add_action(self, file: DataFile, *, data_change: bool) -> AddAction:
        return AddAction(
            file.path,
            file.bytes,
            self._values(file),
            _now_ms(),
            data_change,
            msgspec.json.encode(self._statistics(file)).decode(),
        )

    def _statistics(self, file: DataFile) -> dict[str, Any]:
        """Delta's own form, by which readers leave out files."""
        types = {each.name: each.type for each in self.schema()}
        lowest = {k: _bound(types[k], v) for k, v in file.lowest.items() if k in types}
        highest = {k: _bound(types[k], v, up=True) for k, v in file.highest.items() if k in types}
        return {"numRecords": file.rows, "minValues": lowest, "maxValues": highest}

    def _values(self, file: LakeFile) -> dict[str, str | None]:
        if self._date_column is None:
            return {}
        return {self._date_column: None if file.date == NO_DATE else file.date}

    def _date_of(self, action: dict[str, Any]) -> str | None:
        if self._date_column is None:
            return None
        value = action[f"partition.{self._date_column}"]
        return NO_DATE if value is None else str(value)

    def _with_date(self, schema: Any) -> Any:
        if self._date_column is None:
            return schema
        return schema.append(pa.field(self._date_column, pa.date32()))


def _marks(table: DeltaTable, names: Iterable[str]) -> dict[str, int]:
    found = {name: table.transaction_version(f"{APPLICATION}{name}") for name in names}
    return {name: value for name, value in found.items() if value is not None}


@contextlib.contextmanager
def detect_conflict(location: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise MarksMoved(f"{location}: {error}") from error


def _storage_options() -> dict[str, str]:
    """delta-rs finds all else by itself, but talks to no server in clear unless it is told to."""
    return {"allow_http": "true"} if is_in_clear() else {}


def _bound(kind: Any, value: int, *, up: bool = False) -> int | str:
    """Times are kept by the millisecond there; the upper bound must not be cut down."""
    if not pa.types.is_timestamp(kind):
        return value
    milliseconds = -(-value // 1000) if up else value // 1000
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _now_ms() -> int:
    return int(time.time() * 1000)
