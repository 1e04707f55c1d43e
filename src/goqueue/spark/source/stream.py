"""The stream as Spark calls it; what it decides is in `stream_offsets`."""

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

from goqueue.spark.source.offsets import (
    StoredOffsets,
    changed_topics,
    places_of,
    stored_offsets,
    topic_ids_of,
    with_broker,
    without_topics,
)
from goqueue.spark.source.options import SourceOptions
from goqueue.spark.source.read_plan import ReadPlan
from goqueue.spark.source.tasks import read_task

if TYPE_CHECKING:
    import pyarrow as pa

    from goqueue.spark.source.stream_offsets import StreamOffsets


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """In the driver it knows the offsets; in a task, where it is a pickled copy, it only reads."""

    def __init__(self, options: SourceOptions, read_plan: ReadPlan) -> None:
        self._options = options
        self._read_plan = read_plan
        self._offsets: StreamOffsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_offsets": None}

    @property
    def offsets(self) -> "StreamOffsets":
        if self._offsets is None:
            from goqueue.spark.source.stream_offsets import StreamOffsets

            self._offsets = StreamOffsets(self._options)
        return self._offsets

    def initialOffset(self) -> StoredOffsets:  # noqa: N802
        return stored_offsets(self.offsets.initial(), self.offsets.topic_ids)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.offsets.freeze()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Only tells Spark that there is a limit: `StreamOffsets` knows all of them."""
        options = self._options
        if options.offsets_per_trigger_max is not None:
            return ReadMaxRows(options.offsets_per_trigger_max)
        if options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(options.bytes_per_trigger_max)
        if options.offsets_per_trigger_min is not None:
            return ReadMinRows(options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def latestOffset(self, start: StoredOffsets, limit: ReadLimit) -> StoredOffsets:  # noqa: N802
        latest = self.offsets.latest(
            places_of(start), topic_ids_of(start), limited=not isinstance(limit, ReadAllAvailable)
        )
        return stored_offsets(latest, self.offsets.topic_ids)

    def reportLatestOffset(self) -> StoredOffsets:  # noqa: N802
        latest = stored_offsets(self.offsets.report_latest(), self.offsets.topic_ids)
        if self._options.group is None:
            return with_broker(latest, self._options.bootstrap, self._options.login_file)
        return latest

    def partitions(self, start: StoredOffsets, end: StoredOffsets) -> Sequence[InputPartition]:
        again = changed_topics(topic_ids_of(start), topic_ids_of(end))
        tasks = self.offsets.tasks(without_topics(places_of(start), again), places_of(end))
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read_task(self._read_plan, partition)

    def commit(self, end: StoredOffsets) -> None:
        """Nothing: it comes a batch late, and never for the last one."""

    def stop(self) -> None:
        if self._offsets is not None:
            self._offsets.close()
