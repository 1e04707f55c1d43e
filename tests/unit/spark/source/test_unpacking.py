"""What tasks of an archive make of the rows that Spark hands them; the broker is a real one."""

from goqueue.spark.archive.columns import RECORD_SCHEMA
from goqueue.spark.archive.unpacking import records_of
from goqueue.spark.source.partition_reader import read
from goqueue.spark.source.plan import OffsetRange
from goqueue.spark.source.read_plan import ReadPlan
from goqueue.spark.topic_columns import BATCH_COLUMNS, RANGE_COLUMNS


def test_records_are_the_same_whether_spark_carries_them_or_only_says_where_they_are(
    broker, fill, topic
):
    fill(topic, 0, "a", "b", "c")
    fill(topic, 0, "d", codec=4)
    fill(topic, 1, "e", "f")
    task = (OffsetRange(topic, 0, 0, 4), OffsetRange(topic, 1, 0, 2))
    read_plan = ReadPlan(bootstrap=broker.kafka, columns=tuple(RECORD_SCHEMA.names))

    def unpacked(unit, columns):
        rows = read(ReadPlan(bootstrap=broker.kafka, columns=tuple(columns), unit=unit), task)
        records = [each for batch in rows for each in records_of(batch, read_plan)]
        assert all(each.schema.equals(RECORD_SCHEMA) for each in records)
        return [row for each in records for row in each.to_pylist()]

    expected = unpacked("record", RECORD_SCHEMA.names)
    assert [row["value"] for row in expected] == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert unpacked("batch", BATCH_COLUMNS) == expected
    assert unpacked("range", RANGE_COLUMNS) == expected
