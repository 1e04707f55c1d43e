"""Topics as tables of Spark, and the jobs on top.  Needs the extra: `pip install goqueue[spark]`.

spark = goqueue.spark.session()
orders = spark.read.format("goqueue").option("subscribe", "orders")...
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session"]


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
