"""How fast Spark writes exactly once: `python -m bench.spark_write [--rows N] [--partitions N]`.

Spark makes rows of 100 bytes (or `--size`) and writes them with the format `goqueue`: as batches
that are decided once, and as a stream that copies a topic.  Where Spark's own Kafka connector can
be had (`--connector`, which asks Maven for it) it writes the same rows to the same broker, at
least once: that is what it can.  Every row is read back, and compared.

Rates are of the whole job, from the call to the decision.  Beside them stands the CPU time of the
broker, and of Spark with all its processes, which other work on the machine disturbs less.
"""

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark

import goqueue.spark
from goqueue.client.kafka import EARLIEST, LATEST, KafkaClient, TopicPartition
from goqueue.spark.columns import Decoder

READY = re.compile(r"GoQueue is ready: kafka=(\S+) ")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
NUMBER_DIGITS = 16
KEY_DIGITS = 10
FETCH_BYTES = 16 * 1024 * 1024
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"

Job = Callable[[str, int], None]


def main() -> None:
    options = argparse.ArgumentParser(description="How fast Spark writes exactly once.")
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--size", type=int, default=100, help="bytes of key and value together")
    options.add_argument("--partitions", type=int, default=8)
    options.add_argument("--cores", type=int, default=2)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--compression", default="none")
    options.add_argument("--connector", action="store_true", help="also Spark's own Kafka sink")
    given = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="goqueue-bench-") as directory,
        running_broker(Path(directory)) as broker,
    ):
        Bench(given, broker, Path(directory)).run()


class Broker:
    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.pid = process.pid
        self.address = address


@contextlib.contextmanager
def running_broker(directory: Path) -> Iterator[Broker]:
    arguments = ["--data-dir", str(directory / "data"), "--log-level", "warning"]
    arguments += ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "goqueue", "server", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = READY.match(process.stdout.readline())
        assert found, "the broker did not start"
        yield Broker(process, found[1])
    finally:
        process.terminate()
        process.wait(20)


