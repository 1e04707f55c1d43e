"""What a task does: its ranges, fetched as bytes and given to Spark as Arrow columns."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from goqueue.client.kafka import (
    EARLIEST,
    LATEST,
    ErrorCode,
    Fetched,
    KafkaClient,
    KafkaRefused,
)
from goqueue.spark.columns import Decoded, Decoder, decode_batches, engines
from goqueue.spark.runtime.garbage import freeze_gc
from goqueue.spark.source.connection import connect
from goqueue.spark.source.loss import describe_deleted, log_went_back
from goqueue.spark.source.plan import OffsetRange, Task
from goqueue.spark.source.read_plan import ReadPlan

if TYPE_CHECKING:
    import pyarrow as pa

MEBIBYTE: Final = 1024 * 1024
# Compiled loops are quickest on what the processor's caches hold; numpy wants many batches at once.
FETCH_BYTES: Final = {"compiled": 4 * MEBIBYTE, "numpy": 16 * MEBIBYTE}


def read(read_plan: ReadPlan, task: Task) -> "Iterator[pa.RecordBatch]":
    """The rows of a task's ranges, in order."""
    if read_plan.unit == "range":
        yield _ranges(read_plan, task)
        return
    with connect(read_plan.bootstrap, read_plan.timeout_ms, read_plan.login) as client:
        for each in task:
            yield from _RangeReader(read_plan, client, each).rows()
    freeze_gc()


def _ranges(read_plan: ReadPlan, task: Task) -> "pa.RecordBatch":
    import pyarrow as pa

    topics, partitions, starts, ends = zip(*task, strict=True)
    columns = {
        "topic": pa.array(topics, pa.string()),
        "partition": pa.array(partitions, pa.int32()),
        "startOffset": pa.array(starts, pa.int64()),
        "endOffset": pa.array(ends, pa.int64()),
    }
    return pa.RecordBatch.from_pydict({name: columns[name] for name in read_plan.columns})


class _RangeReader:
    def __init__(self, read_plan: ReadPlan, client: KafkaClient, wanted: OffsetRange) -> None:
        self._read_plan = read_plan
        self._client = client
        self._wanted = wanted
        self._decode = _decoder(read_plan, wanted)
        self._bytes_max = read_plan.fetch_bytes or FETCH_BYTES[engines.choose().name]
        self._offset = wanted.start  # every row before it was given

    def rows(self) -> "Iterator[pa.RecordBatch]":
        """From the files if there are any to read, and what these do not give from the server."""
        for fetched in self._files():
            yield from self._rows_of(fetched)
        while self._offset < self._wanted.end:
            try:
                for fetched in self._fetches():
                    yield from self._rows_of(fetched)
            except KafkaRefused as refused:
                if refused.code is not ErrorCode.offset_out_of_range:
                    raise
                self._skip_what_is_lost(refused)
            else:
                return

    def _files(self) -> Iterator[Fetched]:
        if self._read_plan.log_dir is None:
            return iter(())
        from goqueue.spark.source.files import read_files

        return read_files(
            self._read_plan.log_dir,
            self._wanted,
            bytes_max=self._bytes_max,
            read_committed=self._read_plan.read_committed,
        )

    def _fetches(self) -> Iterator[Fetched]:
        return self._client.fetch_range(
            self._wanted.topic,
            self._wanted.partition,
            self._offset,
            self._wanted.end,
            bytes_max=self._bytes_max,
            read_committed=self._read_plan.read_committed,
        )

    def _rows_of(self, fetched: Fetched) -> "Iterator[pa.RecordBatch]":
        if not fetched.records:
            self._check_end(fetched)
            return
        aborted = [(each.producer_id, each.first_offset) for each in fetched.aborted]
        while True:
            decoded = self._decode(fetched.records, self._offset, aborted)
            self._offset = decoded.next_offset
            if decoded.batch.num_rows:
                yield decoded.batch
            if not decoded.more:
                return

    def _check_end(self, fetched: Fetched) -> None:
        """Nothing is left before the end of the range: a gap, or a log that is not what it was."""
        committed = self._read_plan.read_committed
        latest = fetched.last_stable_offset if committed else fetched.high_watermark
        if latest < self._wanted.end and self._read_plan.fail_on_data_loss:
            raise log_went_back(self._wanted.where, wanted=self._wanted.end, latest=latest)

    def _skip_what_is_lost(self, refused: KafkaRefused) -> None:
        """Go on at the earliest there is, if that is allowed."""
        where, wanted = self._wanted.where, self._offset
        earliest = self._client.list_offsets({where: EARLIEST})[where].offset
        latest = self._client.list_offsets({where: LATEST}, read_committed=False)[where].offset
        if wanted < earliest:
            lost = describe_deleted(where, wanted=wanted, earliest=earliest)
            self._offset = earliest
        elif wanted > latest:
            lost = log_went_back(where, wanted=wanted, latest=latest)
            self._offset = self._wanted.end
        else:
            raise refused  # it is in range now: whatever this is, it is not about lost data
        if self._read_plan.fail_on_data_loss:
            raise lost from refused


Decode = Callable[[memoryview, int, Sequence[tuple[int, int]]], Decoded]


def _decoder(read_plan: ReadPlan, wanted: OffsetRange) -> Decode:
    """Fetched bytes, the first offset wanted and the aborted transactions, to rows."""
    if read_plan.unit == "batch":
        return _batch_decoder(read_plan, wanted)
    if read_plan.values is not None:
        from goqueue.spark.source.typed_decoder import typed_decoder

        return typed_decoder(read_plan, read_plan.values, wanted)
    decoder = Decoder(wanted.topic, wanted.partition, read_plan.columns)

    def decode(raw: memoryview, start: int, aborted: Sequence[tuple[int, int]]) -> Decoded:
        return decoder.decode(
            raw,
            start=start,
            end=wanted.end,
            aborted=aborted,
            read_committed=read_plan.read_committed,
        )

    return decode


def _batch_decoder(read_plan: ReadPlan, wanted: OffsetRange) -> Decode:
    import pyarrow as pa

    def decode(raw: memoryview, start: int, aborted: Sequence[tuple[int, int]]) -> Decoded:
        decoded = decode_batches(
            raw,
            partition=wanted.partition,
            start=start,
            end=wanted.end,
            aborted=aborted,
            read_committed=read_plan.read_committed,
        )
        rows = decoded.batch
        topics = pa.repeat(pa.scalar(wanted.topic, pa.string()), rows.num_rows)
        whole = rows.add_column(0, "topic", topics)
        return decoded._replace(batch=whole.select(list(read_plan.columns)))

    return decode
