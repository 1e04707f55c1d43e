"""`spark.readStream.format("goqueue")` against a real broker."""

import json

import pytest

import goqueue.spark
from goqueue.model.ids import TopicPartition


@pytest.fixture
def stream(spark, broker):
    """`stream(option=value)`: a streaming frame."""

    def stream(**options):
        reader = spark.readStream.format("goqueue").option("bootstrap.servers", broker)
        for name, value in options.items():
            reader = reader.option(name.replace("_", "."), value)
        return reader.load()

    return stream


@pytest.fixture
def run(tmp_path, names):
    """`run(frame)`: all that is there now, through a checkpoint that a second call goes on from."""

    def run(frame, name=None):
        rows = []

        def keep(batch, number):
            rows.append([(r.partition, r.offset, bytes(r.value).decode()) for r in batch.collect()])

        query = (
            frame.writeStream.foreachBatch(keep)
            .queryName(name or next(names))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return rows, query

    return run


def values(rows):
    return sorted(value for batch in rows for _, _, value in batch)


def test_a_stream_reads_everything_once_and_goes_on_where_it_was(stream, run, fill, topic):
    fill(topic, 0, ["a", "b"])
    rows, _ = run(stream(subscribe=topic, startingOffsets="earliest"))
    assert values(rows) == ["a", "b"]
    fill(topic, 1, ["c"])
    rows, _ = run(stream(subscribe=topic, startingOffsets="earliest"))
    assert values(rows) == ["c"]
    rows, _ = run(stream(subscribe=topic, startingOffsets="earliest"))
    assert rows == []


def test_a_limit_makes_several_batches_of_equal_parts(stream, run, fill, topic):
    fill(topic, 0, map(str, range(60)))
    fill(topic, 1, map(str, range(40)))
    frame = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    rows, _ = run(frame)
    assert [len(batch) for batch in rows] == [30, 30, 30, 10]
    assert [partition for partition, _, _ in rows[0]].count(0) == 18


def test_progress_tells_the_lag_and_a_group_shows_the_offsets(
    stream, run, fill, topic, client, names, eventually
):
    fill(topic, 0, map(str, range(10)))
    name = next(names)
    frame = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=4)
    _, query = run(frame, name)
    sources = [progress["sources"][0] for progress in query.recentProgress]
    reached = [json.loads(each["endOffset"])[topic]["0"] for each in sources]
    assert reached[:3] == [4, 8, 10]
    assert {json.loads(each["latestOffset"])[topic]["0"] for each in sources} == {10}
    ((metrics,), *_) = map(goqueue.spark.offset_metrics, query.recentProgress)
    assert metrics == {
        "avgOffsetsBehindLatest": "3.0",
        "maxOffsetsBehindLatest": "6",
        "minOffsetsBehindLatest": "0",
    }
    expected = {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 0}
    eventually(lambda: client.committed_offsets(f"spark-{name}") == expected, within_s=60)


def test_a_group_that_is_named_is_shown_without_our_session(stream, run, fill, topic, client):
    fill(topic, 0, ["a", "b", "c"])
    run(stream(subscribe=topic, startingOffsets="earliest", group=f"g-{topic}"))
    assert client.committed_offsets(f"g-{topic}")[TopicPartition(topic, 0)] == 3


def test_new_partitions_and_topics_are_picked_up_while_it_runs(
    stream, fill, names, make_topic, client, tmp_path, eventually
):
    prefix = next(names)
    make_topic(1, f"{prefix}-a")
    fill(f"{prefix}-a", 0, ["first"])
    seen: list[bytes] = []
    query = (
        stream(subscribePattern=f"{prefix}-.*", startingOffsets="earliest")
        .writeStream.foreachBatch(
            lambda batch, number: seen.extend(bytes(row.value) for row in batch.collect())
        )
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    eventually(lambda: seen == [b"first"], within_s=60)
    client.add_partitions(f"{prefix}-a", total=2)
    fill(f"{prefix}-a", 1, ["second"])
    eventually(lambda: b"second" in seen, within_s=60)
    make_topic(1, f"{prefix}-b")
    fill(f"{prefix}-b", 0, ["third"])
    eventually(lambda: b"third" in seen, within_s=60)
    query.stop()
    assert seen == [b"first", b"second", b"third"]


def test_offsets_that_are_deleted_before_they_are_read_end_the_query(
    stream, run, fill, topic, client
):
    frame = stream(subscribe=topic, startingOffsets="earliest", failOnDataLoss="true")
    fill(topic, 0, map(str, range(4)))
    run(frame)
    fill(topic, 0, map(str, range(4, 10)))
    client.delete_records({TopicPartition(topic, 0): 7})
    with pytest.raises(Exception, match="offset 4 is wanted and 7 is the earliest") as raised:
        run(frame)
    assert f"partition 0 of topic '{topic}'" in str(raised.value)
    assert "failOnDataLoss=false" in str(raised.value)
    rows, _ = run(stream(subscribe=topic, startingOffsets="earliest", failOnDataLoss="false"))
    assert values(rows) == ["7", "8", "9"]
