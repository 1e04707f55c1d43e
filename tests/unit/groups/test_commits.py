"""Committed offsets: who may move them, and how long they live."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest

from goqueue.groups import FetchRequest, GroupsConfig
from goqueue.groups.commits import CommitRequest, OffsetToCommit
from goqueue.groups.errors import (
    GroupNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMember,
)
from goqueue.groups.records import MemberMoved
from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from tests.unit.groups.harness import GROUP, ClassicClient, ConsumerClient, Host, settle, topic

ORDERS, PAYMENTS = topic("orders", 2), topic("payments", 1)
WEEK = 7 * 24 * 3_600_000
CHECK = 10 * 60_000
KEY = TopicPartition(TopicName("orders"), 0)


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(initial_rebalance_delay_ms=0), ORDERS, PAYMENTS)


def groups(host: Host) -> list[str]:
    return [listing.group_id for listing in host.run(host.machine.list_groups())]


def test_a_group_without_members_takes_anybodys_commits(host: Host) -> None:
    host.commit(12)
    assert host.read_committed() == 12
    host.commit(3)
    assert host.read_committed() == 3, "a floor may go back"
    with pytest.raises(IllegalGeneration):
        Host().commit(1, member_id="m", generation=4)


def test_several_groups_are_fetched_at_once_and_fail_alone(host: Host) -> None:
    member = ConsumerClient(host)
    member.heartbeat()
    host.commit(4, member_id=member.member_id, generation=1)
    requests = [
        FetchRequest(group_id=GROUP, member_id=member.member_id, member_epoch=1),
        FetchRequest(group_id=GROUP, member_id=member.member_id, member_epoch=0),
        FetchRequest(group_id=GROUP, member_id="nobody", member_epoch=1),
        FetchRequest(group_id=GroupId("other"), partitions=(KEY,)),
    ]
    fine, stale, unknown, other = host.run(host.machine.fetch(requests))
    assert fine.error is None
    assert fine.offsets[KEY] is not None
    assert isinstance(stale.error, StaleMemberEpoch)
    assert isinstance(unknown.error, UnknownMember)
    assert other.offsets == {KEY: None}


def test_only_a_consumer_group_looks_at_who_fetches_its_offsets(host: Host) -> None:
    """franz-go names its member id and generation when it fetches for a classic group, too."""
    client = ClassicClient(host)
    client.join()
    client.sync({client: {"orders": [0, 1]}})
    host.commit(7, member_id=client.member_id, generation=client.generation)
    ours, strangers, missing = host.run(
        host.machine.fetch(
            [
                FetchRequest(
                    group_id=GROUP,
                    partitions=(KEY,),
                    member_id=client.member_id,
                    member_epoch=client.generation,
                ),
                FetchRequest(
                    group_id=GROUP, partitions=(KEY,), member_id="stranger", member_epoch=99
                ),
                FetchRequest(
                    group_id=GroupId("missing"), partitions=(KEY,), member_id="m", member_epoch=1
                ),
            ]
        )
    )
    for fetched in (ours, strangers):
        assert fetched.error is None
        found = fetched.offsets[KEY]
        assert found is not None
        assert found.offset == 7
    assert missing.error is None
    assert missing.offsets == {KEY: None}


class Regained(NamedTuple):
    """A member at epoch 3 that has held one partition since epoch 1, the other one since 3."""

    member_id: str
    kept: int
    regained: int


@pytest.fixture
def holder(host: Host) -> Regained:
    member, guest = ConsumerClient(host), ConsumerClient(host)
    member.heartbeat()
    settle(guest, member)
    (kept,) = member.owned
    guest.leave()
    settle(member)
    assert (member.epoch, len(member.owned)) == (3, 2)
    return Regained(member.member_id, kept.partition, 1 - kept.partition)


def after_restart(host: Host) -> None:
    host.restart()


def from_snapshot(host: Host) -> None:
    records = list(host.machine.snapshot())
    host.log = [host.machine.encode(record) for record in records]
    host.restart()


@pytest.mark.parametrize("first", [lambda host: None, after_restart, from_snapshot])
def test_a_commit_of_an_older_epoch_counts_where_the_partition_was_held_since(
    host: Host, holder: Regained, first: Callable[[Host], None]
) -> None:
    """The answer that told it the new epoch may have been lost; it commits all the same."""
    first(host)
    for epoch in (1, 2, 3):
        host.commit(epoch, partition=holder.kept, member_id=holder.member_id, generation=epoch)
        assert host.read_committed(partition=holder.kept) == epoch
    for epoch in (1, 2):
        with pytest.raises(StaleMemberEpoch):
            host.commit(9, partition=holder.regained, member_id=holder.member_id, generation=epoch)
    host.commit(5, partition=holder.regained, member_id=holder.member_id, generation=3)
    assert host.read_committed(partition=holder.regained) == 5


def test_an_older_epoch_commits_all_partitions_or_none(host: Host, holder: Regained) -> None:
    wanted = tuple(OffsetToCommit(KEY[0], partition, Offset(4)) for partition in (0, 1))
    request = CommitRequest(
        group_id=GROUP, offsets=wanted, member_id=holder.member_id, generation=2
    )
    with pytest.raises(StaleMemberEpoch):
        host.run(host.machine.commit(host.now, request))
    assert host.read_committed(partition=holder.kept) is None


@pytest.mark.parametrize(("topic", "epoch"), [("orders", 4), ("payments", 2), ("gone", 2)])
def test_an_epoch_to_come_and_partitions_of_others_are_refused(
    host: Host, holder: Regained, topic: str, epoch: int
) -> None:
    with pytest.raises(StaleMemberEpoch):
        host.commit(1, topic, partition=holder.kept, member_id=holder.member_id, generation=epoch)


def test_a_partition_that_another_member_has_by_now_is_refused(host: Host) -> None:
    member, guest = ConsumerClient(host), ConsumerClient(host)
    member.heartbeat()
    settle(guest, member)
    (given,) = guest.owned
    with pytest.raises(StaleMemberEpoch):
        host.commit(1, partition=given.partition, member_id=member.member_id, generation=1)


def test_records_without_assignment_epochs_are_read_as_assigned_at_the_members_epoch(
    host: Host, holder: Regained
) -> None:
    """Snapshots that an earlier version wrote."""
    host.log = [
        host.machine.encode(
            msgspec.structs.replace(record, assignment_epochs={})
            if isinstance(record, MemberMoved)
            else record
        )
        for record in host.machine.snapshot()
    ]
    host.restart()
    with pytest.raises(StaleMemberEpoch):
        host.commit(1, partition=holder.kept, member_id=holder.member_id, generation=2)
    host.commit(1, partition=holder.kept, member_id=holder.member_id, generation=3)


def test_one_partitions_metadata_may_be_too_large(host: Host) -> None:
    wanted = (
        OffsetToCommit(KEY[0], 0, Offset(1), metadata="x" * 4_097),
        OffsetToCommit(KEY[0], 1, Offset(2)),
    )
    request = CommitRequest(group_id=GROUP, offsets=wanted)
    refused, fine = host.run(host.machine.commit(host.now, request))
    assert isinstance(refused.error, OffsetMetadataTooLarge)
    assert fine.error is None
    assert host.read_committed() is None
    assert host.read_committed(partition=1) == 2


def test_a_commit_between_join_and_sync_is_put_off(host: Host) -> None:
    client = ClassicClient(host)
    client.join()
    with pytest.raises(RebalanceInProgress):
        host.commit(1, member_id=client.member_id, generation=client.generation)


def test_a_transaction_commits_for_a_group_without_naming_a_member(host: Host) -> None:
    ConsumerClient(host).heartbeat()
    host.commit(8, producer_id=1, producer_epoch=0)
    assert host.read_committed() is None
    host.end(1, 0)
    assert host.read_committed() == 8


def test_a_group_has_a_name(host: Host) -> None:
    with pytest.raises(InvalidGroupId):
        host.run(host.machine.commit(host.now, CommitRequest(group_id=GroupId(""), offsets=())))


def test_offsets_of_a_simple_group_expire_a_week_after_the_commit(host: Host) -> None:
    host.commit(1)
    host.advance(WEEK - 1)
    host.commit(2, partition=1)
    host.advance(CHECK)
    assert host.read_committed() is None
    assert host.read_committed(partition=1) == 2
    host.advance(WEEK + CHECK)
    assert groups(host) == []
    assert host.machine.next_deadline() is None


def test_offsets_live_while_a_member_reads_and_a_week_after_the_last_one_left(host: Host) -> None:
    member = ConsumerClient(host)
    member.heartbeat()
    host.commit(1, member_id=member.member_id, generation=1)
    host.commit(1, "payments", member_id=member.member_id, generation=1)
    for _ in range(int(1.5 * WEEK) // 25_000):
        host.advance(25_000)
        member.topics = None
        member.heartbeat(silent=True)
    assert host.read_committed() == 1
    assert host.read_committed("payments") is None, "nobody reads that any more"
    member.leave()
    host.advance(WEEK - CHECK)
    assert host.read_committed() == 1
    host.advance(2 * CHECK)
    assert host.read_committed() is None
    assert groups(host) == []


def test_a_classic_groups_offsets_are_kept_by_its_subscription(host: Host) -> None:
    client = ClassicClient(host)
    client.session_timeout_ms = 30 * 60_000
    client.join()
    client.sync({client: {"orders": [0, 1]}})
    host.commit(1, member_id=client.member_id, generation=client.generation)
    for _ in range(2 * WEEK // (25 * 60_000)):
        host.advance(25 * 60_000)
        client.heartbeat()
    assert host.read_committed() == 1


def test_an_old_clients_own_retention_is_kept(host: Host) -> None:
    host.commit(1, retention_ms=60_000)
    host.advance(CHECK)
    assert host.read_committed() is None


def test_expiry_survives_a_restart(host: Host) -> None:
    host.commit(1)
    host.advance(WEEK - 1)
    host.restart()
    host.advance(CHECK)
    assert host.read_committed() is None


def test_an_empty_group_without_offsets_is_forgotten(host: Host) -> None:
    member = ConsumerClient(host)
    member.heartbeat()
    member.leave()
    assert groups(host) == [GROUP]
    host.advance(2 * CHECK)
    assert groups(host) == []


def test_offsets_of_topics_in_use_are_not_deleted(host: Host) -> None:
    member = ConsumerClient(host)
    member.heartbeat()
    for name in ("orders", "payments"):
        host.commit(1, name, member_id=member.member_id, generation=1)
    keys = [KEY, TopicPartition(TopicName("payments"), 0)]
    in_use, gone = host.run(host.machine.delete_offsets(host.now, GROUP, keys))
    assert isinstance(in_use.error, GroupSubscribedToTopic)
    assert gone.error is None
    assert (host.read_committed(), host.read_committed("payments")) == (1, None)
    with pytest.raises(GroupNotFound):
        host.machine.delete_offsets(host.now, GroupId("other"), keys)


def test_commits_are_fenced_by_the_epoch(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    host.commit(5, member_id=first.member_id, generation=1)
    settle(first, second)
    (lost, *_) = second.owned
    with pytest.raises(StaleMemberEpoch):
        host.commit(6, partition=lost.partition, member_id=first.member_id, generation=1)
    with pytest.raises(UnknownMember):
        host.commit(6, member_id="gone", generation=1)
    with pytest.raises(UnknownMember):
        host.commit(6)
    assert host.read_committed() == 5
