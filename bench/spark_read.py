"""How fast Spark reads topics: `python -m bench.spark_read [--records N] [--repeats N]`.

One session on two cores, one broker in a process of its own.  Everything is read in turns, by ours
and, where Maven has it, by Spark's own Kafka connector.  Two turns go by unmeasured, in which the
JVM translates its code; of those after them the median is shown and, behind it, the best.  Contents
are verified by sums over every column.  Beside the rate stands the CPU time for a million rows of
the broker, of Spark's JVM and of its Python workers, which other work on the machine disturbs less:
on two idle cores the rate cannot exceed two divided by their sum.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.kafka_connector import NotToBeHad, connector_jars
from bench.spark_broker import Broker
from bench.spark_cpu import jvm_pid, spark_cpu
from bench.spark_data import Sums, fill
from goqueue.client.kafka import KafkaClient
from goqueue.model.batch import encode
from goqueue.model.ids import TopicPartition
from goqueue.model.record import Record
from goqueue.spark.columns import engines

PARTITIONS = 8
MICRO_BATCHES = 30
WARM_UPS = 2
START = """
import time
started = time.monotonic()
import goqueue.spark
goqueue.spark.session(master="local[2]")
print(time.monotonic() - started)
"""
ARCHIVE_SECONDS_MAX = 60.0

Job = Callable[[], None]


class Pass(NamedTuple):
    """Seconds of one: by the clock, and of each one's processor time."""

    clock: float
    broker: float
    jvm: float
    workers: float


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument(
        "--records", type=int, default=2_000_000, help="of 100 bytes; a tenth of 1 KiB"
    )
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--no-connector", action="store_true", help="do without Spark's own")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as directory:
        broker = Broker(Path(directory))
        try:
            Reading(broker, Path(directory), given).measure()
        finally:
            broker.end()


