"""Administrators' tools: list, describe, delete groups; see, move and delete their offsets."""

from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    TopicPartition,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as PlainTopicPartition
from kafka.structs import OffsetAndMetadata

from tests.conformance.group_members import KINDS, Journal, Member
from tests.conformance.group_server import GroupServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupServer]:
    server = GroupServer(tmp_path_factory.mktemp("groups"))
    server.start()
    yield server
    server.stop()
    assert "Traceback" not in server.log(), server.log()


@pytest.fixture
def topic(server: GroupServer) -> str:
    return server.topic()


@pytest.fixture(params=["confluent-classic", "confluent-consumer"])
def member(
    request: pytest.FixtureRequest, server: GroupServer, topic: str, eventually: Any
) -> Iterator[Member]:
    """A member with all partitions of the topic, which has read and committed 40 messages."""
    server.fill(topic, 40)
    journal = Journal()
    group = f"{request.param}-{topic}"
    with KINDS[request.param](server.address, group, [topic], journal) as member:
        eventually(lambda: sum(event.offset == 10 for event in journal.events("committed")) == 4)
        yield member


def offsets_of(server: GroupServer, group: str) -> dict[int, int]:
    asked = ConsumerGroupTopicPartitions(group)
    (found,) = server.admin.list_consumer_group_offsets([asked]).values()
    return {place.partition: place.offset for place in found.result(10).topic_partitions}


def test_groups_are_listed_with_state_and_type(server, member):
    listed = server.admin.list_consumer_groups().result(10)
    assert not listed.errors
    (found,) = (group for group in listed.valid if group.group_id == member.group)
    assert found.state == ConsumerGroupState.STABLE
    assert found.type.name.lower() == member.protocol
    empty = server.admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(10)
    assert member.group not in {group.group_id for group in empty.valid}
    other = {ConsumerGroupType.CLASSIC, ConsumerGroupType.CONSUMER} - {found.type}
    others = server.admin.list_consumer_groups(types=other).result(10)
    assert member.group not in {group.group_id for group in others.valid}


def test_a_group_is_described_with_its_members(server, topic, member):
    (described,) = server.admin.describe_consumer_groups([member.group]).values()
    group = described.result(10)
    assert group.state == ConsumerGroupState.STABLE
    (only,) = group.members
    assert (only.client_id, only.host) == ("rdkafka", "/127.0.0.1")
    assigned = {(place.topic, place.partition) for place in only.assignment.topic_partitions}
    assert assigned == {(topic, partition) for partition in range(4)}


def test_offsets_can_be_moved_when_nobody_reads(server, topic, member):
    assert offsets_of(server, member.group) == dict.fromkeys(range(4), 10)
    moved = ConsumerGroupTopicPartitions(member.group, [TopicPartition(topic, 0, 3)])
    (refused,) = server.admin.alter_consumer_group_offsets([moved]).values()
    with pytest.raises(Exception, match="UNKNOWN_MEMBER_ID"):
        _raise_partition_errors(refused.result(10))
    member.close()
    (done,) = server.admin.alter_consumer_group_offsets([moved]).values()
    _raise_partition_errors(done.result(10))
    assert offsets_of(server, member.group) == {0: 3, 1: 10, 2: 10, 3: 10}


def _raise_partition_errors(result: Any) -> None:
    for place in result.topic_partitions:
        if place.error is not None:
            raise RuntimeError(place.error.name())


def test_only_a_group_without_members_can_be_deleted(server, member):
    (refused,) = server.admin.delete_consumer_groups([member.group]).values()
    with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
        refused.result(10)
    member.close()
    (done,) = server.admin.delete_consumer_groups([member.group]).values()
    done.result(10)
    assert offsets_of(server, member.group) == {}
    assert member.group not in {
        group.group_id for group in server.admin.list_consumer_groups().result(10).valid
    }


def test_kafka_python_sees_moves_and_deletes_offsets(server, topic, member):
    admin = KafkaAdminClient(bootstrap_servers=server.address)
    try:
        place = PlainTopicPartition(topic, 1)
        (found,) = admin.list_group_offsets({member.group: [place]}).values()
        assert found[place].offset == 10
        described = admin.describe_groups([member.group])
        assert topic in str(described)
        refused = admin.delete_group_offsets(member.group, [place])
        assert "GroupSubscribedToTopic" in str(refused)
        member.close()
        admin.alter_group_offsets(member.group, {place: OffsetAndMetadata(4, "moved", -1)})
        assert offsets_of(server, member.group)[1] == 4
        admin.delete_group_offsets(member.group, [place])
        assert offsets_of(server, member.group) == {0: 10, 2: 10, 3: 10}
        admin.delete_groups([member.group])
        assert member.group not in str(admin.list_groups())
    finally:
        admin.close()


async def test_aiokafka_lists_and_describes(server, topic, member):
    admin = AIOKafkaAdminClient(bootstrap_servers=server.address)
    await admin.start()
    try:
        assert member.group in {name for name, _ in await admin.list_consumer_groups()}
        offsets = await admin.list_consumer_group_offsets(member.group)
        assert {place.partition: found.offset for place, found in offsets.items()} == dict.fromkeys(
            range(4), 10
        )
        (described,) = await admin.describe_consumer_groups([member.group])
        state = "Stable" if member.protocol == "classic" else "Dead"
        assert state in str(described.groups if hasattr(described, "groups") else described)
    finally:
        await admin.close()
