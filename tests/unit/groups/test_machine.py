"""Decisions that the disk refused: nothing happened, and nobody is left waiting for it."""

import pytest

from goqueue.groups import GroupsConfig, Joined, Parked
from goqueue.groups.errors import RebalanceInProgress, UnknownMember
from goqueue.model.errors import DiskFull
from tests.unit.groups.harness import ClassicClient, ConsumerClient, Host, settle, topic

ORDERS = topic("orders", 4)


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(), ORDERS)


def test_an_expiry_that_could_not_be_written_is_tried_again(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    settle(first, second)
    host.disk_is_full = True
    with pytest.raises(DiskFull):
        host.advance(30_000)
    assert host.machine.next_deadline() == 0, "due at once, not forgotten"
    host.disk_is_full = False
    host.advance(30_000)  # a whole new session, then it ends
    with pytest.raises(UnknownMember):
        first.heartbeat()


def test_a_join_that_could_not_be_written_leaves_no_ghost(host: Host) -> None:
    first = ClassicClient(host)
    first.join()
    host.disk_is_full = True
    with pytest.raises(DiskFull):
        ClassicClient(host).join()
    host.disk_is_full = False
    host.advance(1)
    assert isinstance(first.reply(), RebalanceInProgress), "sent to ask again"
    assert isinstance(first.join(), Joined | Parked)
    host.advance(60_000)
    assert isinstance(first.reply(), Joined)
    assert len(first.reply().members) == 1


def test_those_whose_answer_was_lost_with_the_decision_are_woken_after_all(host: Host) -> None:
    first, second = ClassicClient(host), ClassicClient(host)
    first.join()
    second.join()
    host.disk_is_full = True
    with pytest.raises(DiskFull):
        host.advance(60_000)
    assert first.reply() is second.reply() is None
    host.advance(0)
    host.disk_is_full = False
    for client in (first, second):
        assert isinstance(client.reply(), RebalanceInProgress)
        client.join()
    assert first.reply().generation == 1


def test_a_change_of_topics_that_could_not_be_written_is_made_up_for(host: Host) -> None:
    client = ConsumerClient(host)
    client.heartbeat()
    host.disk_is_full = True
    with pytest.raises(DiskFull):
        host.change_topics(topic("orders", 6))
    host.disk_is_full = False
    host.advance(1)
    client.heartbeat()
    assert len(client.owned) == 6


def test_a_commit_that_could_not_be_written_changes_nothing(host: Host) -> None:
    host.commit(1)
    host.disk_is_full = True
    with pytest.raises(DiskFull):
        host.commit(2)
    host.disk_is_full = False
    assert host.read_committed() == 1
    host.commit(3)
    assert host.read_committed() == 3
