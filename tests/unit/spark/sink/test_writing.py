"""Tasks write, the driver decides: with a real broker and without Spark."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
import structlog
from pyspark.sql.types import StringType, StructField, StructType

import goqueue
from goqueue.client.errors import Conflict
from goqueue.client.kafka import KafkaRefused
from goqueue.embedding import BrokerInThread
from goqueue.model.errors import BatchTooLarge
from goqueue.spark.sink import writers
from goqueue.spark.sink.task import Task
from goqueue.spark.sink.writers import BatchWriter, StreamWriter, Written

SCHEMA = StructType([StructField("key", StringType()), StructField("value", StringType())])


@pytest.fixture(scope="module")
def broker(tmp_path_factory) -> Iterator[BrokerInThread]:
    with goqueue.embedded(tmp_path_factory.mktemp("data"), topics={"partitions": 2}) as broker:
        yield broker


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)[:200]


class Job:
    """A driver's life: its tasks write, and it commits or aborts by a writer made anew."""

    def __init__(
        self, broker: BrokerInThread, topic: str, run: str = "run 1", query_id: str = ""
    ) -> None:
        self.topic = topic
        self.query_id = query_id or f"query of {topic}"
        self._broker = broker
        self._run = run

    def writer(self, **options: str) -> StreamWriter:
        server = {"bootstrap.servers": self._broker.kafka, "topic": self.topic}
        return StreamWriter(SCHEMA, server | options)

    def task(self, batch_id: int, number: int = 0, attempt: int = 0) -> Task:
        return Task(number, attempt, self.query_id, batch_id, self._run)

    def write(
        self, batch_id: int, *values: str, number: int = 0, attempt: int = 0, **options: str
    ) -> Written:
        batches = [rows(*values)] if values else []
        return self.write_from(iter(batches), self.task(batch_id, number, attempt), **options)

    def write_from(self, batches: Iterator[pa.RecordBatch], task: Task, **options: str) -> Written:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writers, "this_task", lambda: task)
            return self.writer(**options).write(batches)

    def commit(self, batch_id: int, *messages: Written, **options: str) -> None:
        self.writer(**options).commit(list(messages), batch_id)

    def abort(self, batch_id: int, *messages: Written | None, **options: str) -> None:
        self.writer(**options).abort(list(messages), batch_id)

    def read(self) -> list[str]:
        found = self._broker.read(self.topic)
        return sorted((each.value or b"").decode() for each in found)


@pytest.fixture
def job(broker: BrokerInThread, topic: str) -> Job:
    return Job(broker, topic)


def dated(moment_ms: int) -> pa.RecordBatch:
    moment = pa.array([moment_ms * 1000], pa.timestamp("us", "UTC"))
    return pa.record_batch({"key": ["k"], "value": ["v"], "timestamp": moment})


def rows(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"key": [f"key of {each}" for each in values], "value": list(values)})


def nobody_reads() -> Iterator[pa.RecordBatch]:
    raise AssertionError("the input was read")
    yield


