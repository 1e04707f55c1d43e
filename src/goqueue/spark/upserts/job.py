"""Micro-batches of changes that a query hands to `foreachBatch`, each merged into a table."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from goqueue.spark.upserts.deciding import OFFSET, VERSION
from goqueue.spark.upserts.upserter import Upserter, UpsertSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def merge_into(settings: UpsertSettings) -> "Callable[[DataFrame, int], None]":
    """Of a table of states Spark keeps the newest change of a key: only that comes to the driver,
    where the merge is decided."""
    upserter = Upserter(settings)

    def merge(rows: "DataFrame", batch: int) -> None:
        changes = rows if settings.history else _newest(rows, list(settings.keys))
        upserter.merge(changes.toArrow())

    return merge


def _newest(rows: "DataFrame", keys: list[str]) -> "DataFrame":
    from pyspark.sql import Window, functions

    order = [functions.col(VERSION).desc_nulls_first(), functions.col(OFFSET).desc()]
    window = Window.partitionBy(*(rows[f"`{each}`"] for each in keys)).orderBy(*order)
    return (
        rows.withColumn("_rank", functions.row_number().over(window))
        .where("_rank = 1")
        .drop("_rank")
    )
