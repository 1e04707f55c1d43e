"""What a stream's driver decides, with a real broker and without Spark."""

import pytest

import goqueue
from goqueue.client import GroupReading
from goqueue.model.ids import TopicPartition
from goqueue.spark.source.loss import DataLost
from goqueue.spark.source.options import source_options
from goqueue.spark.source.stream_offsets import StreamOffsets
from goqueue.spark.source.subscriptions import NothingToRead


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def follow(broker):
    """`follow(option=value)`: a driver of a stream with these options."""
    made = []

    def follow(clock=Clock(), **options):  # noqa: B008  # nobody changes it
        given = {"bootstrap.servers": broker.kafka, "startingOffsets": "earliest"} | options
        made.append(StreamOffsets(source_options(given, is_stream=True), clock=clock))
        return made[-1]

    yield follow
    for each in made:
        each.close()


def at(topic, *offsets):
    return {TopicPartition(topic, index): offset for index, offset in enumerate(offsets)}


def lengths(tasks):
    return [[(piece.partition, piece.start, piece.end) for piece in task] for task in tasks]


def test_a_stream_begins_where_it_is_told_and_goes_to_what_is_there(follow, fill, topic):
    fill(topic, 0, "a", "b")
    assert follow(subscribe=topic, startingOffsets="latest").initial() == at(topic, 2, 0)
    following = follow(subscribe=topic)
    assert following.initial() == at(topic, 0, 0)
    assert following.latest(at(topic, 0, 0)) == at(topic, 2, 0)
    assert following.report_latest() == at(topic, 2, 0)
    assert lengths(following.tasks(at(topic, 0, 0), at(topic, 2, 0))) == [[(0, 0, 2)]]
    assert following.tasks(at(topic, 2, 0), at(topic, 2, 0)) == []


def test_limits_are_for_triggers_that_have_one(follow, fill, topic):
    fill(topic, 0, *"abcdefgh")
    following = follow(subscribe=topic, maxOffsetsPerTrigger="3")
    assert following.latest(at(topic, 0, 0)) == at(topic, 3, 0)
    assert following.latest(at(topic, 0, 0), limited=False) == at(topic, 8, 0)


def test_a_limit_in_bytes_is_by_the_size_of_the_log(follow, fill, topic):
    fill(topic, 0, *["x" * 1000] * 100)
    end = follow(subscribe=topic, maxBytesPerTrigger="10k").latest(at(topic, 0, 0))
    assert 5 <= end[TopicPartition(topic, 0)] <= 12


def test_a_trigger_waits_for_enough_but_not_for_ever(follow, fill, topic):
    fill(topic, 0, "a")
    clock = Clock()
    following = follow(clock, subscribe=topic, minOffsetsPerTrigger="3", maxTriggerDelay="10s")
    assert following.latest(at(topic, 0, 0)) == at(topic, 0, 0)
    clock.now = 9.0
    assert following.latest(at(topic, 0, 0)) == at(topic, 0, 0)
    clock.now = 11.0
    assert following.latest(at(topic, 0, 0)) == at(topic, 1, 0)
    assert following.latest(at(topic, 1, 0)) == at(topic, 1, 0)
    fill(topic, 1, "b", "c", "d")
    assert following.latest(at(topic, 1, 0)) == at(topic, 1, 3)


def test_a_frozen_run_takes_nothing_that_came_later(follow, fill, client, topic):
    fill(topic, 0, "a", "b")
    following = follow(subscribe=topic, minOffsetsPerTrigger="100")
    following.freeze()
    fill(topic, 0, "late")
    client.add_partitions(topic, total=3)
    fill(topic, 2, "later")
    assert following.latest(at(topic, 0, 0)) == at(topic, 2, 0)
    assert following.latest(at(topic, 2, 0)) == at(topic, 2, 0)
    again = follow(subscribe=topic)
    again.freeze()
    assert again.latest(at(topic, 2, 0)) == at(topic, 3, 0, 1)


def test_a_new_partition_is_read_from_its_beginning(follow, fill, client, topic):
    client.add_partitions(topic, total=3)
    fill(topic, 2, "a", "b")
    following = follow(subscribe=topic)
    end = following.latest(at(topic, 0, 0))
    assert end == at(topic, 0, 0, 2)
    assert lengths(following.tasks(at(topic, 0, 0), end)) == [[(2, 0, 2)]]