def broken_after(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield batch
    raise ValueError("a bad row")


def open_transactions(broker: BrokerInThread) -> list[str]:
    return [each.transactional_id for each in broker.broker.transactions.ahead.ongoing]


# --- all at once, and once ----------------------------------------------------------------------


def test_rows_of_all_tasks_are_seen_when_the_driver_has_decided(job):
    messages = [job.write(0, "a", "b"), job.write(0, "c", number=1), job.write(0, number=2)]
    assert job.read() == []
    job.commit(0, *messages)
    assert job.read() == ["a", "b", "c"]
    assert [each.outcome.rows for each in messages] == [2, 1, 0]


def test_a_batch_that_is_decided_is_not_written_again(job):
    job.commit(0, job.write(0, "a"))
    again = job.write(0, "a", attempt=1)
    assert again.outcome.member is None
    job.commit(0, again)
    assert job.read() == ["a"]


def test_other_rows_under_a_decided_number_are_refused_and_not_skipped(job, tmp_path):
    """The newest file of the checkpoint is gone, and Spark plans the batch again with more rows."""
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    (offsets / "0").write_text('v1\n{"batchTimestampMs":1}\n{"orders":{"0":1}}')
    job.commit(0, job.write(0, "a"), checkpointLocation=str(tmp_path))
    (offsets / "0").write_text('v1\n{"batchTimestampMs":2}\n{"orders":{"0":1}}')
    job.commit(0, job.write(0, "a"), checkpointLocation=str(tmp_path))
    (offsets / "0").write_text('v1\n{"batchTimestampMs":3}\n{"orders":{"0":2}}')
    with pytest.raises(Conflict, match=r'decided with \[{"orders":{"0":1}}\]') as refused:
        job.commit(0, job.write(0, "a"), checkpointLocation=str(tmp_path))
    assert refused.value.code == "version_differs"
    assert "startingOffsets" in refused.value.__notes__[0]
    assert job.read() == ["a"]


def test_where_no_checkpoint_can_be_read_the_rows_are_counted(job):
    job.commit(0, job.write(0, "a"), job.write(0, "b", number=1))
    job.commit(0, job.write(0, "b"), job.write(0, "a", number=1))
    with pytest.raises(Conflict, match="decided with 2 rows, and now has 3 rows"):
        job.commit(0, job.write(0, "a", "b"), job.write(0, "c", number=1))


def test_a_query_that_goes_on_into_another_topic_writes_there(broker, job):
    job.commit(0, job.write(0, "a"))
    copy = Job(broker, f"{job.topic}-2", query_id=job.query_id)
    copy.commit(0, copy.write(0, "a"))
    assert copy.read() == ["a"]
    job.commit(1, job.write(1, "b"))
    assert job.read() == ["a", "b"], "neither fences the other"


def test_a_batch_that_was_written_and_not_decided_is_replaced(broker, job):
    job.write(0, "a", "b")
    restarted = Job(broker, job.topic, run="run 2")
    message = restarted.write(0, "a", "b")
    assert len(open_transactions(broker)) == 1, "the dead driver's attempt is ended"
    restarted.commit(0, message)
    assert job.read() == ["a", "b"]


def test_two_drivers_that_wrote_the_same_batch_decide_it_once(job):
    messages = [job.write(0, "a", attempt=number) for number in range(2)]
    job.commit(0, messages[0])
    job.commit(0, messages[1])
    assert job.read() == ["a"]


def test_an_attempt_that_the_driver_did_not_hear_of_is_never_seen(broker, job):
    job.write(0, "slow", attempt=0)
    job.commit(0, job.write(0, "quick", attempt=1))
    assert job.read() == ["quick"]
    assert open_transactions(broker) == []


def test_an_empty_batch_is_decided_too(job):
    job.commit(0, job.write(0))
    job.commit(1)
    assert job.write(0).outcome.member is None


def test_many_rows_arrive_in_order_for_each_key(broker, job):
    values = [f"{number:06d}" for number in range(30_000)]
    batches = [
        pa.record_batch(
            {"key": [value[-1] for value in part], "value": [value * 40 for value in part]}
        )
        for part in (values[start : start + 1000] for start in range(0, len(values), 1000))
    ]
    job.commit(0, job.write_from(iter(batches), job.task(0)))
    found: dict[bytes, list[bytes]] = {}
    for partition in range(2):
        for message in broker.read(job.topic, partition=partition):
            found.setdefault(message.key, []).append(message.value[:6])
    assert all(each == sorted(each) for each in found.values())
    assert sorted(value for each in found.values() for value in each) == [
        value.encode() for value in values
    ]


# --- aborting -----------------------------------------------------------------------------------


def test_an_aborted_batch_leaves_nothing_behind(broker, job):
    messages = [job.write(0, "a"), job.write(0, "b", number=1)]
    job.abort(0, messages[0], None)
    assert open_transactions(broker) == []
    assert job.read() == []
    job.commit(0, job.write(0, "a", "b", attempt=1))
    assert job.read() == ["a", "b"]


def test_an_abort_after_the_decision_is_harmless(job):
    message = job.write(0, "a")
    job.commit(0, message)
    job.abort(0, message)
    assert job.read() == ["a"]


def test_an_abort_that_knows_nothing_does_nothing(broker, job):
    message = job.write(0, "a")
    job.abort(0, None, None)
    job.commit(0, message)
    assert job.read() == ["a"]


def test_tasks_that_were_killed_are_found_through_the_checkpoint(broker, job, tmp_path):
    job.write(0, "a")
    assert len(open_transactions(broker)) == 1
    (tmp_path / "metadata").write_text(f'{{"id":"{job.query_id}"}}')
    job.abort(0, None, checkpointLocation=f"file:{tmp_path}")
    assert open_transactions(broker) == []
    job.commit(0, job.write(0, "a", attempt=1))
    assert job.read() == ["a"]


def test_a_task_whose_input_fails_ends_its_own_attempt(broker, job):
    with pytest.raises(ValueError, match="a bad row"):
        job.write_from(broken_after(rows(*["x" * 400_000] * 12)), job.task(0))
    assert open_transactions(broker) == []
    job.commit(0, job.write(0, "a", attempt=1))
    assert job.read() == ["a"]


# --- who may ------------------------------------------------------------------------------------


def test_an_older_driver_is_fenced(broker, job):
    message = job.write(0, "old")
    job.commit(0, Job(broker, job.topic, run="run 2").write(0, "new"))
    with pytest.raises(Conflict, match="has started") as refused:
        job.write(1, "older still")
    assert refused.value.code == "application_fenced"
    assert "only one may write" in refused.value.__notes__[0]
    with pytest.raises(Conflict):
        job.commit(1, message)
    assert job.read() == ["new"]


def test_a_version_that_goes_back_is_refused_before_anything_is_read(job):
    job.commit(7, job.write(7, "a"))
    with pytest.raises(Conflict, match="checkpoint been deleted") as refused:
        job.write_from(nobody_reads(), job.task(3))
    assert refused.value.code == "version_goes_back"
    assert "another txnAppId" in refused.value.__notes__[0]


def test_an_attempt_that_the_broker_has_ended_says_why(broker, job):
    def batches() -> Iterator[pa.RecordBatch]:
        large = rows(*["x" * 400_000] * 12)
        yield large
        (name,) = open_transactions(broker)
        broker.run(broker.broker.transactions.abort(name))
        yield large

    with pytest.raises(KafkaRefused) as refused:
        job.write_from(batches(), job.task(0))
    assert "txnTimeout" in refused.value.__notes__[0]


def test_a_large_message_needs_only_a_topic_that_takes_it(broker, job):
    """As with Kafka's connector, where kafka.max.request.size is raised."""
    large = "x" * 2_000_000
    with pytest.raises(KafkaRefused) as refused:
        job.write(0, large)
    assert "max.message.bytes" in refused.value.__notes__[0]
    with goqueue.Client(broker.http) as client:
        client.change_settings(job.topic, {"max.message.bytes": "5000000"})
    job.commit(1, job.write(1, "small", large))
    assert job.read() == ["small", large]


def test_a_message_beyond_the_largest_request_is_refused(job):
    with pytest.raises(BatchTooLarge) as refused:
        job.write(0, "x" * 2_000_000, **{"kafka.max.request.size": "1500000"})
    assert "kafka.max.request.size" in refused.value.__notes__[0]


def warnings_in(told: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in told if each["log_level"] == "warning"]


def test_messages_that_retention_will_delete_are_warned_of(broker, job):
    with structlog.testing.capture_logs() as told:
        job.commit(0, job.write_from(iter([dated(1_700_000_000_000)]), job.task(0)))
    (warning,) = warnings_in(told)
    assert "will be deleted" in warning["event"]
    assert (warning["topic"], warning["oldest"]) == (job.topic, "2023-11-14T22:13:20.000Z")
    with structlog.testing.capture_logs() as told:
        job.commit(1, job.write_from(iter([dated(1_700_000_000_000)]), job.task(1)))
    assert warnings_in(told) == [], "once is enough"


def test_messages_that_stay_are_not_warned_of(broker, job):
    broker.create_topic(job.topic, settings={"retention.ms": "-1"})
    with structlog.testing.capture_logs() as told:
        job.commit(0, job.write_from(iter([dated(1_700_000_000_000)]), job.task(0)))
        job.commit(1, job.write(1, "of now"))
    assert warnings_in(told) == []


# --- batches ------------------------------------------------------------------------------------


def saved(broker: BrokerInThread, topic: str, *values: str, **options: str) -> None:
    server = {"bootstrap.servers": broker.kafka, "topic": topic}
    writer = BatchWriter(SCHEMA, server | options, overwrite=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writers, "this_task", lambda: Task(0, 0))
        message = writer.write(iter([rows(*values)]))
    writer.commit([message])


def test_a_save_with_a_version_happens_once(broker, job):
    for value in ("first", "second"):
        saved(broker, job.topic, value, txnAppId="nightly", txnVersion="4")
    saved(broker, job.topic, "third", txnAppId="nightly", txnVersion="5")
    assert job.read() == ["first", "third"]


def test_a_save_whose_tasks_were_killed_is_given_up(broker, topic):
    server = {"bootstrap.servers": broker.kafka, "topic": topic}
    writer = BatchWriter(SCHEMA, server, overwrite=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writers, "this_task", lambda: Task(0, 0))
        writer.write(iter([rows("a")]))
    writer.abort([None])
    assert open_transactions(broker) == []


def test_a_save_without_a_version_happens_each_time_and_is_forgotten(broker, job):
    known = set(broker.broker.transactions.host.ahead.applications.known)
    for _ in range(2):
        saved(broker, job.topic, "again")
    assert job.read() == ["again", "again"]
    assert set(broker.broker.transactions.host.ahead.applications.known) == known
