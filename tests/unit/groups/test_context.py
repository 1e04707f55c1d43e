"""The state that the requests of all protocols share."""

import pytest

from goqueue.groups import UNSET, AssignmentPace, GroupsConfig, Topics
from goqueue.groups.context import CoordinatorContext
from goqueue.groups.errors import InvalidGroupRequest
from goqueue.groups.parked_requests import ParkedRequest, Waiting
from goqueue.groups.timers import Timer, TimerKind
from goqueue.model.ids import GroupId, Timestamp
from tests.unit.groups.harness import GROUP

OTHER = GroupId("others")


@pytest.fixture
def context() -> CoordinatorContext:
    config = GroupsConfig(member_metadata_bytes_max=100, offset_check_interval_ms=1_000)
    return CoordinatorContext(config, Topics(), AssignmentPace(), lambda _: UNSET, lambda _: UNSET)


def test_what_is_said_of_a_member_is_bounded(context: CoordinatorContext):
    context.check_member_bytes(100)
    with pytest.raises(InvalidGroupRequest, match="101 bytes about one member, 100 allowed"):
        context.check_member_bytes(101)


def test_a_check_of_offsets_is_not_put_off_by_later_commits(context: CoordinatorContext):
    context.check_offsets_later(GROUP, Timestamp(0))
    context.check_offsets_later(GROUP, Timestamp(500))
    assert context.timers.take_due(Timestamp(999)) == []
    assert context.timers.take_due(Timestamp(1_000)) == [Timer(TimerKind.OFFSETS, GROUP)]


def test_a_group_that_is_gone_leaves_nothing_in_memory(context: CoordinatorContext):
    for group_id in (GROUP, OTHER):
        context.check_offsets_later(group_id, Timestamp(0))
        context.timers.set(Timer(TimerKind.TARGET, group_id), Timestamp(5))
        context.target_set_at[group_id] = Timestamp(0)
        context.statistics.start_rebalance(group_id, "member joined", Timestamp(0))
        context.parked_requests.waiters(group_id).newcomers = True
    context.drop(GROUP)
    assert {timer.group_id for timer in context.timers.take_due(Timestamp(9_999))} == {OTHER}
    assert context.target_set_at.keys() == context.statistics.groups.keys() == {OTHER}
    assert not context.parked_requests.peek_waiters(GROUP).newcomers


def test_a_restart_forgets_deadlines_and_whoever_waits(context: CoordinatorContext):
    token = context.parked_requests.park(ParkedRequest(GROUP, "ann", Waiting.JOIN))
    context.check_offsets_later(GROUP, Timestamp(0))
    context.target_set_at[GROUP] = Timestamp(0)
    context.share_assignments[GROUP, "ann"] = {}
    assert context.forget() == [token]
    assert (len(context.timers), len(context.parked_requests)) == (0, 0)
    assert (context.target_set_at, context.share_assignments) == ({}, {})
    assert context.forget() == []
