"""What counts as something new for a pipeline that is parked."""

from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

import pytest

from goqueue.client.errors import ServerUnreachable
from goqueue.client.kafka import TopicLayout
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.spark.service.news import News, Parked
from goqueue.spark.source.offsets import stored_offsets
from goqueue.spark.source.options import source_options


class Cluster:
    """A broker in memory: the topics' ends, by partition."""

    def __init__(self) -> None:
        self.ends_of = {"orders": [5, 7], "other": [3]}
        self.ids = {name: UUID(int=number) for number, name in enumerate(self.ends_of, 1)}
        self.open_from: dict[str, int] = {}  # where a transaction is open
        self.is_away = False
        self.asked = 0
        self.closed = 0

    def metadata(
        self, topics: Collection[str] | None = None, *, skips_missing: bool = False
    ) -> dict[str, TopicLayout]:
        self.asked += 1
        if self.is_away:
            raise ServerUnreachable("away")
        wanted = self.ends_of if topics is None else topics
        return {
            name: TopicLayout(
                name, len(self.ends_of[name]), False, {}, self.ids.get(name, UUID(int=99))
            )
            for name in wanted
            if name in self.ends_of
        }

    def ends(
        self, partitions: Iterable[TopicPartition], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        return {
            each: self.open_from.get(each.topic, 10**9)
            if read_committed and each.topic in self.open_from
            else self.ends_of[each.topic][each.partition]
            for each in partitions
        }

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def news(cluster: Cluster) -> News:
    return News(lambda bootstrap, login: cluster)


def at(cluster: Cluster, *topics: str) -> dict[str, dict[str, int]]:
    """As a query's report has it that has read all of these."""
    places = {
        TopicPartition(TopicName(name), partition): end
        for name in topics
        for partition, end in enumerate(cluster.ends_of[name])
    }
    return stored_offsets(places, cluster.ids)


def parked(cluster: Cluster, *read: str, **options: str) -> Parked:
    given = {"bootstrap.servers": "b:1", **(options or {"subscribe": ",".join(read)})}
    return Parked((source_options(given, is_stream=True),), (at(cluster, *read),))


def test_nothing_is_new_where_everything_was_read(cluster: Cluster, news: News):
    assert news.look({"p": parked(cluster, "orders")}) == {}


def test_messages_are_counted_for_everybody_with_one_question(cluster: Cluster, news: News):
    both = {"a": parked(cluster, "orders"), "b": parked(cluster, "other")}
    cluster.ends_of["orders"] = [6, 9]
    assert news.look(both) == {"a": 3}
    assert cluster.asked == 1


def test_each_query_of_a_pipeline_has_its_own_offsets(cluster: Cluster, news: News):
    one = parked(cluster, "orders")
    cluster.ends_of["orders"] = [5, 9]
    two = Parked(one.sources, (at(cluster, "orders"), *one.reached))
    assert news.look({"p": two}) == {"p": 2}


def test_new_partitions_new_topics_of_a_pattern_and_topics_made_again_are_new(
    cluster: Cluster, news: News
):
    by_name = parked(cluster, "orders")
    by_pattern = parked(cluster, "orders", "other", subscribePattern="o.*")
    everybody = {"name": by_name, "pattern": by_pattern}
    assert news.look(everybody) == {}
    cluster.ends_of["orders"].append(0)
    assert news.look({"name": by_name}) == {"name": 0}
    cluster.ends_of["orders"].pop()
    cluster.ends_of["oranges"] = [0]
    assert news.look(everybody) == {"pattern": 0}
    del cluster.ends_of["oranges"]
    cluster.ids["orders"] = UUID(int=77)
    assert news.look(everybody) == {"name": 0, "pattern": 0}


def test_a_topic_that_is_gone_is_new(cluster: Cluster, news: News):
    reader = parked(cluster, "orders")
    del cluster.ends_of["orders"]
    assert news.look({"p": reader}) == {"p": 0}


def test_a_source_that_no_sink_reads_brings_nothing(cluster: Cluster, news: News):
    unread = Parked(
        (
            *parked(cluster, "orders").sources,
            *parked(cluster, "other").sources,
        ),
        (at(cluster, "orders"),),
    )
    cluster.ends_of["other"] = [100]
    assert news.look({"p": unread}) == {}


def test_readers_of_committed_data_wait_for_the_end_of_a_transaction(cluster: Cluster, news: News):
    committed = parked(cluster, "other")
    dirty = parked(cluster, "other", subscribe="other", isolation="read_uncommitted")
    cluster.open_from["other"] = 3
    cluster.ends_of["other"] = [8]
    assert news.look({"committed": committed, "dirty": dirty}) == {"dirty": 5}


def test_of_a_broker_that_is_away_there_is_nothing_and_later_there_is(cluster: Cluster, news: News):
    reader: dict[str, Any] = {"p": parked(cluster, "orders")}
    cluster.ends_of["orders"] = [6, 7]
    cluster.is_away = True
    assert news.look(reader) == {}
    assert cluster.closed == 1
    cluster.is_away = False
    assert news.look(reader) == {"p": 1}
    news.close()
    assert cluster.closed == 2
