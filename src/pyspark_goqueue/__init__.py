"""Where Spark finds the format `goqueue`: it imports every top-level `pyspark_…` it can see.

    spark.read.format("goqueue").option("subscribe", "orders")...

A module of that kind that fails to import breaks the look-up of everybody's formats.  So nothing
is imported here before somebody asks, and where something is missing there is no `DefaultSource`.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        try:
            from goqueue.spark.source.source import GoQueueDataSource
        except ImportError as error:
            raise AttributeError(f"the format goqueue needs goqueue[spark]: {error}") from error
        return GoQueueDataSource
    raise AttributeError(name)
