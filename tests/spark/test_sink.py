"""Rows become messages: through Spark, into a real broker."""

import datetime
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import goqueue.spark
from goqueue.model.partitioner import murmur2_partition

MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 15, 250_000, tzinfo=datetime.UTC)

Save = Callable[..., None]
Read = Callable[..., DataFrame]


@pytest.fixture
def save(broker: str) -> Save:
    def save(rows: DataFrame, topic: str | None = None, **options: str) -> None:
        writing = rows.write.format("goqueue").mode("append").option("bootstrap.servers", broker)
        if topic is not None:
            writing = writing.option("topic", topic)
        writing.options(**options).save()

    return save


@pytest.fixture
def read(spark: SparkSession, broker: str) -> Read:
    def read(*topics: str) -> DataFrame:
        reading = spark.read.format("goqueue").option("bootstrap.servers", broker)
        reading = reading.option("subscribe", ",".join(topics)).option("includeHeaders", "true")
        return reading.load()

    return read


def values_of(rows: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in rows.select("value").collect())


# --- batches ------------------------------------------------------------------------------------


def test_a_value_is_all_that_a_row_needs(spark, save, read, topic):
    save(spark.range(100).selectExpr("cast(id as string) as value"), topic)
    assert values_of(read(topic)) == sorted(str(number) for number in range(100))
    assert {row.partition for row in read(topic).collect()} == {0, 1}


def test_every_column_arrives_as_it_was_written(spark, save, read, make_topic):
    topic = make_topic(3)
    rows = spark.createDataFrame(
        [(topic, 2, b"key", b"value", MOMENT, [("trace", b"\x00\x01"), ("none", None)])],
        "topic string, partition int, key binary, value binary, timestamp timestamp,"
        " headers array<struct<key: string, value: binary>>",
    )
    save(rows)
    (row,) = read(topic).collect()
    assert (row.topic, row.partition, bytes(row.key), bytes(row.value)) == (
        topic,
        2,
        b"key",
        b"value",
    )
    assert row.timestamp.replace(tzinfo=datetime.UTC) == MOMENT
    assert [(each.key, each.value) for each in row.headers] == [
        ("trace", b"\x00\x01"),
        ("none", None),
    ]


def test_a_key_goes_where_every_kafka_client_would_send_it(spark, save, read, make_topic):
    topic = make_topic(7)
    save(spark.range(50).selectExpr("concat('key ', id) as key", "'x' as value"), topic)
    for row in read(topic).collect():
        assert row.partition == murmur2_partition(bytes(row.key), 7)


def test_priorities_and_delays_are_headers(spark, save, read, topic):
    rows = spark.range(1).selectExpr(
        "'x' as value", "'high' as priority", "timestamp '2001-02-03 04:05:06' as deliver_at"
    )
    save(rows, topic)
    ((headers,),) = read(topic).select("headers").collect()
    assert {each.key: bytes(each.value) for each in headers} == {
        "gq-priority": b"high",
        "gq-deliver-at": b"981173106000",
    }


def test_a_row_for_later_is_seen_when_it_is_due(spark, save, read, make_topic):
    topic = make_topic(1)
    rows = spark.sql(
        "select 'late' as value, current_timestamp() + interval 8 seconds as deliver_at"
        " union all select 'now', cast(null as timestamp)"
    )
    save(rows, topic, compression="lz4")
    ends = time.monotonic() + 60
    seen: list[list[str]] = []
    while time.monotonic() < ends and (not seen or len(seen[-1]) < 2):
        seen.append(values_of(read(topic)))
    assert seen[0] == ["now"]
    assert seen[-1] == ["late", "now"]
    last = read(topic).orderBy(sql.desc("offset")).first()
    assert {each.key: bytes(each.value) for each in last.headers}["gq-delayed-from"] == b"0:0"


def test_rows_may_name_their_topics(spark, save, read, make_topic):
    topics = [make_topic(1), make_topic(2)]
    rows = spark.createDataFrame(
        [(name, f"for {name}") for name in topics], "topic string, value string"
    )
    save(rows)
    for name in topics:
        assert values_of(read(name)) == [f"for {name}"]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_asked(spark, save, read, topic, compression):
    rows = spark.range(1000).selectExpr("concat(repeat('x', 100), id) as value")
    save(rows, topic, compression=compression)
    assert read(topic).count() == 1000


