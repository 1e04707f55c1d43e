"""Tables of Parquet files that tasks write and the driver commits, exactly once.

`table.py` has the idea and the protocol; `parquet.py`, `delta.py` and `iceberg.py` are the three
formats; `writing.py` is what runs in tasks, `store.py` where files lie: in folders, or in an object
store (`object_parquet.py`).  Nothing here needs Spark.
"""

from pathlib import Path
from typing import Final

from goqueue.spark.lake.roots import is_remote, normalize
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
    format: str,
    folder: str | Path,
    *,
    date_column: str | None,
    time_column: str | None,
    catalog: str | None = None,
) -> LakeTable:
    """The table in a folder or at a URL, which need not be there yet.

    With a date column, files hold one day each, told by the time column in UTC.  `catalog`: of
    Iceberg, one that pyiceberg knows.
    """
    root = normalize(folder)
    match format:
        case "parquet" if is_remote(root):
            from goqueue.spark.lake.object_parquet import ObjectParquetTable

            return ObjectParquetTable(root, date_column=date_column, time_column=time_column)
        case "parquet":
            from goqueue.spark.lake.parquet import ParquetTable

            return ParquetTable(root, date_column=date_column, time_column=time_column)
        case "delta":
            from goqueue.spark.lake.delta import DeltaLakeTable

            return DeltaLakeTable(root, date_column=date_column, time_column=time_column)
        case "iceberg":
            from goqueue.spark.lake.iceberg import IcebergLakeTable

            return IcebergLakeTable(
                root, date_column=date_column, time_column=time_column, catalog=catalog
            )
        case _:
            raise LakeError(f"format {format!r} is not known: choose one of {', '.join(FORMATS)}")
