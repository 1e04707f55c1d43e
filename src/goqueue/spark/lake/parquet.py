"""A plain folder of Parquet files that every reader sees exactly once.

    table/date=2026-01-31/3f0c….parquet      the table: what is here is in it
    table/_goqueue/…                         commit_log.py; readers pass over names with "_"

Readers of plain Parquet (pyarrow, DuckDB, Spark) list the folder and know of no log.  So a file
may stand there only once its batch is decided, and must never have to be taken back:

1. tasks write to `_goqueue/staging`, under a name that no glob for `*.parquet` matches;
2. the decision is one log entry that names the staged files and moves the marks;
3. the files are renamed into place.  Whoever opens the table after a crash does what is left of
   the newest entry: a rename that was done already finds nothing to rename.

Another way would be names made from the batch id, which a replay overwrites.  Then files of an
undecided batch are seen, and a replay that splits the batch into other tasks (another number of
cores) leaves files of the first attempt behind.  Spark's own file sink has a log, too, but only
Spark reads it: others see the files of failed attempts.

Between 2 and the last rename of 3 a reader sees part of a batch; never a row twice, never a row
of an undecided batch.  Readers that need whole batches read Delta or Iceberg.
"""

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from goqueue.spark.lake.commit_log import FOLDER, VERSION, CommitLog, Entry, Swap, sync_folder
from goqueue.spark.lake.exchange import exchange
from goqueue.spark.lake.plain_parquet import STAGED_SUFFIX, STAGING, PlainParquetTable
from goqueue.spark.lake.roots import normalize
from goqueue.spark.lake.table import DataFile, LakeError, LakeFile

SWAPPING: Final = f"{FOLDER}/swap"


class ParquetTable(PlainParquetTable):
    def __init__(self, root: str, *, date_column: str | None, time_column: str | None) -> None:
        self._folder = Path(normalize(root))
        self._log = CommitLog(self._folder)
        super().__init__(root, self._log, date_column=date_column, time_column=time_column)

    def files(self) -> list[LakeFile]:
        return [
            LakeFile(str(path.relative_to(self._folder)), _date(path), path.stat().st_size)
            for path in self._data_paths()
        ]

    def replace(self, old: Sequence[LakeFile], new: Sequence[DataFile]) -> None:
        """Exchange whole folders: the one way in which a plain reader sees no row twice."""
        if self._date_column is None:
            raise LakeError(
                f"{self.location}: a plain Parquet table that has no days cannot be compacted"
                " without readers seeing rows twice; write to Delta or Iceberg instead"
            )
        with self._log.lock():
            number, before = self._settle()
            assert before is not None, "a table with files has a log"
            swaps = list(self._prepare(old, new))
            entry = Entry(VERSION, before.schema, before.marks, swaps=swaps)
            self._log.append(number + 1, entry)
            self._carry_out(entry)

    def vacuum(self, *, hours: float, dry_run: bool) -> list[str]:
        limit = time.time() - hours * 3600
        with self._log.lock():
            self._settle()
            staged = (self._folder / STAGING).rglob(f"*{STAGED_SUFFIX}")
            garbage = [path for path in staged if path.stat().st_mtime < limit]
            # Nobody prepares a folder now, with the lock held here.
            garbage += (self._folder / SWAPPING).glob("*")
            if not dry_run:
                for path in garbage:
                    _remove(path)
        return [str(path.relative_to(self._folder)) for path in garbage]

    # --- decisions carried out ----------------------------------------------------------------

    def _carry_out(self, entry: Entry) -> None:
        folders = set()
        for move in entry.moves:
            final = self._folder / move.final
            final.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # done before
                os.rename(self._folder / move.staged, final)
                folders.add(final.parent)
        for swap in entry.swaps:
            folder, prepared = self._folder / swap.folder, self._folder / swap.prepared
            if prepared.exists():
                if not (folder / swap.proof).exists():
                    exchange(folder, prepared)
                _remove(prepared)
                sync_folder(folder.parent)
        for each in folders:
            sync_folder(each)

    def _prepare(self, old: Sequence[LakeFile], new: Sequence[DataFile]) -> Iterator[Swap]:
        """For each folder with a change, one beside it as it shall be."""
        gone = {each.path for each in old}
        for folder in sorted({str(Path(each.path).parent) for each in old}):
            names = set(os.listdir(self._folder / folder))
            kept = {name for name in names if f"{folder}/{name}" not in gone}
            if len(names) - len(kept) != sum(Path(each).parent == Path(folder) for each in gone):
                raise LakeError(f"{self.location}: a file to be replaced is gone; compact again")
            added = [each for each in new if str(Path(self._final_path(each)).parent) == folder]
            prepared = f"{SWAPPING}/{uuid.uuid4().hex}"
            (self._folder / prepared).mkdir(parents=True)
            for name in kept:
                os.link(self._folder / folder / name, self._folder / prepared / name)
            for each in added:
                final = Path(self._final_path(each)).name
                os.rename(self._folder / each.path, self._folder / prepared / final)
            sync_folder(self._folder / prepared)
            yield Swap(folder, prepared, Path(self._final_path(added[0])).name)

    def _data_paths(self) -> list[Path]:
        pattern = "*.parquet" if self._date_column is None else f"{self._date_column}=*/*.parquet"
        return sorted(self._folder.glob(pattern))


def _date(path: Path) -> str | None:
    return path.parent.name.partition("=")[2] or None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