def test_a_version_is_saved_once(spark, save, read, topic, names):
    application = next(names)
    for value in ("first", "second"):
        rows = spark.range(1).selectExpr(f"'{value}' as value")
        save(rows, topic, txnAppId=application, txnVersion="7")
    assert values_of(read(topic)) == ["first"]


def test_a_failing_task_leaves_nothing_visible(spark, save, read, topic):
    rows = spark.range(0, 1000, 1, 2).selectExpr(
        "if(id < 900, cast(id as string), raise_error('a bad row')) as value"
    )
    with pytest.raises(PySparkException, match="a bad row"):
        save(rows, topic)
    assert read(topic).count() == 0
    save(spark.range(1).selectExpr("'good' as value"), topic)
    assert values_of(read(topic)) == ["good"], "readers need not wait for what was given up"


def test_everything_that_is_wrong_is_said_before_a_task_runs(spark, save):
    rows = spark.range(1).selectExpr("raise_error('a task ran') as timestmp")
    with pytest.raises(AnalysisException) as refused:
        rows.write.format("goqueue").mode("overwrite").option("compression", "rar").save()
    said = str(refused.value)
    assert "cannot write to GoQueue, 6 problems" in said
    for word in (
        "bootstrap.servers",
        "compression",
        "'value'",
        "which topic",
        "'timestmp'",
        "overwrite",
    ):
        assert word in said
    assert "a task ran" not in said


def test_a_version_that_goes_back_says_what_to_do(spark, save, topic, names):
    application = next(names)
    rows = spark.range(1).selectExpr("'x' as value")
    save(rows, topic, txnAppId=application, txnVersion="7")
    with pytest.raises(PySparkException, match="foreachBatch another txnAppId"):
        save(rows, topic, txnAppId=application, txnVersion="2")


# --- streams ------------------------------------------------------------------------------------


@pytest.fixture
def stream(spark: SparkSession, broker: str, fill: Any, topic: str) -> DataFrame:
    """A stream of a topic with twenty messages, ten a micro-batch."""
    fill(topic, 0, [f"a{number}" for number in range(10)])
    fill(topic, 1, [f"b{number}" for number in range(10)])
    return stream_of(spark, broker, topic, rows_max=10)


def stream_of(spark: SparkSession, broker: str, topic: str, *, rows_max: int) -> DataFrame:
    reading = spark.readStream.format("goqueue").option("bootstrap.servers", broker)
    reading = reading.option("subscribe", topic).option("startingOffsets", "earliest")
    return reading.option("maxOffsetsPerTrigger", rows_max).load()


EXPECTED = sorted([f"a{number}" for number in range(10)] + [f"b{number}" for number in range(10)])


def run(writing: Any, checkpoint: Path) -> Any:
    query = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def test_a_stream_is_copied(stream, read, make_topic, broker, tmp_path):
    target = make_topic(3)
    options = {"bootstrap.servers": broker, "topic": target}
    writing = stream.select("key", "value").writeStream.format("goqueue").options(**options)
    assert len(run(writing, tmp_path).recentProgress) == 2
    run(writing, tmp_path)
    assert values_of(read(target)) == EXPECTED


def test_a_checkpoint_that_lost_its_newest_files_loses_no_row(
    spark, stream, fill, topic, read, make_topic, broker, tmp_path
):
    """Restored, copied while it ran, or not on disk when the power went: Spark plans the batch
    again, with what has come meanwhile."""
    target = make_topic(1)
    options = {"bootstrap.servers": broker, "topic": target}

    def write(rows: DataFrame) -> None:
        run(rows.select("value").writeStream.format("goqueue").options(**options), tmp_path)

    write(stream)
    for folder in ("offsets", "commits"):
        for file in (tmp_path / folder).glob("*1*"):
            file.unlink()
    fill(topic, 0, ["late"])
    with pytest.raises(PySparkException, match="with other rows") as refused:
        write(stream_of(spark, broker, topic, rows_max=100))
    assert "startingOffsets" in str(refused.value)
    assert values_of(read(target)) == EXPECTED


