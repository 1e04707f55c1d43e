"""`spark.read.format("goqueue")` against a real broker."""

from datetime import UTC, datetime

import pytest

from tests.spark.conftest import START_MS

KAFKA_COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


@pytest.fixture
def table(spark, broker):
    """`table(topic, option=value)`: a frame; `_` in an option's name stands for a point."""

    def table(topic, *, schema=None, **options):
        reader = spark.read.format("goqueue").option("bootstrap.servers", broker)
        if topic is not None:
            reader = reader.option("subscribe", topic)
        for name, value in options.items():
            reader = reader.option(name.replace("_", "."), value)
        return reader.load() if schema is None else reader.schema(schema).load()

    return table


def test_a_topic_has_the_columns_of_kafka_and_every_record(table, fill, topic):
    fill(topic, 0, ["a", "b"])
    fill(topic, 1, ["c"], codec=4)
    frame = table(topic)
    assert frame.columns == KAFKA_COLUMNS
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    assert [(row.partition, row.offset, bytes(row.key), bytes(row.value)) for row in rows] == [
        (0, 0, b"key-a", b"a"),
        (0, 1, b"key-b", b"b"),
        (1, 0, b"key-c", b"c"),
    ]
    assert {row.topic for row in rows} == {topic}
    assert {row.timestampType for row in rows} == {0}
    moment = frame.where("offset = 1").selectExpr("unix_millis(timestamp)").first()[0]
    assert moment == START_MS + 1


def test_headers_come_when_they_are_asked_for(table, fill, topic):
    fill(topic, 0, ["a"], headers=(("trace", b"1"), ("empty", None)))
    fill(topic, 0, ["b"])
    rows = table(topic, includeHeaders="true").orderBy("offset").select("headers").collect()
    assert [[(h.key, h.value) for h in row.headers or ()] for row in rows] == [
        [("trace", b"1"), ("empty", None)],
        [],
    ]


def test_a_subset_of_the_columns_in_another_order(table, fill, topic):
    fill(topic, 0, ["a", "b"])
    frame = table(topic, schema="offset bigint, value binary")
    assert [(row.offset, bytes(row.value)) for row in frame.orderBy("offset").collect()] == [
        (0, b"a"),
        (1, b"b"),
    ]


def test_filters_on_place_and_time_are_pushed_down(table, fill, topic):
    fill(topic, 0, map(str, range(100)))
    fill(topic, 1, map(str, range(100)), start_ms=START_MS + 1000)
    by_place = table(topic).where("partition = 1 and offset >= 10 and offset < 12")
    assert [row.offset for row in by_place.orderBy("offset").collect()] == [10, 11]
    plan = by_place._jdf.queryExecution().executedPlan().toString()
    assert "Filter " not in plan, "Spark looks again at what the source has done"
    moment = datetime.fromtimestamp((START_MS + 1090) / 1000, UTC).isoformat()
    assert table(topic).where(f"timestamp >= timestamp'{moment}'").count() == 10


def test_offsets_and_times_bound_a_batch(table, fill, topic):
    fill(topic, 0, map(str, range(10)))
    fill(topic, 1, map(str, range(10)))
    given = table(
        topic,
        startingOffsets=f'{{"{topic}": {{"0": 4, "1": -2}}}}',
        endingOffsets=f'{{"{topic}": {{"0": 6, "1": -1}}}}',
    )
    counts = {row.partition: row["count"] for row in given.groupBy("partition").count().collect()}
    assert counts == {0: 2, 1: 10}
    timed = table(topic, startingTimestamp=START_MS + 3, endingTimestamp=START_MS + 5)
    assert timed.count() == 4


def test_whole_batches_are_rows_of_their_own(table, fill, topic):
    fill(topic, 0, ["a", "b", "c"])
    fill(topic, 0, ["d"])
    rows = table(topic, unit="batch").orderBy("baseOffset").collect()
    assert [(r.topic, r.partition, r.baseOffset, r.lastOffset, r.records) for r in rows] == [
        (topic, 0, 0, 2, 3),
        (topic, 0, 3, 3, 1),
    ]
    assert all(len(row.batch) > 61 for row in rows)


def test_an_empty_topic_is_an_empty_frame(table, topic):
    assert table(topic).count() == 0


def test_what_is_wrong_is_said_at_once_and_all_of_it(table, topic):
    with pytest.raises(Exception, match="3 problems") as raised:
        table(topic, startingOffsets="sometime", unit="row", maxTasks="no")
    for name in ("startingOffsets", "unit", "maxTasks"):
        assert name in str(raised.value)


def test_a_limit_ends_the_tasks_without_a_word(table, fill, topic, capfd):
    for _ in range(40):
        fill(topic, 0, ["x" * 5000] * 100)
    assert len(table(topic).limit(3).collect()) == 3
    assert table(topic).count() == 4000
    assert "Traceback" not in capfd.readouterr().err


def test_sql_reads_a_topic_by_a_view(spark, broker, fill, topic):
    fill(topic, 0, ["x", "y"])
    spark.sql(
        f"create or replace temporary view orders using goqueue"
        f" options ('bootstrap.servers' '{broker}', subscribe '{topic}')"
    )
    rows = spark.sql("select cast(value as string) v from orders order by v").collect()
    assert [row.v for row in rows] == ["x", "y"]
