"""A plain Parquet table in an object store: `parquet.py` says how it works, this what differs.

There is no rename: a decided file is copied from its staged name to its final one, which readers
see at once and whole, and then the staged one is deleted.  There is no lock: whoever comes upon a
decision carries it out, and two that do so copy the same bytes to the same name.  Folders cannot be
exchanged, so files are never merged: a table that shall be compacted is one of Delta or Iceberg.
"""

import time
from collections.abc import Sequence

from goqueue.spark.lake.commit_log import Entry, Move
from goqueue.spark.lake.object_log import ObjectLog
from goqueue.spark.lake.plain_parquet import STAGED_SUFFIX, STAGING, PlainParquetTable
from goqueue.spark.lake.roots import normalize
from goqueue.spark.lake.table import DataFile, LakeError, LakeFile


class ObjectParquetTable(PlainParquetTable):
    def __init__(self, root: str, *, date_column: str | None, time_column: str | None) -> None:
        self._log = ObjectLog(normalize(root))
        super().__init__(root, self._log, date_column=date_column, time_column=time_column)

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
