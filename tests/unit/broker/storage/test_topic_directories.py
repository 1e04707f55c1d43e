"""Whose a directory is; what a broker does with those of deleted topics: `test_partition_store`."""

from uuid import UUID

import pytest

from goqueue.broker.storage.topic_directories import TopicDirectories
from goqueue.cluster import Topic
from goqueue.model.errors import CorruptData, TopicNotFound
from goqueue.model.ids import Timestamp, TopicId, TopicIdPartition, TopicName
from goqueue.model.settings import topic_settings
from goqueue.testing.sim import SimDisk, World

FIRST, SECOND = TopicId(UUID(int=1)), TopicId(UUID(int=2))


@pytest.fixture
def disk():
    with World(0) as world:
        yield world.disk("a")


@pytest.fixture
def directories(disk: SimDisk) -> TopicDirectories:
    return TopicDirectories(disk, "/data")


def test_a_directory_is_claimed_once(directories: TopicDirectories, disk: SimDisk):
    directories.claim("t", FIRST)
    directories.claim("t", FIRST)
    assert disk.list_directory("/data/logs/t") == ["topic"]


def test_a_damaged_directory_does_not_hide_the_replicas_of_others(
    directories: TopicDirectories, disk: SimDisk
):
    for topic, topic_id in (("damaged", FIRST), ("whole", SECOND)):
        directories.claim(topic, topic_id)
        disk.make_directory(f"/data/logs/{topic}/0")
    disk.flip_bit("/data/logs/damaged/topic", 5)
    assert directories.stored_replicas() == [TopicIdPartition(SECOND, 0)]


def test_a_topic_that_was_deleted_claims_nothing(directories: TopicDirectories):
    directories.topic_exists = lambda topic_id: topic_id != FIRST
    with pytest.raises(TopicNotFound):
        directories.claim("t", FIRST)


@pytest.mark.parametrize("was_deleted", [True, False])
def test_what_a_namesake_left_is_moved_away(
    directories: TopicDirectories, disk: SimDisk, was_deleted: bool
):
    directories.claim("t", FIRST)
    directories.topic_was_deleted = lambda _topic_id: was_deleted
    directories.claim("t", SECOND)
    there = f"/data/deleted/{FIRST}" if was_deleted else f"/data/orphaned/t.{FIRST}"
    assert disk.exists(f"{there}/topic")
    directories.remove_deleted()
    assert disk.exists(there) != was_deleted


def test_partitions_without_an_owner_are_left_to_the_operator(
    directories: TopicDirectories, disk: SimDisk
):
    disk.make_directory("/data/logs/t/0")
    with pytest.raises(CorruptData, match=str(FIRST)):
        directories.claim("t", FIRST)
    disk.make_directory("/data/logs/__groups/0")
    directories.claim("__groups", FIRST)


def test_ledgers_are_found_where_they_are(directories: TopicDirectories):
    topic = Topic(FIRST, TopicName("t"), 2, {}, topic_settings({}), Timestamp(0))
    assert directories.stored_ledgers([topic]) == []
    directories.make_ledger_directory(topic, 1)
    assert directories.stored_ledgers([topic]) == [(topic, 1)]
