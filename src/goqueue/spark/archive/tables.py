"""Archives that are there: what a folder holds, told by what lies in it."""

from pathlib import Path
from typing import Any, Final

import msgspec

from goqueue.spark.archive.columns import PREFIX, date_and_time, is_decoded
from goqueue.spark.lake import LakeError, LakeTable, open_table
from goqueue.spark.lake.roots import base_name, join, normalize
from goqueue.spark.lake.store import Store
from goqueue.spark.lake.table import LakeFile

CHECKPOINT: Final = "_checkpoint"  # begins the name of Spark's folders beside the tables
SIGNS: Final = {"_goqueue/log": "parquet", "_delta_log": "delta", "metadata": "iceberg"}


class ArchiveTable(msgspec.Struct, frozen=True):
    name: str
    format: str
    table: LakeTable
    schema: Any
    is_decoded: bool

    def column(self, name: str) -> str:
        """What a column of records is called here."""
        return PREFIX + name if self.is_decoded else name

    def files_between(self, first: str | None, last: str | None) -> list[LakeFile]:
        """Files of the days from `first` to `last`, written as YYYY-MM-DD."""
        return [
            each
            for each in self.table.files()
            if (first is None or (each.date or "") >= first)
            and (last is None or (each.date or "") <= last)
        ]


def open_archive(folder: str | Path, catalog: str | None = None) -> ArchiveTable:
    """The table in a folder or at a URL; raises LakeError when there is none."""
    root = normalize(folder)
    format = format_of(root)
    if format is None:
        raise LakeError(f"{root} is no table of an archive: name the folder of one topic")
    table = _open(root, format, catalog, decoded=False)
    schema = table.schema()
    if schema is None:
        where = f"catalog {catalog!r}" if catalog else "catalog beside it, catalog.db"
        raise LakeError(f"{root} is not in the {where}")
    decoded = is_decoded(schema)
    if decoded:
        table = _open(root, format, catalog, decoded=True)
        schema = table.schema()
    return ArchiveTable(base_name(root), format, table, schema, decoded)


def _open(root: str, format: str, catalog: str | None, *, decoded: bool) -> LakeTable:
    date, time = date_and_time(decoded=decoded)
    return open_table(format, root, date_column=date, time_column=time, catalog=catalog)


def find_archives(folder: str | Path, catalog: str | None = None) -> list[ArchiveTable]:
    """The table in a folder, or all tables in the folders below it."""
    root = normalize(folder)
    if format_of(root) is not None:
        return [open_archive(root, catalog)]
    names = [each for each in Store(root).folders() if not each.startswith(CHECKPOINT)]
    below = [join(root, name) for name in names]
    found = [open_archive(each, catalog) for each in below if format_of(each) is not None]
    if not found:
        raise LakeError(f"there are no tables of an archive in {root}")
    return found


def format_of(root: str) -> str | None:
    """Of the table that is there; None: there is none."""
    signs = zip(SIGNS.values(), Store(root).have(SIGNS), strict=True)
    return next((name for name, is_there in signs if is_there), None)
