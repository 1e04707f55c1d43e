"""How fast Spark reads values by their schemas: `python -m bench.spark_values [--records N]`.

The same orders as raw bytes and, by schema id, as columns: Avro, JSON and Protobuf, each its own
topic of eight partitions.  One session on two cores, everything in turns; two turns go by
unmeasured.  Contents are verified by sums.  `fastavro` is what one process reads without Spark, row
by row, and `columns` what our own reader does there with the same payloads.
"""

import argparse
import io
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from bench.spark_broker import Broker
from bench.spark_cpu import jvm_pid, spark_cpu
from goqueue.client import Client
from goqueue.client.kafka import KafkaClient
from goqueue.model.batch import encode
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.schemas import SchemaText, SchemaType, parse_schema
from goqueue.spark.columns import engines
from goqueue.spark.values.reading import ValueReader
from goqueue.spark.values.writing import ValueWriter

PARTITIONS = 8
BATCH = 1_000
WARM_UPS = 2
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "store", "type": "string"},
        {"name": "customer", "type": ["null", "string"]},
        {"name": "amount", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
PROTOBUF = """syntax = "proto3";
message Order { int64 id = 1; string store = 2; optional string customer = 3; double amount = 4;
  bool paid = 5; string note = 6; }"""
JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "store": {"type": "string"},
        "customer": {"type": ["string", "null"]},
        "amount": {"type": "number"},
        "paid": {"type": "boolean"},
    },
}
SCHEMAS = {
    SchemaType.AVRO: json.dumps(AVRO),
    SchemaType.JSON: json.dumps(JSON),
    SchemaType.PROTOBUF: PROTOBUF,
}


class Pass(NamedTuple):
    """Of one reading of a topic: seconds on the clock, and of the processor."""

    seconds: float
    jvm: float
    workers: float


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--records", type=int, default=1_000_000)
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, decoder: {engines.choose().name}")
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as directory:
        broker = Broker(Path(directory))
        try:
            _measure(broker, given.records, given.repeats)
        finally:
            broker.end()


def _measure(broker: Broker, records: int, repeats: int) -> None:
    import goqueue.spark

    with KafkaClient(broker.address) as kafka:
        url = kafka.http_url()
        sizes = {kind: _fill(kafka, url, kind, records) for kind in SCHEMAS}
    spark = goqueue.spark.session(master="local[2]", settings={"spark.driver.memory": "3g"})
    jobs: dict[str, Any] = {}
    for kind, size in sizes.items():
        topic = kind.lower()
        for name, more in (("raw", {}), ("by schema", {"value.format": "registry"})):
            told = {"bootstrap.servers": broker.address, "subscribe": topic, **more}
            frame = spark.read.format("goqueue").options(**told).load()
            jobs[f"{topic:8} {size:4.0f} B, {name}"] = frame
        found = frame.selectExpr("count(*)", "sum(value.id)").first()
        assert tuple(found) == (records, records * (records - 1) // 2), found
    jvm = jvm_pid(spark)
    passes: dict[str, list[Pass]] = {name: [] for name in jobs}
    for _ in range(WARM_UPS + repeats):
        for name, frame in jobs.items():
            before, began = spark_cpu(jvm), time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            seconds, after = time.perf_counter() - began, spark_cpu(jvm)
            passes[name].append(
                Pass(seconds, after.jvm - before.jvm, after.workers - before.workers)
            )
    print(f"  {'':24} M rows/s, median (best); CPU us a row, least: JVM, workers")
    for name, found in passes.items():
        warm = found[WARM_UPS:]
        median = records / 1e6 / statistics.median(each.seconds for each in warm)
        best = records / 1e6 / min(each.seconds for each in warm)
        java, python = (min(each[at] for each in warm) / records * 1e6 for at in (1, 2))
        print(f"  {name:24} {median:5.2f} ({best:.2f}) {java:6.2f} {python:6.2f}", flush=True)
    _without_spark(min(records, 200_000))


def _rows(first: int, count: int, *, with_time: bool) -> Any:
    numbers = range(first, first + count)
    columns: dict[str, Any] = {
        "id": pa.array(numbers, pa.int64()),
        "store": [f"store-{n % 100}" for n in numbers],
        "customer": [None if n % 7 == 0 else f"customer-{n * 7919 % 100_000}" for n in numbers],
        "amount": [n % 1_000 / 4 for n in numbers],
        "paid": [n % 3 == 0 for n in numbers],
    }
    if with_time:
        moments = pa.array([1_700_000_000_000 + n for n in numbers], pa.timestamp("ms", "UTC"))
        columns["at"] = moments.cast(pa.timestamp("us", "UTC"))
    table = pa.table(columns)
    return pa.StructArray.from_arrays(
        [each.chunk(0) for each in table.columns], fields=list(table.schema)
    )


def _fill(kafka: KafkaClient, url: str, kind: SchemaType, records: int) -> float:
    """Gives the average size of a value."""
    topic = kind.lower()
    kafka.create_topic(topic, partitions=PARTITIONS, settings={"retention.ms": "-1"})
    with Client(url) as client:
        made = client.register_schema(f"{topic}-value", SCHEMAS[kind], kind)
    writer = ValueWriter(parse_schema(SchemaText(SCHEMAS[kind], kind), {}), made.id)
    size = 0
    for first in range(0, records, BATCH):
        count = min(BATCH, records - first)
        values = writer.write(_rows(first, count, with_time=kind is SchemaType.AVRO)).to_pylist()
        size += sum(map(len, values))
        rows = [
            Record(offset=index, timestamp=1_700_000_000_000, key=None, value=value)
            for index, value in enumerate(values)
        ]
        place = TopicPartition(TopicName(topic), first // BATCH % PARTITIONS)
        kafka.produce({place: [encode(rows)]})
    return size / records


def _without_spark(records: int) -> None:
    schema = parse_schema(SchemaText(SCHEMAS[SchemaType.AVRO]), {})
    values = ValueWriter(schema, 1).write(_rows(0, records, with_time=True))
    reader = ValueReader(schema, lambda _: schema)
    reader.read(values)
    began = time.perf_counter()
    reader.read(values)
    ours = time.perf_counter() - began
    parsed = fastavro.parse_schema(AVRO)
    payloads = [value[5:] for value in values.to_pylist()]
    began = time.perf_counter()
    for payload in payloads:
        fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)
    theirs = time.perf_counter() - began
    for name, seconds in (("columns", ours), ("fastavro", theirs)):
        print(f"  {name:24} {records / 1e6 / seconds:5.2f} M rows/s, one process, no Spark")


if __name__ == "__main__":
    main()
