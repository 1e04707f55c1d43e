"""Where Spark's tasks begin: what reads is imported there, and in no process that only plans."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from goqueue.spark.source.read_plan import ReadPlan

if TYPE_CHECKING:
    import pyarrow as pa


def read_task(read_plan: ReadPlan, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
    """The rows of a partition; Spark sends an empty one where there is none."""
    task: Any = partition.value
    if task is None:
        return iter(())
    from goqueue.spark.source.partition_reader import read

    return read(read_plan, task)
