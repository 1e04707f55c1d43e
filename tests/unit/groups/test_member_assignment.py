"""The assignment of one member, for a broker that reads on its behalf."""

import pytest

from goqueue.groups import GroupsConfig
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.errors import UnknownMember
from goqueue.groups.member_assignment import (
    Changes,
    find_assignment,
    needs_reconciliation,
    released_count,
    static_member,
)
from goqueue.groups.records import EpochBumped, GroupDeleted, MemberState, TargetSet
from goqueue.model.ids import GroupId, Timestamp
from tests.unit.groups.harness import (
    GROUP,
    ClassicClient,
    ConsumerClient,
    Host,
    partitions_of,
    settle,
    topic,
)

ORDERS = topic("orders", 2)


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(initial_rebalance_delay_ms=0), ORDERS)


def test_a_members_assignment_is_what_it_was_given_so_far(host: Host):
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    second.heartbeat()
    first.heartbeat()
    found = find_assignment(host.machine._context, GROUP, first.member_id)
    assert (found.epoch, found.previous_epoch, found.target_epoch) == (1, 0, 2)
    assert found.state is MemberState.REVOKING
    assert found.member.member_id == first.member_id
    assert found.assigned | found.revoking == partitions_of(ORDERS, 0, 1)
    assert len(found.assigned) == len(found.revoking) == 1


def test_whoever_is_no_member_is_told_to_join(host: Host):
    context = host.machine._context
    with pytest.raises(UnknownMember, match="join again"):
        find_assignment(context, GROUP, "nobody")
    ConsumerClient(host).heartbeat()
    with pytest.raises(UnknownMember, match="join again"):
        find_assignment(context, GROUP, "nobody")
    assert needs_reconciliation(context, GROUP, "nobody")


def test_a_classic_group_has_no_such_members(host: Host):
    client = ClassicClient(host, instance_id="i")
    client.join()
    context = host.machine._context
    with pytest.raises(UnknownMember):
        find_assignment(context, GROUP, client.member_id)
    assert needs_reconciliation(context, GROUP, client.member_id)
    assert static_member(context, GROUP, "i") is None
    assert released_count(context.groups[GROUP]) == released_count(None) == 0


def test_a_member_needs_reconciliation_while_a_heartbeat_would_change_something(host: Host):
    context = host.machine._context
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    assert not needs_reconciliation(context, GROUP, first.member_id)
    second.heartbeat()
    assert needs_reconciliation(context, GROUP, first.member_id), "there is a new target"
    assert not needs_reconciliation(context, GROUP, second.member_id), "nothing is free yet"
    first.heartbeat()
    assert not needs_reconciliation(context, GROUP, first.member_id), "it has to let go first"
    first.heartbeat()
    assert needs_reconciliation(context, GROUP, second.member_id)
    settle(first, second)
    assert not needs_reconciliation(context, GROUP, second.member_id)


def test_a_static_member_is_found_by_its_instance(host: Host):
    client = ConsumerClient(host, instance_id="i")
    client.heartbeat()
    found = static_member(host.machine._context, GROUP, "i")
    assert found is not None
    assert found.member_id == client.member_id
    assert static_member(host.machine._context, GROUP, "j") is None
    assert static_member(host.machine._context, GroupId("nobody"), "i") is None


def test_changes_tell_new_targets_from_partitions_that_became_free():
    group, changes = ConsumerGroup(GROUP), Changes()
    changes.note(EpochBumped(GROUP, 1, (), Timestamp(0)), 0, group)
    assert not changes
    changes.note(TargetSet(GROUP, 1, "uniform", {}), 0, group)
    assert (changes.retargeted, changes.released) == ({GROUP}, set())
    deleted = Changes()
    deleted.note(GroupDeleted(GROUP), 0, None)
    assert deleted.retargeted == {GROUP}
    group.released_count = 2
    released = Changes()
    released.note(EpochBumped(GROUP, 2, (), Timestamp(0)), 2, group)
    assert not released
    released.note(EpochBumped(GROUP, 2, (), Timestamp(0)), 1, group)
    assert (bool(released), released.released, released.retargeted) == (True, {GROUP}, set())
