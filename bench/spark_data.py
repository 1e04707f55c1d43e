"""A topic for Spark to read, and what must come out of it: sums that no other contents have."""

import zlib
from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa

from bench.payload import POOL_BYTES, pool
from goqueue.client.kafka import KafkaClient
from goqueue.model.ids import TopicPartition
from goqueue.spark.columns import Encoder

STEP_RECORDS = 50_000
BATCH_BYTES = 100_000  # some ten times what a busy producer sends
KEY_BYTES = 12
FIRST_TIMESTAMP_US = 1_700_000_000_000_000


class Sums(msgspec.Struct):
    """Of all records of a topic."""

    records: int = 0
    offsets: int = 0
    keys: int = 0
    """CRC-32 of each, added."""
    values: int = 0
    timestamps_ms: int = 0


def fill(bootstrap: str, topic: str, *, records: int, size: int, partitions: int) -> Sums:
    """Keys of 12 bytes, values such that both make `size`, a millisecond a record."""
    sums = Sums()
    encoder = Encoder(topic, lambda _: partitions, batch_bytes_max=BATCH_BYTES)
    with KafkaClient(bootstrap) as client:
        client.create_topic(topic, partitions=partitions, settings={"retention.ms": "-1"})
        for partition in range(partitions):
            for rows in _rows(partition, records // partitions, size - KEY_BYTES, sums):
                made = [each.raw for each in encoder.encode(rows)]
                client.produce({TopicPartition(topic, partition): made})
    return sums


def _rows(partition: int, count: int, value_bytes: int, sums: Sums) -> Iterator[pa.RecordBatch]:
    for start in range(0, count, STEP_RECORDS):
        numbers = range(start, min(start + STEP_RECORDS, count))
        keys = [b"%04d%08d" % (partition, number) for number in numbers]
        values = [_value(partition, number, value_bytes) for number in numbers]
        moments = np.arange(numbers.start, numbers.stop, dtype=np.int64) * 1000 + FIRST_TIMESTAMP_US
        sums.records += len(numbers)
        sums.offsets += sum(numbers)
        sums.keys += sum(map(zlib.crc32, keys))
        sums.values += sum(map(zlib.crc32, values))
        sums.timestamps_ms += int((moments // 1000).sum())
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(keys, pa.binary()),
                pa.array(values, pa.binary()),
                pa.array([partition] * len(keys), pa.int32()),
                pa.array(moments, pa.timestamp("us", tz="UTC")),
            ],
            names=["key", "value", "partition", "timestamp"],
        )


def _value(partition: int, number: int, size: int) -> bytes:
    start = (number + partition * 104_729) * 7919 % (POOL_BYTES - size)
    return pool()[start : start + size]
