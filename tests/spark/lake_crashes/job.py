"""The job that dies: a Spark driver that archives a topic, batch by batch.

    python job.py SETTINGS-AS-JSON

It archives what there is and ends.  Told a `commit`, it kills itself and its JVM, which is the
driver, at a named point of its `commit`th commit of rows:

    before    the files are written, and rejected rows are committed
    middle    parquet: some of the decided files are in their place; delta, in a folder: the entry
              of the log has just appeared; iceberg: the metadata is written, and the catalog does
              not name it yet
    after     the table has them, and Spark does not know
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from pyiceberg.catalog.sql import SqlCatalog

import goqueue.spark
from goqueue.spark.archive.job import AVAILABLE_NOW, archive
from goqueue.spark.archive.options import ArchiveOptions
from goqueue.spark.lake.delta import DeltaLakeTable
from goqueue.spark.lake.iceberg import IcebergLakeTable
from goqueue.spark.lake.object_parquet import ObjectParquetTable
from goqueue.spark.lake.parquet import ParquetTable

QUICK_TO_COMPILE: Final = "-XX:TieredStopAtLevel=1"  # a job of seconds is over before more pays
TABLES: Final = {"parquet": ParquetTable, "delta": DeltaLakeTable, "iceberg": IcebergLakeTable}


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    bootstrap: str
    topic: str
    target: str
    format: str
    rows_a_batch: int
    point: str = ""
    commit: int = 0  # never
    master: str = "local[2]"
    catalog: str | None = None


def options(settings: Settings) -> ArchiveOptions:
    return ArchiveOptions(
        bootstrap=settings.bootstrap,
        topics=(settings.topic,),
        target=settings.target,
        format=settings.format,  # type: ignore[arg-type]  # one of three
        catalog=settings.catalog,
        decode="json",
        trigger=AVAILABLE_NOW,
        source={"maxOffsetsPerTrigger": str(settings.rows_a_batch)},
    )


def main(settings: Settings) -> None:
    if settings.commit:
        arm(settings)
    spark = goqueue.spark.session(
        master=settings.master,
        settings={
            "spark.driver.extraJavaOptions": QUICK_TO_COMPILE,
            "spark.executor.extraJavaOptions": QUICK_TO_COMPILE,
            "spark.executor.memory": "512m",
        },
    )
    archive(spark, options(settings)).awaitTermination()
    spark.stop()


def die() -> None:
    os.killpg(0, signal.SIGKILL)  # the JVM is of the same group


def arm(settings: Settings) -> None:
    """Make the table's commit the last thing that this process does."""
    kind: Any = TABLES[settings.format]
    if settings.format == "parquet" and "://" in settings.target:
        kind = ObjectParquetTable
    real, left = kind.commit, settings.commit

    def commit(table: Any, *given: Any) -> None:
        nonlocal left
        left -= not table.location.endswith("_dlq")
        if left:
            real(table, *given)
            return
        match settings.point:
            case "before":
                die()
            case "middle":
                MIDDLES[settings.format](table)
                real(table, *given)
                raise AssertionError("the middle of the commit was not met")
            case "after":
                real(table, *given)
                die()
            case _:
                raise AssertionError(settings.point)

    kind.commit = commit


def _between_moves(table: Any) -> None:
    if isinstance(table, ObjectParquetTable):
        _between_copies()
    else:
        _between_renames()


def _between_copies() -> None:
    real, left = ObjectParquetTable._move, 2

    def move(*given: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            die()
        real(*given)

    ObjectParquetTable._move = move  # type: ignore[assignment,method-assign]


def _between_renames() -> None:
    real, left = os.rename, 2

    def rename(source: Any, target: Any, **named: Any) -> None:
        nonlocal left
        left -= str(source).endswith(".staged")
        if not left:
            die()
        real(source, target, **named)

    os.rename = rename  # type: ignore[assignment]


def _when_the_entry_appears(table: Any) -> None:
    log = Path(table.location) / "_delta_log"
    before = len(list(log.glob("*.json")))

    def watch() -> None:
        while len(list(log.glob("*.json"))) == before:
            pass
        die()

    threading.Thread(target=watch, daemon=True).start()


def _before_the_catalog_knows(_: Any) -> None:
    real = SqlCatalog._write_metadata

    def write(*given: Any, **named: Any) -> None:
        real(*given, **named)
        die()

    SqlCatalog._write_metadata = staticmethod(write)  # type: ignore[method-assign]


MIDDLES: Final[dict[str, Callable[[Any], None]]] = {
    "parquet": _between_moves,
    "delta": _when_the_entry_appears,
    "iceberg": _before_the_catalog_knows,
}

if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Settings))