class Reading:
    def __init__(self, broker: Broker, directory: Path, given: argparse.Namespace) -> None:
        import goqueue.spark

        self._server = broker
        self._broker = broker.address
        self._directory = directory
        self._given = given
        self._spark = goqueue.spark.session(
            master="local[2]", settings={"spark.driver.memory": "3g"}
        )
        self._jvm = jvm_pid(self._spark)
        self._connector = not given.no_connector and self._add_connector()

    def measure(self) -> None:
        print(f"load average {os.getloadavg()[0]:.1f}, decoder: {engines.choose().name}")
        sizes = (("small", self._given.records, 100), ("large", self._given.records // 10, 1024))
        for topic, records, size in sizes:
            sums = fill(self._broker, topic, records=records, size=size, partitions=PARTITIONS)
            for name in ("goqueue", "kafka") if self._connector else ("goqueue",):
                self._verify(name, topic, sums)
            print(f"\n{records:,} records of {size} bytes, contents verified")
            self._compare(topic, records)
        self._micro_batches()
        self._session_start()

    # --- rates --------------------------------------------------------------------------------

    def _compare(self, topic: str, records: int) -> None:
        jobs = self._jobs(topic)
        passes: dict[str, list[Pass]] = {name: [] for name in jobs}
        for _ in range(WARM_UPS + self._given.repeats):
            for name, job in jobs.items():
                passes[name].append(self._pass(job))
        for name in jobs:
            warm = passes[name][WARM_UPS:]
            taken = Pass(*map(statistics.median, zip(*warm, strict=True)))
            best = min(each.clock for each in warm)
            a_million = records / 1e6
            print(
                f"  {name:34} {a_million / taken.clock:5.2f} ({a_million / best:.2f}) M rows/s"
                f"   CPU s a million: broker {taken.broker / a_million:.2f},"
                f" JVM {taken.jvm / a_million:.2f}, workers {taken.workers / a_million:.2f}",
                flush=True,
            )

    def _pass(self, job: Job) -> Pass:
        broker, before = self._server.cpu_seconds(), spark_cpu(self._jvm)
        began = time.perf_counter()
        job()
        clock = time.perf_counter() - began
        broker, after = self._server.cpu_seconds() - broker, spark_cpu(self._jvm)
        return Pass(clock, broker, after.jvm - before.jvm, after.workers - before.workers)

    def _jobs(self, topic: str) -> dict[str, Job]:
        table = self._table
        files = {"logDir": str(self._directory / "data")}
        jobs = {
            "seven columns": lambda: _drain(table("goqueue", topic)),
            "seven columns, from files": lambda: _drain(table("goqueue", topic, **files)),
            "offset, timestamp": lambda: _drain(
                table("goqueue", topic, schema="offset bigint, timestamp timestamp")
            ),
            "value": lambda: _drain(table("goqueue", topic, schema="value binary")),
            "whole batches": lambda: _drain(table("goqueue", topic, unit="batch")),
            "stream, available now": lambda: self._stream("goqueue", topic),
        }
        if self._connector:
            jobs["Spark's connector, seven columns"] = lambda: _drain(table("kafka", topic))
            jobs["Spark's connector, available now"] = lambda: self._stream("kafka", topic)
        return jobs

    def _table(self, name: str, topic: str, *, schema: str | None = None, **more: str) -> Any:
        reader = self._spark.read.format(name).options(**self._options(topic, **more))
        return (reader.schema(schema) if schema else reader).load()

    def _stream(self, name: str, topic: str) -> None:
        frame = self._spark.readStream.format(name).options(**self._options(topic)).load()
        with tempfile.TemporaryDirectory(dir=self._directory) as checkpoint:
            query = (
                frame.writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

    def _options(self, topic: str, **more: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self._broker,
            "subscribe": topic,
            "startingOffsets": "earliest",
        } | more

    # --- contents -----------------------------------------------------------------------------

    def _verify(self, name: str, topic: str, expected: Sums) -> None:
        row = (
            self._table(name, topic)
            .selectExpr(
                "count(*)",
                "sum(offset)",
                "sum(crc32(key))",
                "sum(crc32(value))",
                "sum(unix_millis(timestamp))",
            )
            .first()
        )
        found = Sums(*row)
        assert found == expected, f"{name} read {found}, there is {expected}"

    def _add_connector(self) -> bool:
        try:
            jars = connector_jars()
        except NotToBeHad as error:
            print(f"without Spark's Kafka connector: {error}")
            return False
        for jar in jars:
            self._spark.sql(f"add jar '{jar}'")
        return True

    # --- times --------------------------------------------------------------------------------

    def _micro_batches(self) -> None:
        """A batch of a hundred rows as soon as the one before is done, one task each."""
        with KafkaClient(self._broker) as client:
            client.create_topic("trickle", partitions=1)
            frame = self._spark.readStream.format("goqueue").options(**self._options("trickle"))
            took: list[int] = []
            rows = [Record(offset=n, timestamp=1, key=None, value=b"x" * 100) for n in range(100)]
            query = (
                frame.load()
                .writeStream.format("noop")
                .option("checkpointLocation", str(self._directory / "trickle"))
                .start()
            )
            while len(took) < MICRO_BATCHES:
                client.produce({TopicPartition("trickle", 0): [encode(rows)]})
                query.processAllAvailable()
                progress = query.lastProgress
                assert progress is not None, "a batch is done"
                took.append(progress["durationMs"]["triggerExecution"])
            query.stop()
        warm = took[MICRO_BATCHES // 3 :]
        print(f"\nmicro-batch of one task: median {statistics.median(warm)} ms of {len(warm)}")

    def _session_start(self) -> None:
        """In a process of its own, the second time: the first leaves the archive of classes."""
        environment = {**os.environ, "XDG_CACHE_HOME": str(self._directory / "cache")}
        taken = [_started(environment, self._directory / "cache") for _ in range(4)]
        print(f"session ready: {taken[0]:.1f} s the first time, then {min(taken[1:]):.1f} s")


def _started(environment: dict[str, str], cache: Path) -> float:
    argv = [sys.executable, "-c", START]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=True)
    deadline = time.monotonic() + ARCHIVE_SECONDS_MAX
    while not list(cache.rglob("*.jsa")) and time.monotonic() < deadline:
        time.sleep(0.5)  # the JVM writes it after its Python has ended
    return float(done.stdout)


def _drain(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    main()
