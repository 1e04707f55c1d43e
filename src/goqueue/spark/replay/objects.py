"""A table's files in an object store as rows of Spark, read by tasks with PyArrow.

Spark itself reaches an object store only with jars that fit its version.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Reading(msgspec.Struct, frozen=True):
    """What a task reads.  Plain data: it travels there."""

    root: str
    schema: bytes  # of the columns that are wanted, as Arrow serializes it
    offset_column: str
    first: int | None = None  # offsets from here
    last: int | None = None  # to here


def read_objects(session: "SparkSession", paths: Sequence[str], reading: Reading) -> "DataFrame":
    """The rows of these files; row groups without the wanted offsets are not fetched."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = session.createDataFrame([(each,) for each in paths], "path string")
    tasks = min(len(paths), max(2, session.sparkContext.defaultParallelism * 2))
    schema = from_arrow_schema(pa.ipc.read_schema(pa.py_buffer(reading.schema)))
    return rows.repartition(tasks).mapInArrow(partial(_read, reading), schema)


def _read(reading: Reading, batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.dataset as ds

    from goqueue.spark.lake.store import store_of

    store = store_of(reading.root)
    schema = pa.ipc.read_schema(pa.py_buffer(reading.schema))
    offset = ds.field(reading.offset_column)
    wanted = None
    if reading.first is not None and reading.last is not None:
        wanted = (offset >= reading.first) & (offset <= reading.last)
    for batch in batches:
        for path in batch.column("path").to_pylist():
            file = ds.dataset(
                store.path(path), schema, format="parquet", filesystem=store.filesystem
            )
            yield from file.to_batches(filter=wanted)
