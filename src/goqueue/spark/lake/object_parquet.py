"""A plain Parquet table in an object store: `parquet.py` says how it works, this what differs.

There is no rename: a decided file is copied from its staged name to its final one, which readers
see at once and whole, and then the staged one is deleted.  There is no lock: whoever comes upon a
decision carries it out, and two that do so copy the same bytes to the same name.  Folders cannot be
exchanged, so files are never merged: a table that shall be compacted is one of Delta or Iceberg.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from goqueue.spark.lake.commit_log import VERSION, Entry, Move
from goqueue.spark.lake.growth import widen
from goqueue.spark.lake.object_log import ObjectLog
from goqueue.spark.lake.parquet import (
    STAGED_SUFFIX,
    STAGING,
    final_path,
    schema_in,
    schema_text,
)
from goqueue.spark.lake.store import store_of
from goqueue.spark.lake.table import (
    DataFile,
    LakeError,
    LakeFile,
    Placement,
    check_marks,
    check_present,
)


class ObjectParquetTable:
    def __init__(self, root: str, *, date_column: str | None, time_column: str | None) -> None:
        self._store = store_of(root)
        self._date_column, self._time_column = date_column, time_column
        self._log = ObjectLog(self._store.root)

    @property
    def location(self) -> str:
        return self._store.root

    def placement(self) -> Placement:
        return Placement(
            self.location, STAGING, self._date_column, self._time_column, STAGED_SUFFIX
        )

    def schema(self) -> Any:
        newest = self._log.newest()
        return None if newest is None else schema_in(newest[1])

    def marks(self, names: Iterable[str]) -> dict[str, int]:
        newest = self._log.newest()
        marks = {} if newest is None else newest[1].marks
        return {name: marks[name] for name in names if name in marks}

    def ensure(self, schema: Any) -> None:
        number, before = self._settle()
        if before is None:
            self._log.append(number + 1, Entry(VERSION, schema_text(schema), {}))
            return
        wider = widen(schema_in(before), schema)
        if not wider.equals(schema_in(before)):
            self._log.append(number + 1, Entry(VERSION, schema_text(wider), before.marks))

    def commit(
        self, files: Sequence[DataFile], marks: Mapping[str, int], since: Mapping[str, int]
    ) -> None:
        number, before = self._settle()
        assert before is not None, "ensure() comes first"
        check_marks(marks, since, before.marks)
        check_present(self._store, files)
        moves = [Move(each.path, final_path(each, self._date_column)) for each in files]
        entry = Entry(VERSION, before.schema, {**before.marks, **marks}, moves)
        self._log.append(number + 1, entry)
        self._carry_out(entry)

    def files(self) -> list[LakeFile]:
        self._settle()
        found = []
        for each in self._store.files():
            folder, _, name = each.path.rpartition("/")
            column, _, date = folder.partition("=")
            if name.endswith(".parquet") and column == (self._date_column or ""):
                found.append(LakeFile(each.path, date or None, each.bytes))
        return found

    def replace(self, old: Sequence[LakeFile], new: Sequence[DataFile]) -> None:
        raise LakeError(
            f"{self.location}: a plain Parquet table in an object store cannot be compacted without"
            " readers seeing rows twice; write to Delta or Iceberg instead"
        )

    def vacuum(self, *, hours: float, dry_run: bool) -> list[str]:
        limit = time.time() - hours * 3600
        self._settle()
        staged = (each for each in self._store.files(STAGING) if each.modified < limit)
        garbage = [each.path for each in staged if each.path.endswith(STAGED_SUFFIX)]
        garbage += self._log.old_entries(limit)
        if not dry_run:
            for path in garbage:
                self._store.delete(path)
        return garbage

    def _settle(self) -> tuple[int, Entry | None]:
        """The newest entry, after doing what a crash may have left undone of it."""
        newest = self._log.newest()
        if newest is None:
            return 0, None
        self._carry_out(newest[1])
        return newest

    def _carry_out(self, entry: Entry) -> None:
        staged = self._store.have(move.staged for move in entry.moves) if entry.moves else []
        for move, is_left in zip(entry.moves, staged, strict=True):
            if is_left:
                self._move(move)

    def _move(self, move: Move) -> None:
        filesystem = self._store.filesystem
        try:
            filesystem.copy_file(self._store.path(move.staged), self._store.path(move.final))
        except OSError:
            if self._store.has(move.staged) or not self._store.has(move.final):
                raise
            return  # somebody else has done it meanwhile
        self._store.delete(move.staged)
