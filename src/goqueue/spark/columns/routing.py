"""Which partition each row goes to.

A row goes where its `partition` says; else where its key hashes to, as in every Kafka producer.
Rows with neither go in turn, a batch's worth to one partition and then to the next, so that
batches stay large.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from goqueue.model.errors import InvalidRecord, PartitionNotFound
from goqueue.spark.columns.engines import Engine
from goqueue.spark.columns.fields import Integers
from goqueue.spark.columns.rows import Bytes, column_of

_POSITIVE = np.uint32(0x7FFF_FFFF)  # Kafka drops the hash's sign bit before it divides

Flags = npt.NDArray[np.bool_]


class Routes(NamedTuple):
    """A number a row: those of one partition have the same."""

    numbers: Integers
    topics: list[str]
    firsts: Integers  # the number of each topic's partition 0

    def place(self, number: int) -> tuple[str, int]:
        """Topic and partition."""
        topic = int(np.searchsorted(self.firsts, number, "right")) - 1
        return self.topics[topic], number - int(self.firsts[topic])


class Router:
    """Remembers whose turn it is."""

    def __init__(
        self,
        topic: str | None,
        partition_counts: Callable[[str], int],
        *,
        first_partition: int,
        turn_bytes: int,
        engine: Engine,
    ) -> None:
        self._topic = topic
        self._partition_counts = partition_counts
        self._first_partition = first_partition
        self._turn_bytes = turn_bytes
        self._engine = engine
        self._turns: dict[str, int] = {}  # taken so far, by topic

    def route(self, batch: pa.RecordBatch, keys: Bytes, costs: Integers) -> Routes:
        """`costs` are the bytes of each row.  Raises `InvalidRecord`, `PartitionNotFound`."""
        topics, topic_of = self._topics(batch)
        counts = np.array([self._partition_counts(topic) for topic in topics], np.int64)
        assert counts.min() > 0, "a topic has partitions"
        partitions, is_given = _read_given(batch)
        _check_given(partitions, is_given, counts[topic_of])
        if bool((has_key := ~keys.nulls & ~is_given).any()):
            hashed = (self._engine.key_hashes(keys) & _POSITIVE).astype(np.int64) % counts[topic_of]
            partitions = np.where(has_key, hashed, partitions)
        if bool((is_free := keys.nulls & ~is_given).any()):
            for number, topic in enumerate(topics):
                rows = np.flatnonzero(is_free & (topic_of == number))
                turns = self._take_turns(topic, costs[rows])
                partitions[rows] = turns % counts[number]
        firsts = np.cumsum(counts) - counts
        return Routes(firsts[topic_of] + partitions, topics, firsts)

    def _topics(self, batch: pa.RecordBatch) -> tuple[list[str], Integers]:
        """The topics, and for each row which of them it goes to."""
        if self._topic is not None:
            return [self._topic], np.zeros(len(batch), np.int64)
        column = batch.column("topic").cast(pa.string())
        if column.null_count:
            raise InvalidRecord(f"row {column.is_null().index(True)} has no topic")
        encoded = column.dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)

    def _take_turns(self, topic: str, costs: Integers) -> Integers:
        """The turn of each row; the next rows begin another."""
        if not costs.size:
            return costs
        first = self._turns.get(topic, self._first_partition)
        # The last row of a turn fits too; but one large row must not scatter the small ones.
        room = max(1, self._turn_bytes - int(costs.max()), self._turn_bytes // 2)
        turns = first + (np.cumsum(costs) - costs) // room
        self._turns[topic] = int(turns[-1]) + 1
        return turns


def _read_given(batch: pa.RecordBatch) -> tuple[Integers, Flags]:
    """The partition that each row names, and whether it names one."""
    column = column_of(batch, "partition")
    if column is None:
        return np.zeros(len(batch), np.int64), np.zeros(len(batch), np.bool_)
    numbers = column.cast(pa.int64())
    return (
        numbers.fill_null(0).to_numpy().astype(np.int64),
        numbers.is_valid().to_numpy(zero_copy_only=False),
    )


def _check_given(partitions: Integers, is_given: Flags, counts: Integers) -> None:
    wrong = np.flatnonzero(is_given & ((partitions < 0) | (partitions >= counts)))
    if wrong.size:
        row = int(wrong[0])
        raise PartitionNotFound(
            f"row {row} names partition {partitions[row]}, its topic has {counts[row]} partitions"
        )
