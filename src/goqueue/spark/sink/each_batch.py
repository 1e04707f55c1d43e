"""Micro-batches that a query hands to `foreachBatch`, each saved once.

Spark refuses update mode to a stream writer in Python, and hands the rows that changed to
`foreachBatch`.  There a batch is told whose it is (`txnAppId`: the query's id, kept in its
checkpoint) and which one (`txnVersion`).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from goqueue.spark.sink.task import QUERY_ID

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def save_to(options: Mapping[str, Any]) -> "Callable[[DataFrame, int], None]":
    """`options` are the writer's.  `checkpointLocation`, the query's own, lets it compare what a
    repeated batch was made of."""

    def save(rows: "DataFrame", batch: int) -> None:
        query_id = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        assert query_id is not None, "only a streaming query calls this"
        writer = rows.write.format("goqueue").options(**options)
        writer.option("txnAppId", query_id).option("txnVersion", batch).mode("append").save()

    return save
