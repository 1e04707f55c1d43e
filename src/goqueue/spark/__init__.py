"""Topics as tables of Spark, and the jobs on top.  Needs the extra: `pip install goqueue[spark]`.

spark = goqueue.spark.session()
orders = spark.read.format("goqueue").option("subscribe", "orders")...
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["offset_metrics", "save_to", "session"]


def session(
    *,
    app_name: str = "goqueue",
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
) -> "SparkSession":
    """A Spark session that is ready for topics, quick to start and quiet; see `sessions`.

    `master` is this machine, `local[*]`, unless given or chosen by `spark-submit`; `settings` are
    Spark's own and win over ours.
    """
    from goqueue.spark.runtime.session import build

    return build(app_name=app_name, master=master, settings=settings or {}, log_level=log_level)


def save_to(**options: Any) -> "Callable[[DataFrame, int], None]":
    """For `foreachBatch`: each micro-batch is saved once, with these options of the writer.

    So a query in update mode writes, too, which Spark keeps from sinks that are written in Python.
    """
    from goqueue.spark.sink.each_batch import save_to

    return save_to(options)


def offset_metrics(progress: Mapping[str, Any]) -> list[dict[str, str]]:
    """For each source of a query's progress, how far it is behind: avg, max and min of partitions.

    The names are those of Kafka's connector (`avgOffsetsBehindLatest`), which has them in the
    progress itself.
    """
    from goqueue.spark.runtime.progress import offset_metrics

    return offset_metrics(progress)
