"""A decision in the making: it sees what it is about to write, and nobody else does."""

import pytest

from goqueue.groups import UNSET, AssignmentPace, GroupsConfig, Topics
from goqueue.groups.classic import ClassicGroup
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.context import CoordinatorContext
from goqueue.groups.errors import UnknownMember
from goqueue.groups.parked_requests import ParkedRequest, Waiting
from goqueue.groups.pending_change import PendingChange, StateRecord, step
from goqueue.groups.records import (
    ClassicMember,
    ClassicMemberRemoved,
    ClassicMemberSaved,
    ConsumerMemberRemoved,
    EpochBumped,
    GroupDeleted,
    OffsetRecord,
    OffsetsDeleted,
    Protocol,
)
from goqueue.groups.replies import Wakeup
from goqueue.groups.timers import Timer, TimerKind
from goqueue.model.ids import Timestamp
from tests.unit.groups.harness import GROUP

NOW = Timestamp(1_000)
WHY = UnknownMember("gone")


@pytest.fixture
def context() -> CoordinatorContext:
    return CoordinatorContext(
        GroupsConfig(), Topics(), AssignmentPace(), lambda _: UNSET, lambda _: UNSET
    )


@pytest.fixture
def change(context: CoordinatorContext) -> PendingChange:
    return PendingChange(context, GROUP, NOW)


def save_record(name: str) -> ClassicMemberSaved:
    member = ClassicMember(name, None, "c", "h", 1, 1, "consumer", (Protocol("range", b""),))
    return ClassicMemberSaved(GROUP, member)


def test_the_first_record_makes_a_group_of_its_protocol(change: PendingChange):
    change.write(save_record("ann"))
    assert change.classic.members.keys() == {"ann"}
    assert isinstance(step(None, EpochBumped(GROUP, 1, (), NOW)), ConsumerGroup)
    assert step(change.group, GroupDeleted(GROUP)) is None


def test_a_record_of_the_other_protocol_is_our_mistake(change: PendingChange):
    change.write(save_record("ann"))
    with pytest.raises(AssertionError, match="for a classic group"):
        step(change.group, ConsumerMemberRemoved(GROUP, "ann"))
    with pytest.raises(AssertionError, match="for a consumer group"):
        step(ConsumerGroup(GROUP), ClassicMemberRemoved(GROUP, "ann"))


def test_the_group_itself_stays_as_it_was(context: CoordinatorContext):
    before = ClassicGroup(GROUP)
    before.apply(save_record("ann"))
    context.groups[GROUP] = before
    change = PendingChange(context, GROUP, NOW)
    assert change.group is before, "a change that writes nothing costs nothing"
    change.write(save_record("bob"))
    copy = change.group
    change.write(ClassicMemberRemoved(GROUP, "ann"))
    assert change.group is copy, "one copy is enough"
    assert [list(each.members) for each in (change.classic, before)] == [["bob"], ["ann"]]


def test_a_decision_has_all_records_in_order(change: PendingChange):
    records: list[StateRecord | OffsetRecord] = [
        save_record("ann"),
        OffsetsDeleted(GROUP, ()),
        ClassicMemberRemoved(GROUP, "ann"),
    ]
    for record in records:
        change.write(record)
    decision = change.decide("reply")
    assert list(decision.records) == list(change.records) == records
    assert decision.reply.reply == "reply"


def test_a_request_that_waits_does_not_run_out(change: PendingChange):
    change.restart_session("ann", 500)
    assert change.has_timer(TimerKind.SESSION, "ann")
    parked = change.park("ann", Waiting.JOIN)
    assert not change.has_timer(TimerKind.SESSION, "ann")
    assert change.waiters.joining == {"ann": parked.token}


def test_all_requests_of_a_member_are_answered_once(change: PendingChange):
    tokens = [change.park("ann", waiting).token for waiting in Waiting]
    change.park("bob", Waiting.JOIN)
    change.reject_parked("ann", WHY)
    change.reject_parked("ann", WHY)
    change.answer(ParkedRequest(GROUP, "nobody", Waiting.JOIN), WHY)
    assert list(change.wakeups) == [Wakeup(token, WHY) for token in tokens]
    assert change.decide(None).reply.wakeups == tuple(change.wakeups)
    assert [each.member_id for each in change.list_parked(Waiting.JOIN)] == ["bob"]


def test_a_timer_counts_from_the_time_of_the_request(change: PendingChange):
    change.set_timer(TimerKind.SYNC, 500)
    change.set_timer(TimerKind.SESSION, 700, "ann")
    change.clear_timer(TimerKind.SESSION, "bob")
    assert change.context.timers.next_due() == 1_500
    change.clear_timer(TimerKind.SYNC)
    assert change.context.timers.take_due(Timestamp(1_700)) == [
        Timer(TimerKind.SESSION, GROUP, "ann")
    ]


def test_offsets_are_looked_at_an_interval_after_the_request(change: PendingChange):
    change.check_offsets_later()
    interval_ms = change.context.config.offset_check_interval_ms
    assert change.context.timers.next_due() == NOW + interval_ms


def test_a_rebalance_is_timed_by_the_requests_that_begin_and_end_it(change: PendingChange):
    change.note_rebalance_started("member joined")
    later = PendingChange(change.context, GROUP, Timestamp(NOW + 40))
    later.note_rebalance_finished()
    assert change.context.statistics.total.last_duration_ms == 40
