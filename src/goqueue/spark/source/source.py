"""The format `goqueue`: what Spark calls.  It finds this class through `pyspark_goqueue`.

Spark makes these objects in several processes and pickles some of them from one into the next: so
they hold what they were told, and nothing that is open.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from goqueue.spark.source.filters import EVERYTHING, bounds_of
from goqueue.spark.source.options import SourceOptions, source_options
from goqueue.spark.source.read_plan import ReadPlan, read_plan_for
from goqueue.spark.source.schema import default_schema
from goqueue.spark.source.tasks import read_task

if TYPE_CHECKING:
    import pyarrow as pa


class GoQueueDataSource(DataSource):
    """`spark.read.format("goqueue")` and its relatives."""

    @classmethod
    def name(cls) -> str:
        return "goqueue"

    def schema(self) -> str:
        # Asked before Spark says whether it reads a batch or a stream.
        return default_schema(source_options(self.options, is_stream=None))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = source_options(self.options, is_stream=False)
        kind = PushdownReader if options.pushdown else BatchReader
        return kind(options, read_plan_for(options, _fields(schema)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from goqueue.spark.source.stream import StreamReader

        options = source_options(self.options, is_stream=True)
        return StreamReader(options, read_plan_for(options, _fields(schema)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from goqueue.spark.sink.writers import BatchWriter

        return BatchWriter(schema, self.options, overwrite=overwrite)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from goqueue.spark.sink.writers import StreamWriter

        return StreamWriter(schema, self.options)


def _fields(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, read_plan: ReadPlan) -> None:
        self._options = options
        self._read_plan = read_plan
        self._bounds = EVERYTHING

    def partitions(self) -> Sequence[InputPartition]:
        from goqueue.spark.source.batches import plan_batch

        return [InputPartition(task) for task in plan_batch(self._options, self._bounds)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read_task(self._read_plan, partition)


class PushdownReader(BatchReader):
    """Takes filters; a class of its own, since Spark refuses it where its setting forbids them."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._bounds, left = bounds_of(filters)
        return left
