"""What a task reads, from a real broker and without Spark."""

import pytest

from goqueue.model.batch import TRANSACTIONAL
from goqueue.model.ids import TopicPartition
from goqueue.spark.source.loss import DataLost
from goqueue.spark.source.partition_reader import read
from goqueue.spark.source.plan import OffsetRange
from goqueue.spark.source.read_plan import ReadPlan


@pytest.fixture
def rows(broker):
    """`rows((topic, partition, start, end), …)`: offset and value of each row."""

    def rows(*ranges, **options):
        read_plan = ReadPlan(bootstrap=broker.kafka, columns=("offset", "value"), **options)
        found = read(read_plan, tuple(OffsetRange(*each) for each in ranges))
        return [
            (row["offset"], row["value"].decode()) for batch in found for row in batch.to_pylist()
        ]

    return rows


def test_a_range_is_read_to_the_offset_however_batches_lie(rows, fill, topic):
    fill(topic, 0, "a", "b", "c")
    fill(topic, 0, "d", "e", "f", codec=4)
    assert rows((topic, 0, 1, 5)) == [(1, "b"), (2, "c"), (3, "d"), (4, "e")]
    assert rows((topic, 0, 2, 2)) == []


def test_several_ranges_come_one_after_the_other(rows, fill, topic):
    fill(topic, 0, "a", "b")
    fill(topic, 1, "c", "d")
    assert rows((topic, 1, 0, 2), (topic, 0, 1, 2)) == [(0, "c"), (1, "d"), (1, "b")]


def test_a_range_of_many_fetches_is_read_whole(rows, fill, topic):
    for number in range(20):
        fill(topic, 0, *[f"{number}-{index}" for index in range(50)])
    found = rows((topic, 0, 3, 997), fetch_bytes=2000)
    assert [offset for offset, _ in found] == list(range(3, 997))
    assert found[0] == (3, "0-3")


def test_columns_are_the_ones_asked_for_in_that_order(broker, fill, topic):
    fill(topic, 0, "a")
    read_plan = ReadPlan(bootstrap=broker.kafka, columns=("timestamp", "partition", "key"))
    (batch,) = read(read_plan, (OffsetRange(topic, 0, 0, 1),))
    assert batch.schema.names == ["timestamp", "partition", "key"]


def test_ranges_are_told_and_not_read():
    read_plan = ReadPlan(
        bootstrap="nobody:1", columns=("topic", "startOffset", "endOffset"), unit="range"
    )
    (batch,) = read(read_plan, (OffsetRange("orders", 0, 3, 9), OffsetRange("orders", 1, 0, 4)))
    assert batch.to_pylist() == [
        {"topic": "orders", "startOffset": 3, "endOffset": 9},
        {"topic": "orders", "startOffset": 0, "endOffset": 4},
    ]


def test_whole_batches_are_rows_with_their_topic(broker, fill, topic):
    fill(topic, 0, "a", "b")
    fill(topic, 0, "c")
    read_plan = ReadPlan(
        bootstrap=broker.kafka, columns=("topic", "baseOffset", "records"), unit="batch"
    )
    found = [row for b in read(read_plan, (OffsetRange(topic, 0, 0, 3),)) for row in b.to_pylist()]
    assert found == [
        {"topic": topic, "baseOffset": 0, "records": 2},
        {"topic": topic, "baseOffset": 2, "records": 1},
    ]


def test_aborted_records_are_left_out_unless_asked_for(rows, fill, client, topic):
    fill(topic, 0, "before")
    producer = client.init_producer("writer-of-reading")
    fill(
        topic,
        0,
        "aborted",
        producer=(producer.producer_id, producer.epoch, 0),
        attributes=TRANSACTIONAL,
        transaction="writer-of-reading",
    )
    client.init_producer("writer-of-reading")  # aborts what the one before it left open
    fill(topic, 0, "after")
    assert rows((topic, 0, 0, 4)) == [(0, "before"), (3, "after")]
    everything = rows((topic, 0, 0, 4), read_committed=False)
    assert everything == [(0, "before"), (1, "aborted"), (3, "after")]


def test_records_that_are_deleted_are_an_error_that_says_all(rows, fill, client, topic):
    fill(topic, 0, *"abcdef")
    client.delete_records({TopicPartition(topic, 0): 4})
    with pytest.raises(DataLost) as raised:
        rows((topic, 0, 1, 6))
    for part in (topic, "partition 0", "offset 1 is wanted", "4 is the earliest", "retention.ms"):
        assert part in str(raised.value)
    assert rows((topic, 0, 1, 6), fail_on_data_loss=False) == [(4, "e"), (5, "f")]
    assert rows((topic, 0, 1, 3), fail_on_data_loss=False) == []


def test_a_log_that_is_shorter_than_it_was_is_an_error(rows, fill, topic):
    fill(topic, 0, "a", "b")
    with pytest.raises(DataLost, match=r"offset 9 is wanted and 2 is the latest"):
        rows((topic, 0, 1, 9))
    with pytest.raises(DataLost, match=r"offset 5 is wanted and 2 is the latest"):
        rows((topic, 0, 5, 9))
    assert rows((topic, 0, 1, 9), fail_on_data_loss=False) == [(1, "b")]
    assert rows((topic, 0, 5, 9), fail_on_data_loss=False) == []
