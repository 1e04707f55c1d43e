"""The stream as Spark calls it; what it decides is in `following`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from goqueue.spark.source.offsets import Noted, noted, places_of, with_broker
from goqueue.spark.source.options import SourceOptions
from goqueue.spark.source.read_plan import Recipe
from goqueue.spark.source.tasks import read_task

if TYPE_CHECKING:
    import pyarrow as pa

    from goqueue.spark.source.stream_offsets import Following


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """In the driver it follows; in a task, where it is a pickled copy, it only reads."""

    def __init__(self, options: SourceOptions, recipe: Recipe) -> None:
        self._options = options
        self._recipe = recipe
        self._following: Following | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_following": None}

    @property
    def following(self) -> "Following":
        if self._following is None:
            from goqueue.spark.source.stream_offsets import Following

            self._following = Following(self._options)
        return self._following

    def initialOffset(self) -> Noted:  # noqa: N802
        return noted(self.following.initial())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.following.freeze()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Only tells Spark that there is a limit: `following` knows all of them."""
        options = self._options
        if options.offsets_per_trigger_max is not None:
            return ReadMaxRows(options.offsets_per_trigger_max)
        if options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(options.bytes_per_trigger_max)
        if options.offsets_per_trigger_min is not None:
            return ReadMinRows(options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def latestOffset(self, start: Noted, limit: ReadLimit) -> Noted:  # noqa: N802
        limited = not isinstance(limit, ReadAllAvailable)
        return noted(self.following.latest(places_of(start), limited=limited))

    def reportLatestOffset(self) -> Noted:  # noqa: N802
        latest = noted(self.following.reported())
        if self._options.group is None:
            return with_broker(latest, self._options.bootstrap)
        return latest

    def partitions(self, start: Noted, end: Noted) -> Sequence[InputPartition]:
        tasks = self.following.tasks(places_of(start), places_of(end))
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read_task(self._recipe, partition)

    def commit(self, end: Noted) -> None:
        """Nothing: it comes a batch late, and never for the last one."""

    def stop(self) -> None:
        if self._following is not None:
            self._following.close()
