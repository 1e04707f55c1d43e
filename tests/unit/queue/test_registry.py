"""The groups' own log: who is a queue group."""

import pytest

from goqueue.model.ids import GroupId, Offset, Timestamp, TopicName
from goqueue.queue import GroupTable, QueueGroupNotFound, QueueMember, QueueRegistry, QueueSettings
from goqueue.queue.records import (
    Forgotten,
    GroupCreated,
    GroupForgotten,
    LedgersSplit,
    MemberJoined,
    MemberLeft,
    Numbered,
    Opened,
)
from goqueue.queue.registry import RegistryRecord
from tests.unit.queue.harness import GROUP, TOPIC, TOPIC_ID, WHERE

OTHER = GroupId("others")


def registry_of(*records: RegistryRecord) -> QueueRegistry:
    registry = QueueRegistry(GroupTable())
    for record in records:
        registry.apply(registry.decode(registry.encode(record)))
    return registry


def member(name: str, generation: int = 1) -> QueueMember:
    return QueueMember(
        member_id=name,
        client_id="c",
        client_host="h",
        topics=(TOPIC,),
        session_timeout_ms=1_000,
        generation=generation,
        joined_at=Timestamp(1),
    )


def test_a_group_begins_once():
    registry = registry_of()
    (record,) = registry.begin(GROUP).records
    assert record == GroupCreated(GROUP, has_begun=True)
    registry.apply(record)
    assert registry.begin(GROUP).records == ()
    assert registry.begin(OTHER).records != ()
    assert registry.table.group(GROUP).has_begun


def test_a_group_that_was_forgotten_begins_again():
    registry = registry_of(GroupCreated(GROUP, has_begun=True))
    registry.apply(*registry.forget_group(GROUP).records)
    assert registry.begin(GROUP).records != ()
    with pytest.raises(QueueGroupNotFound):
        registry.forget_group(GROUP)


def test_a_group_that_a_log_knew_without_a_beginning_is_told_to_have_begun():
    assert registry_of(GroupCreated(GROUP)).begin(GROUP).records != ()


def test_settings_of_a_log_that_kept_them_are_handed_over_once():
    settings = QueueSettings(max_failures=7)
    registry = registry_of(GroupCreated(GROUP, settings), GroupCreated(OTHER))
    assert registry.take_former_settings() == {GROUP: settings}
    assert registry.take_former_settings() == {}


def test_members_of_a_log_that_kept_them_are_handed_over_once():
    registry = registry_of(
        GroupCreated(GROUP, generation=1),
        GroupCreated(OTHER),
        MemberJoined(GROUP, member("ann", 2)),
        MemberJoined(GROUP, member("bob", 3)),
        MemberLeft(GROUP, "ann"),
        MemberLeft(GROUP, "nobody"),
    )
    assert registry.take_former_members() == ({GROUP: 5}, [(GROUP, member("bob", 3))])
    assert registry.take_former_members() == ({}, [])


@pytest.mark.parametrize("is_split", [False, True])
def test_a_snapshot_says_what_the_log_said(is_split: bool):
    log: list[RegistryRecord] = [
        GroupCreated(GROUP, QueueSettings(max_failures=7), 2, has_begun=True),
        MemberJoined(GROUP, member("ann", 2)),
        GroupCreated(OTHER),
        GroupForgotten(OTHER),
        Opened(WHERE, TOPIC_ID, Offset(4)),
    ]
    registry = registry_of(*log, *([LedgersSplit()] if is_split else []))
    found = list(registry.snapshot())
    assert list(registry_of(*found).snapshot()) == found
    assert (LedgersSplit() in found) is is_split
    assert any(isinstance(each, Numbered) for each in found) is not is_split
    assert GroupCreated(GROUP, QueueSettings(max_failures=7), 2, has_begun=True) in found
    assert not any(isinstance(each, GroupCreated) and each.group_id == OTHER for each in found)


def test_ledgers_of_before_are_there_until_they_are_split():
    registry = registry_of(GroupCreated(GROUP), Opened(WHERE, TOPIC_ID, Offset(4)))
    assert [each.topic for each in registry.former.take()] == [TOPIC]
    registry.apply(*registry.split().records)
    assert not registry.former
    assert registry.table.state(WHERE) is None


def test_a_topic_that_is_gone_takes_its_ledgers_along():
    registry = registry_of(GroupCreated(GROUP), Opened(WHERE, TOPIC_ID, Offset(4)))
    registry.apply(Forgotten(TopicName("bills")))
    assert registry.former
    registry.apply(Forgotten(TOPIC))
    assert not registry.former


def test_a_registry_has_no_deadlines():
    registry = registry_of()
    assert registry.next_deadline() is None
    assert registry.on_deadline(Timestamp(10**12)).records == ()