def test_a_new_partition_that_a_limit_left_out_is_noted_where_it_begins(
    follow, fill, client, topic
):
    fill(topic, 0, *["x"] * 100)
    client.add_partitions(topic, total=3)
    fill(topic, 2, "a", "b", "c", "d")
    client.delete_records({TopicPartition(topic, 2): 3})
    following = follow(subscribe=topic, maxOffsetsPerTrigger="10")
    end = following.latest(at(topic, 0, 0))
    assert end == at(topic, 10, 0, 3)
    assert lengths(following.tasks(at(topic, 0, 0), end)) == [[(0, 0, 10)]]


def test_new_topics_come_with_a_pattern(follow, fill, client, topic):
    following = follow(subscribePattern=f"{topic}.*")
    assert following.initial() == at(topic, 0, 0)
    client.create_topic(f"{topic}-more", partitions=1)
    fill(f"{topic}-more", 0, "x")
    assert following.latest(at(topic, 0, 0)) == at(topic, 0, 0) | at(f"{topic}-more", 1)


def test_assigned_partitions_are_the_only_ones(follow, fill, topic):
    fill(topic, 0, "a")
    fill(topic, 1, "b")
    following = follow(assign=f'{{"{topic}": [1]}}')
    assert following.initial() == {TopicPartition(topic, 1): 0}


def test_a_topic_that_does_not_exist_is_named_with_the_likely_one(follow, client):
    client.create_topic("purchases", partitions=1)
    with pytest.raises(NothingToRead, match="did you mean purchases"):
        follow(subscribe="purchase").initial()
    with pytest.raises(NothingToRead, match="purchases-7 does not exist"):
        follow(assign='{"purchases": [0, 7]}').initial()


def test_records_deleted_before_they_were_planned_are_lost(follow, fill, client, topic):
    fill(topic, 0, *"abcdef")
    client.delete_records({TopicPartition(topic, 0): 4})
    start, end = at(topic, 1, 0), at(topic, 6, 0)
    with pytest.raises(DataLost, match="offset 1 is wanted and 4 is the earliest"):
        follow(subscribe=topic).tasks(start, end)
    careless = follow(subscribe=topic, failOnDataLoss="false")
    assert lengths(careless.tasks(start, end)) == [[(0, 4, 6)]]


def test_a_topic_that_is_made_again_is_a_loss_or_begun_anew(follow, fill, client, topic):
    fill(topic, 0, "a", "b")
    client.delete_topic(topic)
    with pytest.raises(DataLost, match="the topic is gone"):
        follow(subscribe=topic).latest(at(topic, 5, 0))
    careless = follow(subscribe=topic, failOnDataLoss="false")
    assert careless.latest(at(topic, 5, 0)) == {}
    client.create_topic(topic, partitions=1)
    fill(topic, 0, "new")
    with pytest.raises(DataLost, match="offset 5 is wanted and 1 is the latest"):
        follow(subscribe=topic).latest(at(topic, 5))
    assert careless.latest(at(topic, 5)) == at(topic, 1)
    assert lengths(careless.tasks(at(topic, 5), at(topic, 1))) == [[(0, 0, 1)]]


def test_a_topic_that_was_made_again_and_has_grown_is_noticed_by_its_id(
    follow, fill, client, topic
):
    fill(topic, 0, "a", "b")
    following = follow(subscribe=topic)
    following.initial()
    known = dict(following.topic_ids)
    assert following.latest(at(topic, 0, 0), known) == at(topic, 2, 0)
    client.delete_topic(topic)
    client.create_topic(topic, partitions=2)
    fill(topic, 0, *"vwxyz")
    with pytest.raises(DataLost, match="was deleted and made again"):
        following.latest(at(topic, 2, 0), known)
    careless = follow(subscribe=topic, failOnDataLoss="false")
    assert careless.latest(at(topic, 2, 0), known) == at(topic, 5, 0)
    assert following.latest(at(topic, 2, 0)) == at(topic, 5, 0), "who wrote no id is believed"


def test_what_is_done_is_shown_as_a_group(follow, fill, client, topic):
    fill(topic, 0, "a", "b")
    following = follow(subscribe=topic, group="billing")
    following.latest(at(topic, 0, 0))
    following.latest(at(topic, 2, 0))
    assert client.committed_offsets("billing") == at(topic, 2, 0)


def test_a_group_that_others_use_stops_nothing(follow, fill, broker, topic, caplog):
    fill(topic, 0, "a")
    with goqueue.Client(broker.http) as client:
        client.join(GroupReading("busy", [topic]))
        following = follow(subscribe=topic, group="busy")
        assert following.latest(at(topic, 0, 0)) == at(topic, 1, 0)
    assert "not shown as group" in caplog.text
