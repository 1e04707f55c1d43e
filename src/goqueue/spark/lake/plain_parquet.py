"""What plain Parquet tables do alike, in a folder (`parquet.py`) and in an object store
(`object_parquet.py`): a log decides, and what is decided is carried out."""

import base64
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import PurePosixPath
from typing import Any, Final, Protocol

import pyarrow as pa

from goqueue.spark.lake.commit_log import FOLDER, VERSION, Entry, Move
from goqueue.spark.lake.growth import widen
from goqueue.spark.lake.store import store_of
from goqueue.spark.lake.table import DataFile, Placement, check_marks, check_present

STAGING: Final = f"{FOLDER}/staging"
STAGED_SUFFIX: Final = ".parquet.staged"


class DecisionLog(Protocol):
    """The entries beside a table: who has written the next one has decided."""

    def newest(self) -> tuple[int, Entry] | None: ...

    def append(self, number: int, entry: Entry) -> None: ...

    def lock(self) -> AbstractContextManager[None]: ...


class PlainParquetTable(ABC):
    def __init__(
        self, root: str, log: DecisionLog, *, date_column: str | None, time_column: str | None
    ) -> None:
        self._store = store_of(root)
        self._decisions = log
        self._date_column, self._time_column = date_column, time_column

    @property
    def location(self) -> str:
        return self._store.root

    def placement(self) -> Placement:
        return Placement(
            self.location, STAGING, self._date_column, self._time_column, STAGED_SUFFIX
        )

    def schema(self) -> Any:
        newest = self._decisions.newest()
        return None if newest is None else _schema_in(newest[1])

    def marks(self, names: Iterable[str]) -> dict[str, int]:
        newest = self._decisions.newest()
        marks = {} if newest is None else newest[1].marks
        return {name: marks[name] for name in names if name in marks}

    def ensure(self, schema: Any) -> None:
        with self._decisions.lock():
            number, before = self._settle()
            if before is None:
                self._decisions.append(number + 1, Entry(VERSION, _schema_text(schema), {}))
                return
            wider = widen(_schema_in(before), schema)
            if not wider.equals(_schema_in(before)):
                entry = Entry(VERSION, _schema_text(wider), before.marks)
                self._decisions.append(number + 1, entry)

    def commit(
        self, files: Sequence[DataFile], marks: Mapping[str, int], since: Mapping[str, int]
    ) -> None:
        with self._decisions.lock():
            number, before = self._settle()
            assert before is not None, "ensure() comes first"
            check_marks(marks, since, before.marks)
            check_present(self._store, files)
            moves = [Move(each.path, self._final_path(each)) for each in files]
            entry = Entry(VERSION, before.schema, {**before.marks, **marks}, moves)
            self._decisions.append(number + 1, entry)
            self._carry_out(entry)

    @abstractmethod
    def _carry_out(self, entry: Entry) -> None:
        """Put the files where the entry says, also if a part of that is done."""

    def _settle(self) -> tuple[int, Entry | None]:
        """The newest entry, after doing what a crash may have left undone of it."""
        newest = self._decisions.newest()
        if newest is None:
            return 0, None
        self._carry_out(newest[1])
        return newest

    def _final_path(self, file: DataFile) -> str:
        """Where a staged file goes."""
        name = PurePosixPath(file.path).name.removesuffix(STAGED_SUFFIX) + ".parquet"
        return name if file.date is None else f"{self._date_column}={file.date}/{name}"


def _schema_in(entry: Entry) -> Any:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(entry.schema)))


def _schema_text(schema: Any) -> str:
    return base64.b64encode(schema.serialize()).decode()
