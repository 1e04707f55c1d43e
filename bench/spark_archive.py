"""Archiving a topic to Parquet: `python -m bench.spark_archive [--rows N] [--formats parquet,...]`.

A topic of rows of about 100 bytes, all different, is archived from its start with one trigger, in
several ways in turns: ours, ours over rows that Spark has opened (`records`), into an object store
(`s3-parquet`, `s3-delta`: the server at `AWS_ENDPOINT_URL`, or moto's in a process of its own), and
Spark's own writer for comparison, which commits nothing exactly once.  All with zstd and days.  The
rate is that of the micro-batches; beside it stands the CPU time of all processes of the job, which
other work on the machine disturbs less, and that of the store: moto is a server in Python, which
shares our cores.  Everything is read back by pyarrow and compared: every
offset once, every value where it belongs.
"""

import argparse
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
from rich.console import Console
from rich.table import Table

from bench.spark_broker import TICKS_A_SECOND, Broker
from demo.object_lake import ObjectLake
from goqueue.client.kafka import KafkaClient
from goqueue.model.ids import TopicPartition
from goqueue.spark.columns.encoder import Encoder
from goqueue.spark.lake import open_table
from goqueue.spark.lake.store import store_of

TOPIC = "bench"
PARTITIONS = 8
VALUE_BYTES = 80
CHUNK_ROWS = 100_000
BATCH_ROWS = 1_000
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
BUCKET = "s3://lake"
STORE: list[int] = []  # the process of the object store, where it is ours
DAYS = {"date_column": "date", "time_column": "timestamp"}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--master", default="local[2]")
    options.add_argument("--repeats", type=int, default=2)
    options.add_argument("--ways", default="parquet,delta,iceberg,records,native")
    given = options.parse_args()
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="goqueue-bench-")))
        os.chdir(home)  # for checkpoints of archives in an object store
        if "s3-" in given.ways and "AWS_ENDPOINT_URL" not in os.environ:
            lake = ObjectLake(home)
            stack.callback(lake.close)
            os.environ.update(lake.environment)
            STORE.append(lake.store_pid)
        broker = Broker(home)
        stack.callback(broker.end)
        fill(broker.address, given.rows)
        show(measured(home, broker, given), given.rows)


