"""Topic ids to names and back, while topics come and go."""

import pytest

from goqueue.broker.groups.topic_names import TopicNames
from goqueue.model.errors import TopicNotFound
from goqueue.model.ids import TopicIdPartition, TopicName
from goqueue.model.topic_partition import TopicPartition
from tests.unit.broker.queue_world import Bench, play


def place(name: str, partition: int) -> TopicPartition:
    return TopicPartition(TopicName(name), partition)


def test_names_come_back_in_order_and_those_of_deleted_topics_do_not():
    async def scenario(bench: Bench) -> None:
        names, broker = TopicNames(bench.broker), bench.broker
        await broker.create_topic("gone", partitions=1)
        await broker.create_topic("adverts", partitions=1)
        wanted = [place("jobs", 1), place("gone", 0), place("adverts", 0), place("jobs", 0)]
        ids = names.to_ids(wanted)
        await broker.delete_topic("gone")
        found = names.to_names(ids.values())
        assert found == [place("adverts", 0), place("jobs", 0), place("jobs", 1)]
        assert names.find(ids[place("gone", 0)]) is None
        assert await names.partition(ids[place("gone", 0)]) is None
        opened = await names.partitions(ids[each] for each in wanted)
        assert [str(each) for each in opened] == ["jobs-1", "adverts-0", "jobs-0"]

    play(scenario, partitions=2)


def test_a_topic_of_the_same_name_is_another_one():
    async def scenario(bench: Bench) -> None:
        names = TopicNames(bench.broker)
        before = names.to_ids([place("jobs", 0)])[place("jobs", 0)]
        await bench.broker.delete_topic("jobs")
        with pytest.raises(TopicNotFound):
            names.to_ids([place("jobs", 0)])
        await bench.broker.create_topic("jobs", partitions=1)
        assert names.find(before) is None
        assert names.to_ids([place("jobs", 0)])[place("jobs", 0)] != before

    play(scenario)


def test_a_partition_that_the_topic_does_not_have_is_none():
    async def scenario(bench: Bench) -> None:
        names = TopicNames(bench.broker)
        topic_id = bench.broker.topic("jobs").topic_id
        assert await names.partition(TopicIdPartition(topic_id, 7)) is None

    play(scenario)