def test_a_copied_checkpoint_goes_on_into_another_topic(
    stream, fill, topic, read, make_topic, broker, tmp_path
):
    targets = [make_topic(1), make_topic(1)]
    writers = [
        stream.select("value")
        .writeStream.format("goqueue")
        .options(**{"bootstrap.servers": broker, "topic": target})
        for target in targets
    ]
    run(writers[0], tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    fill(topic, 0, ["more"])
    for writing, place in zip(writers, ("first", "second"), strict=True):
        run(writing, tmp_path / place)
    assert values_of(read(targets[0])) == sorted([*EXPECTED, "more"])
    assert values_of(read(targets[1])) == ["more"]


def test_a_kafka_job_moves_over_by_the_name_of_its_format(
    stream, read, make_topic, broker, tmp_path
):
    target = make_topic(2)
    writing = (
        stream.selectExpr("*", f"'{target}' as topic_name")  # offset, timestampType and others too
        .drop("topic")
        .withColumnRenamed("topic_name", "topic")
        .withColumn("amount", sql.lit(1.5))
        .writeStream.format("goqueue")
        .option("kafka.bootstrap.servers", broker)
        .option("kafka.compression.type", "lz4")
        .option("kafka.linger.ms", "5")
        .queryName("moved")
    )
    run(writing, tmp_path)
    assert values_of(read(target)) == EXPECTED


def test_for_each_batch_with_its_number_is_saved_once(
    stream, save, read, make_topic, names, tmp_path
):
    target, application = make_topic(2), next(names)

    def write(batch: DataFrame, batch_id: int) -> None:
        for _ in range(2):
            rows = batch.select("key", "value")
            save(rows, target, txnAppId=application, txnVersion=str(batch_id))

    run(stream.writeStream.foreachBatch(write), tmp_path)
    assert values_of(read(target)) == EXPECTED


def test_a_stream_that_is_aggregated_writes_its_results(stream, read, make_topic, broker, tmp_path):
    target = make_topic(1)
    counts = stream.groupBy("partition").count()
    rows = counts.selectExpr("cast(partition as string) as key", "cast(count as string) as value")
    options = {"bootstrap.servers": broker, "topic": target}
    run(rows.writeStream.outputMode("complete").format("goqueue").options(**options), tmp_path)
    newest = {bytes(row.key): int(row.value) for row in read(target).sort("offset").collect()}
    assert newest == {b"0": 10, b"1": 10}


def test_a_query_in_update_mode_writes_what_changes_once(
    stream, read, make_topic, broker, tmp_path
):
    """Spark refuses the mode to a stream writer in Python: foreachBatch takes it."""
    target = make_topic(1)
    counts = stream.groupBy("partition").count()
    rows = counts.selectExpr("cast(partition as string) as key", "cast(count as string) as value")
    options = {"bootstrap.servers": broker, "topic": target, "checkpointLocation": str(tmp_path)}
    refused = rows.writeStream.outputMode("update").format("goqueue").options(**options)
    with pytest.raises(PySparkException, match="Update"):
        run(refused, tmp_path / "refused")
    saving = rows.writeStream.outputMode("update").foreachBatch(goqueue.spark.save_to(**options))
    run(saving, tmp_path)
    run(saving, tmp_path)
    found = [(bytes(row.key), int(row.value)) for row in read(target).sort("offset").collect()]
    assert len(found) == len(set(found))
    assert dict(found) == {b"0": 10, b"1": 10}


def test_without_a_mode_spark_says_which_one_to_give(spark, broker, topic):
    rows = spark.range(1).selectExpr("'x' as value")
    writing = rows.write.format("goqueue").options(**{"bootstrap.servers": broker, "topic": topic})
    with pytest.raises(AnalysisException, match='"Append"'):
        writing.save()


def test_a_new_checkpoint_under_an_old_name_is_noticed(
    stream, save, fill, topic, make_topic, names, tmp_path
):
    target, application = make_topic(1), next(names)
    fill(topic, 0, [f"c{number}" for number in range(20)])

    def write(batch: DataFrame, batch_id: int) -> None:
        save(batch.select("value"), target, txnAppId=application, txnVersion=str(batch_id))

    writing = stream.writeStream.foreachBatch(write)
    run(writing, tmp_path / "first")
    with pytest.raises(PySparkException, match="checkpoint been deleted"):
        run(writing, tmp_path / "second")
