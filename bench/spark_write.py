"""How fast Spark writes exactly once: `python -m bench.spark_write [--rows N] [--partitions N]`.

One session on two cores, one broker in a process of its own.  Spark makes rows of 100 bytes (or
`--size`) and writes them with the format `goqueue`: as batches that are decided once, and as a
stream that copies a topic.  Where Maven has Spark's own Kafka connector, it writes the same rows to
the same broker: at least once, since that is what it can.  Every row is read back, and compared.

Rates are of the whole job, from the call to the decision.  The first pass of a way is `cold`: in it
the JVM translates its code and workers start.  Two more go by unmeasured, and of those after them
the median is shown.  Beside it stands the CPU time for a million rows of the broker, of Spark's JVM
and of its Python workers, which other work on the machine disturbs less: on two idle cores the rate
cannot exceed two divided by their sum.  What it takes only to make the rows is shown first.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import goqueue.spark
from bench.kafka_connector import NotToBeHad, connector_jars
from bench.spark_broker import Broker
from bench.spark_cpu import jvm_pid, spark_cpu
from goqueue.client.kafka import EARLIEST, LATEST, KafkaClient
from goqueue.model.batch import encode
from goqueue.model.ids import TopicPartition
from goqueue.model.record import Record
from goqueue.spark.columns import Decoder, engines

NUMBER_DIGITS = 16
KEY_DIGITS = 10
KEYS = 1_000_003
FIRST_NUMBER = 10 ** (NUMBER_DIGITS - 1)
FETCH_BYTES = 16 * 1024 * 1024
MICRO_BATCHES = 30
WARM_UPS = 2

Job = Callable[[str, int], None]


class Pass(NamedTuple):
    """Seconds of one: by the clock, and of each one's processor time."""

    clock: float
    broker: float
    jvm: float
    workers: float


def main() -> None:
    options = argparse.ArgumentParser(description="How fast Spark writes exactly once.")
    options.add_argument("--rows", type=int, default=2_000_000)
    options.add_argument("--size", type=int, default=100, help="bytes of key and value together")
    options.add_argument("--partitions", type=int, default=8)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--compression", default="none")
    options.add_argument("--no-connector", action="store_true", help="do without Spark's own")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as directory:
        broker = Broker(Path(directory))
        try:
            Writing(broker, Path(directory), given).measure()
        finally:
            broker.end()


