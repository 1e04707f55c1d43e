"""Committed offsets, as they are kept."""

import pytest

from goqueue.groups import (
    CommitRequest,
    CommittedOffset,
    FetchRequest,
    GroupsConfig,
    OffsetToCommit,
)
from goqueue.groups.offsets import SNAPSHOT_OFFSETS_MAX, OffsetStore
from goqueue.groups.records import (
    OffsetsCommitted,
    OffsetsDeleted,
    PendingOffsetsAdded,
    PendingOffsetsEnded,
)
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
    assert (host.read_committed(), host.read_committed("payments")) == (None, 1)


def make_offset(offset: int, partition: int = 0) -> CommittedOffset:
    return CommittedOffset(KEY.topic, partition, Offset(offset))


def test_a_store_has_the_newest_offset_of_each_partition() -> None:
    store = OffsetStore()
    store.apply(OffsetsCommitted(GROUP, (make_offset(5), make_offset(7, 1))))
    store.apply(OffsetsCommitted(GROUP, (make_offset(3),)))
    assert {key.partition: each.offset for key, each in store.of(GROUP).items()} == {0: 3, 1: 7}
    assert list(store.groups()) == [GROUP]


def test_a_group_without_offsets_is_forgotten() -> None:
    store = OffsetStore()
    store.apply(OffsetsCommitted(GROUP, (make_offset(5), make_offset(7, 1))))
    store.apply(OffsetsDeleted(GROUP, (KEY,)))
    assert GROUP in store
    store.apply(OffsetsDeleted(GROUP, (TopicPartition(KEY.topic, 1), KEY)))
    assert GROUP not in store
    store.apply(OffsetsCommitted(GROUP, ()))
    assert GROUP not in store


def test_a_group_with_nothing_but_pending_offsets_is_among_all_groups() -> None:
    store = OffsetStore()
    store.apply(PendingOffsetsAdded(GROUP, 8, 0, (make_offset(5),)))
    assert (list(store.groups()), store.all_groups()) == ([], [GROUP])
    assert store.partitions(GROUP) == [KEY]
    store.apply(PendingOffsetsEnded(GROUP, 8, 0, (make_offset(5),)))
    assert (store.all_groups(), GROUP in store) == ([GROUP], True)
    assert store.pending.of(GROUP) == {}


def test_a_snapshot_of_many_offsets_comes_in_pieces_and_as_they_were() -> None:
    store = OffsetStore()
    count = 2 * SNAPSHOT_OFFSETS_MAX + 1
    store.apply(OffsetsCommitted(GROUP, tuple(make_offset(1, each) for each in range(count))))
    reading = store.snapshot()
    store.apply(OffsetsCommitted(GROUP, (make_offset(9, count - 1),)))
    records = list(reading)
    store.end_snapshot()
    assert [len(each.offsets) for each in records if isinstance(each, OffsetsCommitted)] == [
        SNAPSHOT_OFFSETS_MAX,
        SNAPSHOT_OFFSETS_MAX,
        1,
    ]
    again = OffsetStore()
    for record in records:
        again.apply(record)
    assert {each.offset for each in again.of(GROUP).values()} == {1}
