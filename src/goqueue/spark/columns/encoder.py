"""Arrow rows to record batches, each for one partition, ready to be produced.

    encoder = Encoder("orders", counts.__getitem__, compression="zstd")
    for made in encoder.encode(batch):
        stamp(made.raw, producer_id=7, epoch=0, sequence=120, transactional=True)

Rows of one partition keep their order.  Rows are divided by what they take at most, and a block
that compression makes larger goes as it is: so no batch exceeds its limit, except that of a lone
row which is larger by itself.
"""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from goqueue.model import batch as batches
from goqueue.model.batch import HEADER_BYTES, Buffer
from goqueue.model.compression import codec_id
from goqueue.model.errors import BatchTooLarge, InvalidSetting, InvalidTimestamp
from goqueue.spark.columns import engines
from goqueue.spark.columns.fields import Integers
from goqueue.spark.columns.routing import Router
from goqueue.spark.columns.rows import FRAMING_BYTES_MAX, check_columns, rows_of

BATCH_BYTES_MAX = 1024 * 1024 - 1024  # a broker takes a little more than 1 MiB
ROWS_BYTES_MAX = 256 * 1024 * 1024  # at once: as records they take more, but less than 2 GiB
_INT64_MAX = 2**63 - 1


class Encoded(NamedTuple):
    """One record batch, sound as it is; `stamp` gives it a producer."""

    topic: str
    partition: int
    records: int
    raw: bytearray


class Encoder:
    """Makes record batches of rows.  `rows.py` tells their columns, `routing.py` where they go."""

    def __init__(
        self,
        topic: str | None,
        partition_counts: Callable[[str], int],
        compression: str = "none",
        batch_bytes_max: int = BATCH_BYTES_MAX,
        *,
        message_bytes_max: int | None = None,
        first_partition: int = 0,
        engine: engines.Engine | None = None,
    ) -> None:
        """With a `topic` all rows go there.  Rows that may go anywhere begin at `first_partition`:
        writers side by side spread by having different ones.  A row that is larger than a batch may
        be takes up to `message_bytes_max`, no more than others if None.  Raises `InvalidSetting`.
        """
        if batch_bytes_max <= HEADER_BYTES + FRAMING_BYTES_MAX:
            raise InvalidSetting(f"batches of {batch_bytes_max} bytes have no room for a record")
        self._engine = engine or engines.choose()
        self._topic = topic
        self._codec = codec_id(compression)
        self._message_bytes_max = max(batch_bytes_max, message_bytes_max or 0)
        self._block_bytes_max = batch_bytes_max - HEADER_BYTES
        self._router = Router(
            topic,
            partition_counts,
            first_partition=first_partition,
            turn_bytes=self._block_bytes_max,
            engine=self._engine,
        )

    def encode(self, batch: pa.RecordBatch) -> Iterator[Encoded]:
        """Batches with all the rows; raises `InvalidRequest`, `InvalidRecord`, `BatchTooLarge`."""
        check_columns(batch.schema, topic=self._topic)
        if batch.nbytes > ROWS_BYTES_MAX and len(batch) > 1:
            half = len(batch) // 2
            yield from self.encode(batch.slice(0, half))
            yield from self.encode(batch.slice(half))
        elif len(batch):
            yield from self._encode(batch)

    def _encode(self, batch: pa.RecordBatch) -> Iterator[Encoded]:
        rows = rows_of(batch, time.time_ns() // 1_000_000)
        _check_span(rows.timestamps)
        costs = rows.sizes() + FRAMING_BYTES_MAX
        routes = self._router.route(batch, rows.keys, costs)
        order = _order(routes.numbers)
        numbers = routes.numbers[order]
        bounds = _bounds(numbers, costs[order], self._block_bytes_max)
        timestamps = rows.timestamps[order]
        latest = np.maximum.reduceat(timestamps, bounds[:-1]).tolist()
        first = 0
        for block, last, max_timestamp in zip(
            self._engine.pack(rows, order, bounds), bounds[1:].tolist(), latest, strict=True
        ):
            topic, partition = routes.place(int(numbers[first]))
            raw = self._assemble(block, last - first, int(timestamps[first]), max_timestamp)
            yield Encoded(topic, partition, last - first, raw)
            first = last

    def _assemble(
        self, block: Buffer, count: int, base_timestamp: int, max_timestamp: int
    ) -> bytearray:
        raw = _assemble(block, count, base_timestamp, max_timestamp, self._codec)
        if self._codec and len(raw) > HEADER_BYTES + len(block):
            raw = _assemble(block, count, base_timestamp, max_timestamp, 0)
        if len(raw) > self._message_bytes_max:
            assert count == 1, "others are divided"
            raise BatchTooLarge(
                f"a message takes {len(raw)} bytes, {self._message_bytes_max} are allowed"
            )
        return raw


def stamp(
    raw: bytearray, *, producer_id: int, epoch: int, sequence: int, transactional: bool
) -> bytearray:
    """`raw` with its producer written into it, and a new checksum."""
    header = batches.header_at(raw, 0)
    batches.stamp_producer(
        raw,
        header,
        producer=(producer_id, epoch, sequence),
        is_transactional=transactional,
    )
    return raw


def _assemble(
    block: Buffer, count: int, base_timestamp: int, max_timestamp: int, codec: int
) -> bytearray:
    return batches.assemble(
        block,
        base_offset=0,
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        count=count,
        attributes=codec,
        producer=(-1, -1, -1),
    )


def _order(numbers: Integers) -> Integers:
    """The rows by partition, in their order.  Sixteen bits are sorted without comparing."""
    if int(numbers.max()) < 2**16:
        return np.argsort(numbers.astype(np.uint16), kind="stable")
    return np.argsort(numbers, kind="stable")


def _bounds(numbers: Integers, costs: Integers, bytes_max: int) -> Integers:
    """Where batches end: at another partition, or when the next row might be too much."""
    total = np.cumsum(costs)
    groups = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), numbers.size]
    bounds = [0]
    for group_end in groups:
        while bounds[-1] < group_end:
            first = bounds[-1]
            before = int(total[first] - costs[first])
            last = int(np.searchsorted(total, before + bytes_max, "right"))
            bounds.append(min(max(last, first + 1), group_end))
    return np.array(bounds, np.int64)


def _check_span(timestamps: Integers) -> None:
    earliest, latest = int(timestamps.min()), int(timestamps.max())
    if latest - earliest > _INT64_MAX:
        raise InvalidTimestamp(f"{latest} is too far from {earliest}")