class Bench:
    def __init__(self, given: argparse.Namespace, broker: Broker, directory: Path) -> None:
        self._given = given
        self._broker = broker
        self._directory = directory
        self._client = KafkaClient(broker.address)
        settings = {"spark.jars.packages": CONNECTOR} if given.connector else {}
        self._spark = goqueue.spark.session(master=f"local[{given.cores}]", settings=settings)

    def run(self) -> None:
        given = self._given
        print(
            f"{given.rows} rows of {given.size} bytes, {given.partitions} partitions,"
            f" local[{given.cores}], compression {given.compression}, median of {given.repeats}"
        )
        print(f"{'':34} {'M rows/s':>9} {'MB/s':>7} {'CPU s/M rows: broker':>21} {'Spark':>7}")
        self._measure("batch, decided once", self._save)
        self._measure("stream from a topic, decided once", self._copy)
        if given.connector:
            self._measure("Kafka's connector, at least once", self._save_with_connector)
        self._spark.stop()

    def _measure(self, name: str, job: Job) -> None:
        self._pass(job, self._given.rows // 10)  # a warm-up
        passes = [self._pass(job, self._given.rows) for _ in range(self._given.repeats)]
        seconds, broker, spark = (statistics.median(each) for each in zip(*passes, strict=True))
        rate = self._given.rows / seconds / 1e6
        a_million = self._given.rows / 1e6
        print(
            f"{name:34} {rate:9.2f} {rate * self._given.size:7.0f}"
            f" {broker / a_million:21.2f} {spark / a_million:7.2f}"
        )

    def _pass(self, job: Job, rows: int) -> tuple[float, float, float]:
        topic = f"target-{os.urandom(4).hex()}"
        self._client.create_topic(topic, partitions=self._given.partitions)
        if job == self._copy:
            self._save(f"{topic}-source", rows)
        before = cpu_seconds(self._broker.pid), offspring_cpu_seconds(self._broker.pid)
        began = time.perf_counter()
        job(topic, rows)
        seconds = time.perf_counter() - began
        after = cpu_seconds(self._broker.pid), offspring_cpu_seconds(self._broker.pid)
        self._check(topic, rows)
        for name in self._client.metadata():
            if name.startswith(topic):
                self._client.delete_topic(name)
        return seconds, after[0] - before[0], after[1] - before[1]

    # --- jobs -------------------------------------------------------------------------------------

    def _save(self, topic: str, rows: int) -> None:
        version = {"txnAppId": topic, "txnVersion": "0"}
        writing = self._rows(rows).write.format("goqueue").options(**self._target(topic), **version)
        writing.mode("append").save()

    def _copy(self, topic: str, rows: int) -> None:
        reading = self._spark.readStream.format("goqueue").options(**self._server())
        source = reading.option("subscribe", f"{topic}-source").option(
            "startingOffsets", "earliest"
        )
        writing = source.load().select("key", "value").writeStream.format("goqueue")
        writing = writing.options(**self._target(topic))
        writing = writing.option("checkpointLocation", str(self._directory / f"{topic}.checkpoint"))
        writing.trigger(availableNow=True).start().awaitTermination()

    def _save_with_connector(self, topic: str, rows: int) -> None:
        writing = self._rows(rows).write.format("kafka").option("topic", topic)
        writing.option("kafka.bootstrap.servers", self._broker.address).save()

    def _rows(self, rows: int) -> Any:
        filler = "x" * (self._given.size - KEY_DIGITS - NUMBER_DIGITS)
        return self._spark.range(rows).selectExpr(
            f"lpad(cast(id % 1000003 as string), {KEY_DIGITS}, '0') as key",
            f"concat(lpad(cast(id as string), {NUMBER_DIGITS}, '0'), '{filler}') as value",
        )

    def _server(self) -> dict[str, str]:
        return {"bootstrap.servers": self._broker.address}

    def _target(self, topic: str) -> dict[str, str]:
        return self._server() | {"topic": topic, "compression": self._given.compression}

    # --- the check --------------------------------------------------------------------------------

    def _check(self, topic: str, rows: int) -> None:
        """Every row is there, once, and has its bytes."""
        seen = np.zeros(rows, np.int64)
        filler = "x" * (self._given.size - KEY_DIGITS - NUMBER_DIGITS)
        for partition in range(self._given.partitions):
            for values in self._values(topic, partition):
                text = values.cast(pa.string())
                assert pc.all(
                    pc.equal(pc.utf8_slice_codeunits(text, NUMBER_DIGITS), filler)
                ).as_py()
                numbers = pc.utf8_slice_codeunits(text, 0, NUMBER_DIGITS).cast(pa.int64())
                np.add.at(seen, numbers.to_numpy(), 1)
        missing, twice = int((seen == 0).sum()), int((seen > 1).sum())
        assert not missing, f"{missing} rows are missing"
        if twice:
            print(f"  {topic}: {twice} rows are there more than once")

    def _values(self, topic: str, partition: int) -> Iterator[pa.Array]:
        place = TopicPartition(topic, partition)
        decoder = Decoder(topic, partition, ("value",))
        offset = self._client.list_offsets({place: EARLIEST})[place].offset
        end = self._client.list_offsets({place: LATEST})[place].offset
        while offset < end:
            fetched = self._client.fetch(topic, partition, offset, bytes_max=FETCH_BYTES)
            aborted = [(each.producer_id, each.first_offset) for each in fetched.aborted]
            more = True
            while more:
                decoded = decoder.decode(fetched.records, start=offset, end=end, aborted=aborted)
                yield decoded.batch.column("value")
                offset, more = decoded.next_offset, decoded.more


# --- CPU time -------------------------------------------------------------------------------------


def offspring_cpu_seconds(without: int) -> float:
    """Of this process and all that it started, Spark's JVM and workers among them, but one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                parents[int(entry.name)] = int(_fields(int(entry.name))[1])
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours - {without}:
        ours |= more
    total = 0.0
    for pid in ours:
        with contextlib.suppress(OSError):
            total += cpu_seconds(pid)
    return total


def cpu_seconds(pid: int) -> float:
    """With that of its children that have ended."""
    return sum(map(int, _fields(pid)[11:15])) / TICKS_A_SECOND


def _fields(pid: int) -> list[str]:
    """Those after the name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


if __name__ == "__main__":
    main()
