"""Committed offsets, as they are kept."""

import pytest

from goqueue.groups import CommitRequest, FetchRequest, GroupsConfig, OffsetToCommit
from goqueue.model.ids import Offset, TopicName, TopicPartition
from tests.unit.groups.harness import GROUP, Host, topic

ORDERS, PAYMENTS = topic("orders", 2), topic("payments", 1)
KEY = TopicPartition(TopicName("orders"), 0)


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(initial_rebalance_delay_ms=0), ORDERS, PAYMENTS)


def test_a_commit_keeps_leader_epoch_metadata_and_time(host: Host) -> None:
    wanted = OffsetToCommit(KEY[0], 0, Offset(5), leader_epoch=3, metadata="note")
    request = CommitRequest(group_id=GROUP, offsets=(wanted,))
    host.run(host.machine.commit(host.now, request))
    host.restart()
    (fetched,) = host.run(host.machine.fetch([FetchRequest(group_id=GROUP)]))
    found = fetched.offsets[KEY]
    assert found is not None
    assert (found.offset, found.leader_epoch, found.metadata) == (5, 3, "note")
    assert found.committed_at == host.now


def test_positions_in_a_deleted_topic_are_forgotten(host: Host) -> None:
    host.commit(1)
    host.commit(1, "payments")
    host.run(host.machine.topics_deleted(host.now, [TopicName("orders")]))
    assert (host.committed(), host.committed("payments")) == (None, 1)