class Writing:
    def __init__(self, broker: Broker, directory: Path, given: argparse.Namespace) -> None:
        self._broker = broker
        self._directory = directory
        self._given = given
        self._client = KafkaClient(broker.address)
        self._spark = goqueue.spark.session(
            master="local[2]", settings={"spark.driver.memory": "3g"}
        )
        self._jvm = jvm_pid(self._spark)

    def measure(self) -> None:
        given = self._given
        print(f"load average {os.getloadavg()[0]:.1f}, encoder: {engines.choose().name}")
        print(
            f"{given.rows:,} rows of {given.size} bytes, {given.partitions} partitions,"
            f" compression {given.compression}, contents verified"
        )
        self._compare("the rows made, and not written", self._make)
        self._compare("batch, decided once", self._save)
        self._compare("stream from a topic, decided once", self._copy)
        if not given.no_connector and self._add_connector():
            self._compare("Spark's connector, at least once", self._save_with_connector)
        self._micro_batches()
        self._spark.stop()

    # --- rates ------------------------------------------------------------------------------------

    def _compare(self, name: str, job: Job) -> None:
        passes = [self._pass(job) for _ in range(1 + WARM_UPS + self._given.repeats)]
        self._tell(f"{name}, cold", passes[0])
        warm = passes[1 + WARM_UPS :]
        self._tell(name, Pass(*map(statistics.median, zip(*warm, strict=True))))

    def _tell(self, name: str, taken: Pass) -> None:
        a_million = self._given.rows / 1e6
        print(
            f"  {name:40} {a_million / taken.clock:6.2f} M rows/s   CPU s a million:"
            f" broker {taken.broker / a_million:.2f}, JVM {taken.jvm / a_million:.2f},"
            f" workers {taken.workers / a_million:.2f}",
            flush=True,
        )

    def _pass(self, job: Job) -> Pass:
        topic, rows = f"target-{os.urandom(4).hex()}", self._given.rows
        self._client.create_topic(topic, partitions=self._given.partitions)
        if job == self._copy:
            self._client.create_topic(f"{topic}-source", partitions=self._given.partitions)
            self._save(f"{topic}-source", rows)
        broker, before = self._broker.cpu_seconds(), spark_cpu(self._jvm)
        began = time.perf_counter()
        job(topic, rows)
        clock = time.perf_counter() - began
        broker, after = self._broker.cpu_seconds() - broker, spark_cpu(self._jvm)
        if job != self._make:
            self._check(topic, rows)
        for name in self._client.metadata():
            if name.startswith(topic):
                self._client.delete_topic(name)
        return Pass(clock, broker, after.jvm - before.jvm, after.workers - before.workers)

    # --- jobs -------------------------------------------------------------------------------------

    def _make(self, topic: str, rows: int) -> None:
        self._rows(rows).write.format("noop").mode("overwrite").save()

    def _save(self, topic: str, rows: int) -> None:
        version = {"txnAppId": topic, "txnVersion": "0"}
        writing = self._rows(rows).write.format("goqueue").options(**self._target(topic), **version)
        writing.mode("append").save()

    def _copy(self, topic: str, rows: int) -> None:
        source = self._stream(f"{topic}-source").select("key", "value")
        writing = source.writeStream.format("goqueue").options(**self._target(topic))
        writing = writing.option("checkpointLocation", str(self._directory / f"{topic}.checkpoint"))
        writing.trigger(availableNow=True).start().awaitTermination()

    def _save_with_connector(self, topic: str, rows: int) -> None:
        writing = self._rows(rows).write.format("kafka").option("topic", topic)
        writing = writing.option("kafka.compression.type", self._given.compression)
        writing.option("kafka.bootstrap.servers", self._broker.address).save()

    def _rows(self, rows: int) -> Any:
        """Numbers that begin with a 1, so that all have as many digits: padding is slow."""
        return self._spark.range(rows).selectExpr(
            f"cast({10 ** (KEY_DIGITS - 1)} + id % {KEYS} as string) as key",
            f"concat(cast({FIRST_NUMBER} + id as string), '{self._filler()}') as value",
        )

    def _filler(self) -> str:
        return "x" * (self._given.size - KEY_DIGITS - NUMBER_DIGITS)

    def _stream(self, topic: str) -> Any:
        reading = self._spark.readStream.format("goqueue").options(**self._server())
        return reading.option("subscribe", topic).option("startingOffsets", "earliest").load()

    def _server(self) -> dict[str, str]:
        return {"bootstrap.servers": self._broker.address}

    def _target(self, topic: str) -> dict[str, str]:
        return self._server() | {"topic": topic, "compression": self._given.compression}

    def _add_connector(self) -> bool:
        try:
            jars = connector_jars()
        except NotToBeHad as error:
            print(f"  without Spark's Kafka connector: {error}")
            return False
        for jar in jars:
            self._spark.sql(f"add jar '{jar}'")
        return True

    # --- contents ---------------------------------------------------------------------------------

    def _check(self, topic: str, rows: int) -> None:
        """Every row is there, once, and has its bytes."""
        seen = np.zeros(rows, np.int64)
        for partition in range(self._given.partitions):
            for values in self._values(topic, partition):
                text = values.cast(pa.string())
                fillers = pc.utf8_slice_codeunits(text, NUMBER_DIGITS)
                assert pc.all(pc.equal(fillers, self._filler())).as_py(), "other bytes"
                numbers = pc.utf8_slice_codeunits(text, 0, NUMBER_DIGITS).cast(pa.int64())
                np.add.at(seen, numbers.to_numpy() - FIRST_NUMBER, 1)
        assert (seen == 1).all(), f"{(seen == 0).sum()} are missing, {(seen > 1).sum()} there twice"

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

    # --- times ------------------------------------------------------------------------------------

    def _micro_batches(self) -> None:
        """A batch of a hundred rows as soon as the one before is done, one task each."""
        for topic in ("trickle", "trickled"):
            self._client.create_topic(topic, partitions=1)
        query = (
            self._stream("trickle")
            .select("key", "value")
            .writeStream.format("goqueue")
            .options(**self._target("trickled"))
            .option("checkpointLocation", str(self._directory / "trickle"))
            .start()
        )
        rows = [Record(offset=n, timestamp=1, key=None, value=b"x" * 100) for n in range(100)]
        took: list[int] = []
        while len(took) < MICRO_BATCHES:
            self._client.produce({TopicPartition("trickle", 0): [encode(rows)]})
            query.processAllAvailable()
            progress = query.lastProgress
            assert progress is not None, "a batch is done"
            took.append(progress["durationMs"]["triggerExecution"])
        query.stop()
        warm = took[MICRO_BATCHES // 3 :]
        print(f"  micro-batch of one task, topic to topic: median {statistics.median(warm)} ms")


if __name__ == "__main__":
    main()
