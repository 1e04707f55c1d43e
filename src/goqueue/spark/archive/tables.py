"""Archives that are there: what a folder holds, told by what lies in it."""

from pathlib import Path
from typing import Any, Final

import msgspec

from goqueue.spark.archive.columns import PREFIX, date_and_time, is_decoded
from goqueue.spark.lake import LakeError, LakeTable, open_table
from goqueue.spark.lake.table import LakeFile

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


def open_archive(folder: str | Path) -> ArchiveTable:
    """The table in a folder; raises LakeError when there is none."""
    path = Path(folder)
    format = _format(path)
    if format is None:
        raise LakeError(f"{path} is no table of an archive: name the folder of one topic")
    date, time = date_and_time(decoded=False)
    table = open_table(format, path, date_column=date, time_column=time)
    schema = table.schema()
    if schema is None:
        raise LakeError(f"{path} is not in the catalog beside it, {path.parent / 'catalog.db'}")
    decoded = is_decoded(schema)
    if decoded:
        date, time = date_and_time(decoded=True)
        table = open_table(format, path, date_column=date, time_column=time)
        schema = table.schema()
    return ArchiveTable(path.name, format, table, schema, decoded)


def find_archives(folder: str | Path) -> list[ArchiveTable]:
    """The table in a folder, or all tables in the folders below it."""
    path = Path(folder)
    if _format(path) is not None:
        return [open_archive(path)]
    found = [open_archive(each) for each in sorted(path.glob("*/")) if _format(each) is not None]
    if not found:
        raise LakeError(f"there are no tables of an archive in {path}")
    return found


def _format(folder: Path) -> str | None:
    return next((name for sign, name in SIGNS.items() if (folder / sign).is_dir()), None)