def fill(address: str, rows: int) -> None:
    """The value of each row begins with its number in its partition."""
    with KafkaClient(address) as client:
        client.create_topic(TOPIC, partitions=PARTITIONS, settings={"retention.ms": "-1"})
        for start in range(0, rows // PARTITIONS, CHUNK_ROWS):
            count = min(CHUNK_ROWS, rows // PARTITIONS - start)
            chunk = _chunk(start, count)
            for partition in range(PARTITIONS):
                encoder = Encoder(TOPIC, lambda _: PARTITIONS, "none", BATCH_ROWS * 110)
                places = pa.array(np.full(count, partition, np.int32))
                made = encoder.encode(chunk.append_column("partition", places))
                client.produce({TopicPartition(TOPIC, partition): [each.raw for each in made]})


def _chunk(start: int, count: int) -> Any:
    random = np.random.default_rng(start)
    values = random.integers(32, 127, (count, VALUE_BYTES), dtype=np.uint8)
    numbers = np.char.zfill(np.arange(start, start + count).astype("S10"), 10)
    values[:, :10] = numbers.view(np.uint8).reshape(count, 10)
    data = pa.py_buffer(values.tobytes())
    ends = pa.py_buffer(np.arange(0, count * VALUE_BYTES + 1, VALUE_BYTES, dtype=np.int32))
    value = pa.BinaryArray.from_buffers(pa.binary(), count, [None, ends, data])
    key = pa.array([b"key-%06d" % (each % 50_000) for each in range(start, start + count)])
    now = np.full(count, int(time.time()) * 1_000_000, np.int64)
    return pa.RecordBatch.from_arrays(
        [key, value, pa.array(now).cast(pa.timestamp("us", "UTC"))],
        names=["key", "value", "timestamp"],
    )


def measured(home: Path, broker: Broker, given: argparse.Namespace) -> list[tuple[str, ...]]:
    import goqueue.spark

    session = goqueue.spark.session(app_name="bench", master=given.master)
    lines = []
    try:
        first = given.ways.split(",")[0]
        _timed(session, broker, first, f"{home}/warm", given.rows)  # the JVM compiles its code
        for turn in range(given.repeats):
            for way in given.ways.split(","):
                place = BUCKET if way.startswith("s3-") else str(home)
                target = f"{place}/{way}-{turn}"
                lines.append(
                    (f"{way} {turn + 1}", *_timed(session, broker, way, target, given.rows))
                )
                shutil.rmtree(target, ignore_errors=True)
    finally:
        session.stop()
    return lines


def _timed(session: Any, broker: Broker, way: str, target: str, rows: int) -> tuple[str, ...]:
    before, broker_before, start = _cpu_seconds(), broker.cpu_seconds(), time.monotonic()
    store_before = _store_cpu_seconds()
    query = WAYS[way](session, broker.address, target)
    query.awaitTermination()
    wall = time.monotonic() - start
    cpu, broker_cpu = _cpu_seconds() - before, broker.cpu_seconds() - broker_before
    store_cpu = _store_cpu_seconds() - store_before
    batch = sum(each["durationMs"]["triggerExecution"] for each in query.recentProgress) / 1000
    format = way.removeprefix("s3-")
    size = verified(target, "parquet" if way in ("records", "native") else format, rows)
    return (
        f"{rows / batch / 1e6:.2f}",
        f"{rows / wall / 1e6:.2f}",
        f"{cpu / rows * 1e6:.2f}",
        f"{broker_cpu / rows * 1e6:.2f}",
        f"{store_cpu / rows * 1e6:.2f}",
        f"{size / rows:.0f}",
    )


def _archive(format: str) -> Callable[[Any, str, str], Any]:
    def start(session: Any, address: str, target: str) -> Any:
        from goqueue.spark.archive.job import AVAILABLE_NOW, archive
        from goqueue.spark.archive.options import ArchiveOptions

        return archive(
            session,
            ArchiveOptions(
                bootstrap=address,
                topics=(TOPIC,),
                target=str(target),
                format=format,  # type: ignore[arg-type]
                trigger=AVAILABLE_NOW,
            ),
        )

    return start


def _rows(session: Any, address: str) -> Any:
    reader = session.readStream.format("goqueue").option("bootstrap.servers", address)
    reader = reader.option("subscribe", TOPIC).option("startingOffsets", "earliest")
    return reader.option("includeHeaders", "true").load()


def _records(session: Any, address: str, target: str) -> Any:
    from goqueue.spark.archive.archiver import Archiver, ArchiveSettings
    from goqueue.spark.archive.job import into, topic_facts
    from goqueue.spark.archive.options import ArchiveOptions

    options = ArchiveOptions(bootstrap=address)
    settings = ArchiveSettings(target=str(target))
    job = Archiver(settings, lambda topic: topic_facts(options, topic))
    job.meet([TOPIC])
    writer = _rows(session, address).writeStream.foreachBatch(into(job))
    return _started(writer, target)


def _native(session: Any, address: str, target: str) -> Any:
    def write(rows: Any, _: int) -> None:
        dated = rows.selectExpr("*", "cast(timestamp as date) as date")
        dated.write.partitionBy("date").option("compression", "zstd").parquet(f"{target}/{TOPIC}")

    return _started(_rows(session, address).writeStream.foreachBatch(write), target)


def _started(writer: Any, target: str) -> Any:
    writer = writer.option("checkpointLocation", f"{target}/_checkpoint")
    return writer.trigger(availableNow=True).start()


WAYS = {
    "parquet": _archive("parquet"),
    "delta": _archive("delta"),
    "iceberg": _archive("iceberg"),
    "s3-parquet": _archive("parquet"),
    "s3-delta": _archive("delta"),
    "records": _records,
    "native": _native,
}


def verified(target: str, format: str, rows: int) -> int:
    """Read all back; gives how many bytes the table takes."""
    table = open_table(format, f"{target}/{TOPIC}", **DAYS)
    store = store_of(table.location)
    paths = [store.path(each.path) for each in table.files()]
    files = pa.dataset.dataset(paths, format="parquet", filesystem=store.filesystem)
    found = files.to_table(columns=["partition", "offset", "value", "key", "timestamp"])
    assert found.num_rows == rows // PARTITIONS * PARTITIONS, (found.num_rows, rows)
    numbers = pc.binary_slice(found["value"], 0, 10).cast(pa.string()).cast(pa.int64())
    assert numbers.equals(found["offset"]), "a value is not where it belongs"
    places = pc.add(pc.multiply(found["partition"].cast(pa.int64()), 1 << 40), found["offset"])
    assert pc.count_distinct(places).as_py() == found.num_rows, "an offset is there twice"
    return sum(each.bytes for each in table.files())


def _cpu_seconds() -> float:
    """Of this process, the JVM and its workers; what has ended is counted with its parent."""
    family = {os.getpid()}
    total = 0
    for path in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda each: int(each.parent.name)):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        number = int(path.parent.name)
        if number in family or int(fields[1]) in family:
            family.add(number)
            total += sum(map(int, fields[11:15]))
    return total / TICKS_A_SECOND


def _store_cpu_seconds() -> float:
    """Of the store's own process: one that a lake pays for has machines of its own."""
    total = 0
    for pid in STORE:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:13]))
    return total / TICKS_A_SECOND


def show(lines: list[tuple[str, ...]], rows: int) -> None:
    table = Table(
        title=f"{rows:,} rows of {VALUE_BYTES} bytes and a key, zstd; load {os.getloadavg()}"
    )
    for each in (
        "way",
        "M rows/s in batches",
        "M rows/s with start and stop",
        "CPU us a row",
        "of it the broker's, beside",
        "of it the store's",
        "bytes a row",
    ):
        table.add_column(each, justify="right")
    for line in lines:
        table.add_row(*line)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
