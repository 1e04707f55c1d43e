"""Topics that clients and operators create, grow, configure and delete."""

import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.model.config import Config, TopicsConfig
from goqueue.model.errors import (
    InvalidReplication,
    PolicyViolation,
    TopicExists,
    TopicNotFound,
)
from tests.unit.broker.brokers import CONFIG, play


def topics(**settings: object) -> Config:
    return msgspec.structs.replace(CONFIG, topics=TopicsConfig(**settings))  # type: ignore[arg-type]


def test_what_is_only_validated_is_not_done():
    async def story(broker: Broker) -> None:
        await broker.create_topic("t", partitions=1)
        before = broker.metadata.topic("t")
        await broker.create_topic("other", validate_only=True)
        await broker.add_partitions("t", 9, validate_only=True)
        await broker.change_settings("t", {"retention.ms": "1"}, validate_only=True)
        with pytest.raises(TopicExists):
            await broker.create_topic("t", validate_only=True)
        assert [topic.name for topic in broker.topics()] == ["t"]
        assert broker.metadata.topic("t") is before

    play(story)


def test_names_of_the_brokers_own_topics_are_not_given_away():
    async def story(broker: Broker) -> None:
        for work in (broker.create_topic("__mine"), broker.delete_topic("__metadata")):
            with pytest.raises(PolicyViolation):
                await work
        with pytest.raises(TopicNotFound):
            await broker.ensure_topic("__mine")

    play(story)


def test_there_are_no_more_topics_than_the_setting_allows():
    async def story(broker: Broker) -> None:
        await broker.create_topic("first")
        await broker.create_topic("second")
        with pytest.raises(PolicyViolation, match=r"topics\.count_max"):
            await broker.create_topic("third")
        with pytest.raises(TopicExists):
            await broker.create_topic("second")
        await broker.delete_topic("first")
        await broker.create_topic("third")

    play(story, topics(count_max=2))


def test_the_replication_factor_of_the_settings_is_that_of_topics_which_name_none():
    async def story(broker: Broker) -> None:
        with pytest.raises(InvalidReplication, match="factor 2, and there is one node"):
            await broker.create_topic("t")
        topic = await broker.create_topic("t", replication_factor=1)
        assert topic.replication_factor == 1

    play(story, topics(replication=2))


def test_a_missing_topic_is_created_when_the_setting_allows_it():
    async def story(broker: Broker) -> None:
        made = await broker.ensure_topic("t")
        assert made.partitions == 3
        assert await broker.ensure_topic("t") == made

    play(story, topics(auto_create=True, partitions=3))


def test_a_missing_topic_is_missing_when_the_setting_forbids_it():
    async def story(broker: Broker) -> None:
        with pytest.raises(TopicNotFound):
            await broker.ensure_topic("t")

    play(story, topics(auto_create=False))
