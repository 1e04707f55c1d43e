"""One session for all tests, tuned to start quickly, and one broker in a process of its own.

A test that needs Spark costs a second once the session is there.  What can be tested without it is
tested in `tests/unit/spark`.
"""

import fcntl
import itertools
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import Result

from goqueue.client.kafka import LATEST, KafkaClient
from goqueue.model.batch import encode
from goqueue.model.config import Config, HttpConfig, KafkaConfig, StorageConfig
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.spark.source.partition_reader import read
from goqueue.spark.source.plan import OffsetRange
from goqueue.spark.source.read_plan import ReadPlan
from tests.conformance.server import Server
from tests.unit.cli.invocation import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first compiler only: tests end before code that it made better would have paid.
TEST_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1"
START_MS = 1_700_000_000_000
TIMEOUT_S = 600  # a test: the first one of a kind waits for workers, on a busy machine for long
HERE = Path(__file__).parent
FIRST_JOB = HERE / "first_job.py"
FIRST_JOB_S = 300.0

Fill = Callable[..., None]
MakeTopic = Callable[..., str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No Spark test fails for its time, unless it hangs."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session", autouse=True)
def quick_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every JVM that a test starts, also by a command, compiles little and has its classes ready.

    Drivers that are killed write no archive of classes, and one of the session's JVM would come
    when all tests are over.  So where there is none, a first job makes one, for all processes
    that run tests.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", TEST_JAVA_OPTIONS)
        with (tmp_path_factory.getbasetemp().parent / "first-job.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not has_archive():
                subprocess.run(
                    [sys.executable, "-P", str(FIRST_JOB), str(tmp_path_factory.mktemp("first"))],
                    capture_output=True,  # which ends with the JVM, after the script
                    timeout=FIRST_JOB_S,
                    check=True,
                )
        yield


def has_archive() -> bool:
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    from goqueue.spark.runtime.java import find_java
    from goqueue.spark.runtime.quickstart import quick_start

    home = Path(_find_spark_home())
    quick = quick_start(find_java(os.environ), home, pyspark.__version__, os.environ)
    return quick is None or any(quick.home.parent.glob("classes*.jsa"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(
        Config(
            data_dir=str(tmp_path_factory.mktemp("data")),
            kafka=KafkaConfig(listen="127.0.0.1:0"),
            http=HttpConfig(listen="127.0.0.1:0"),
            # The broker must neither compact what a test wants to compact, nor delete messages
            # because a test dates them back.
            storage=StorageConfig(compaction_check_ms=86_400_000, retention_check_ms=86_400_000),
        )
    ).start()
    yield server
    assert server.is_running, server.log()
    server.stop()
    assert "Traceback" not in server.log(), server.log()


@pytest.fixture(scope="session")
def broker(server: Server) -> str:
    """The address that goes into `bootstrap.servers`."""
    return server.address


@pytest.fixture(scope="session")
def spark_session() -> "Iterator[SparkSession]":
    import goqueue.spark

    session = goqueue.spark.session(
        app_name="tests",
        master="local[2]",
        settings={
            "spark.connect.grpc.binding.port": "0",  # for the test that starts it
        },
        log_level="OFF",
    )
    yield session
    session.stop()


@pytest.fixture
def spark(spark_session: "SparkSession") -> "Iterator[SparkSession]":
    """The session; queries that a test leaves running are stopped."""
    yield spark_session
    for query in spark_session.streams.active:
        query.stop()


@pytest.fixture
def run_here(
    spark: "SparkSession", broker: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """`run_here("pipeline", "sql", text)`: a command in this process, in the session there is."""
    monkeypatch.setattr("goqueue.spark.runtime.job_runner.session", lambda **_: spark)
    monkeypatch.setattr("goqueue.spark.runtime.job_runner._close", lambda _: None)
    monkeypatch.setenv("GOQUEUE_BOOTSTRAP", broker)
    return run


@pytest.fixture
def client(broker: str) -> Iterator[KafkaClient]:
    with KafkaClient(broker) as client:
        yield client


@pytest.fixture(scope="session")
def names() -> Iterator[str]:
    """Fresh names for topics and queries."""
    return (f"t{uuid.uuid4().hex[:8]}-{number}" for number in itertools.count())


@pytest.fixture
def make_topic(client: KafkaClient, names: Iterator[str]) -> MakeTopic:
    """`make_topic(partitions)`: a topic that keeps what is years old, as `fill` writes it."""

    def make(partitions: int = 1, name: str | None = None) -> str:
        name = name or next(names)
        client.create_topic(name, partitions=partitions, settings={"retention.ms": "-1"})
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """A topic of two partitions."""
    return make_topic(2)


@pytest.fixture
def fill(client: KafkaClient) -> Fill:
    """`fill(topic, partition, values)` writes a batch, a millisecond a record."""
    return filling(client)


def filling(client: KafkaClient) -> Fill:
    def fill(
        topic: str,
        partition: int,
        values: Iterable[str],
        *,
        start_ms: int = START_MS,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        codec: int = 0,
    ) -> None:
        records = [
            Record(
                offset=index,
                timestamp=start_ms + index,
                key=f"key-{value}".encode(),
                value=value.encode(),
                headers=headers,
            )
            for index, value in enumerate(values)
        ]
        client.produce(
            {TopicPartition(TopicName(topic), partition): [encode(records, codec=codec)]}
        )

    return fill


@pytest.fixture
def values_in(client: KafkaClient, broker: str) -> Callable[[str], list[str]]:
    """`values_in(topic)`: the value of every committed record, read without Spark."""

    def values_in(topic: str) -> list[str]:
        partitions = client.metadata([topic])[topic].partitions
        latest = client.list_offsets(dict.fromkeys(partitions, LATEST))
        task = tuple(OffsetRange(*where, 0, latest[where].offset) for where in partitions)
        batches = read(ReadPlan(bootstrap=broker, columns=("value",)), task)
        return [value.as_py().decode() for batch in batches for value in batch.column(0)]

    return values_in
