"""A query over streams, shown as it changes."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.pipelines.model import Mode
from goqueue.spark.pipelines.planning import check_mode
from goqueue.spark.pipelines.starting import first_rows
from goqueue.spark.runtime.causes import cause_of, errors_of_spark
from goqueue.spark.sql.job import BadQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MODES: Final[tuple[Mode, ...]] = ("append", "update", "complete")
Present = Callable[[int, list[dict[str, Any]]], None]


def live_frame(build: "Callable[[bool], DataFrame]", spark: "SparkSession") -> "DataFrame":
    """The frame to follow: of an aggregate with all messages, so that it is right from the start;
    of other queries with those that come, as `tail -f` shows them.

    `build` is told whether only new messages are wanted.
    """
    whole = build(False)
    is_aggregate = whole.isStreaming and best_mode(spark, whole) != "append"
    return whole if is_aggregate else build(True)


@contextlib.contextmanager
def follow(
    spark: "SparkSession", frame: "DataFrame", present: Present, *, rows_max: int
) -> "Iterator[StreamingQuery]":
    """Presents what is new, or what has changed, in each micro-batch.  Leaves nothing behind."""
    if not frame.isStreaming:
        raise BadQuery("there is no topic in this query, so there is nothing to follow")
    mode = best_mode(spark, frame)
    with tempfile.TemporaryDirectory(prefix="goqueue-sql-", ignore_cleanup_errors=True) as folder:
        yield (
            frame.writeStream.outputMode(mode)
            .foreachBatch(lambda rows, batch: present(batch, first_rows(rows, rows_max)))
            .option("checkpointLocation", folder)
            .queryName("sql")
            .start()
        )


def best_mode(spark: "SparkSession", frame: "DataFrame") -> Mode:
    """New rows if each is final, else the changed ones, else all of them."""
    objections = []
    for mode in MODES:
        try:
            check_mode(spark, frame, mode)
        except errors_of_spark() as error:
            objections.append(cause_of(error))
        else:
            return mode
    raise BadQuery(objections[-1])
