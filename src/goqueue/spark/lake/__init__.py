"""Tables of Parquet files that tasks write and the driver commits, exactly once.

`table.py` has the idea and the protocol; `parquet.py`, `delta.py` and `iceberg.py` are the three
formats; `writing.py` is what runs in tasks.  Nothing here needs Spark.
"""

from pathlib import Path
from typing import Final

from goqueue.spark.lake.table import (
    DataFile,
    LakeError,
    LakeFile,
    LakeTable,
    MarksMoved,
    Placement,
)

__all__ = [
    "FORMATS",
    "DataFile",
    "LakeError",
    "LakeFile",
    "LakeTable",
    "MarksMoved",
    "Placement",
    "open_table",
]

FORMATS: Final = ("parquet", "delta", "iceberg")


def open_table(
    format: str, folder: str | Path, *, date_column: str | None, time_column: str | None
) -> LakeTable:
    """The table in a folder, which need not be there yet.

    With a date column, files hold one day each, told by the time column in UTC.
    """
    path = _local(folder)
    match format:
        case "parquet":
            from goqueue.spark.lake.parquet import ParquetTable

            return ParquetTable(path, date_column=date_column, time_column=time_column)
        case "delta":
            from goqueue.spark.lake.delta import DeltaLakeTable

            return DeltaLakeTable(path, date_column=date_column, time_column=time_column)
        case "iceberg":
            from goqueue.spark.lake.iceberg import IcebergLakeTable

            return IcebergLakeTable(path, date_column=date_column, time_column=time_column)
        case _:
            raise LakeError(f"format {format!r} is not known: choose one of {', '.join(FORMATS)}")


def _local(folder: str | Path) -> Path:
    text = str(folder).removeprefix("file://")
    if "://" in text:
        raise LakeError(f"{folder}: tables live in folders that the driver and all tasks share")
    return Path(text)
