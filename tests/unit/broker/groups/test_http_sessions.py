"""What is remembered of a member that the broker reads for."""

from uuid import UUID

import msgspec
import pytest

from goqueue.broker.groups.http_sessions import MILLISECOND, PollSuperseded, Session
from goqueue.broker.long_poll import LongPoll
from goqueue.groups import NO_PARTITIONS, MemberAssignment, PartitionSet, ReaderTraits
from goqueue.groups.errors import IllegalGeneration
from goqueue.groups.records import ConsumerMember, MemberState
from goqueue.model.ids import GroupId, Instant, Offset, Timestamp, TopicId, TopicIdPartition
from goqueue.runtime import RealClock

TOPIC = TopicId(UUID(int=1))
A, B, C = (TopicIdPartition(TOPIC, index) for index in range(3))
START = 1_000


def session(*, auto_commit_ms: int | None = 5_000) -> Session:
    traits = ReaderTraits(30_000, auto_commit_ms)
    return Session(GroupId("g"), "m", traits, Timestamp(START))


def assignment(
    epoch: int = 3,
    *,
    previous_epoch: int = 2,
    target_epoch: int | None = None,
    assigned: PartitionSet = frozenset((A, B)),
    revoking: PartitionSet = NO_PARTITIONS,
) -> MemberAssignment:
    member = ConsumerMember("m", None, None, "", "", 60_000, (), None, None)
    state = MemberState.REVOKING if revoking else MemberState.STABLE
    target = epoch if target_epoch is None else target_epoch
    return MemberAssignment(member, epoch, previous_epoch, target, state, assigned, revoking)


def span(start: int, end: int) -> tuple[Offset, Offset]:
    return Offset(start), Offset(end)


# --- generations --------------------------------------------------------------------------------


def test_a_member_speaks_with_the_generation_it_was_told():
    member = session()
    member.check(3, assignment(3))
    for other in (1, 4, 99):
        with pytest.raises(IllegalGeneration):
            member.check(other, assignment(3))


def test_the_generation_it_spoke_with_last_is_let_pass_because_an_answer_may_be_lost():
    member = session()
    member.note_generation(2)
    member.check(2, assignment(5, previous_epoch=4))
    member.check(5, assignment(5, previous_epoch=4))
    member.note_generation(5)
    with pytest.raises(IllegalGeneration):
        member.check(2, assignment(5, previous_epoch=4))


def test_after_a_restart_the_generation_before_is_let_pass_once():
    member = session()
    member.check(2, assignment(3, previous_epoch=2))
    member.note_generation(3)
    with pytest.raises(IllegalGeneration):
        member.check(2, assignment(3, previous_epoch=2))


def test_one_who_joined_anew_has_no_generation_before():
    with pytest.raises(IllegalGeneration):
        session().check(2, assignment(9, previous_epoch=0))


def test_only_who_heard_of_a_revocation_speaks_with_its_generation():
    member = session()
    revoking = assignment(3, target_epoch=4, assigned=frozenset((A,)), revoking=frozenset((B,)))
    member.adopt(revoking)
    assert member.generation(revoking) == 4
    assert not member.has_revoked(3, revoking)
    assert member.has_revoked(4, revoking)
    member.check(4, revoking)


def test_a_target_that_moves_on_does_not_turn_an_old_answer_into_an_acknowledgement():
    member = session()
    first = assignment(3, target_epoch=4, assigned=frozenset((A, C)), revoking=frozenset((B,)))
    member.adopt(first)
    later = msgspec.structs.replace(first, target_epoch=5)
    member.adopt(later)
    assert member.has_revoked(4, later)  # the same partitions: it has heard of them
    other = assignment(3, target_epoch=5, assigned=frozenset((A,)), revoking=frozenset((C,)))
    member.adopt(other)
    assert not member.has_revoked(4, other)
    assert member.has_revoked(5, other)


def test_a_forgotten_revocation_is_told_again():
    member = session()
    revoking = assignment(3, target_epoch=4, assigned=frozenset((A,)), revoking=frozenset((B,)))
    member.check(4, revoking)
    assert not member.has_revoked(4, revoking)
    member.adopt(revoking)
    assert member.has_revoked(4, revoking)


# --- what was given -----------------------------------------------------------------------------


def delivered(member: Session) -> None:
    member.positions = {A: Offset(0), B: Offset(5)}
    member.deliver({A: span(0, 10), B: span(5, 6)})


def test_what_was_given_is_processed_when_the_member_comes_back():
    member = session()
    delivered(member)
    assert member.positions == {A: 10, B: 6}
    assert member.processed == {}
    member.begin_next_poll(None)
    assert member.processed == {A: 10, B: 6}
    assert member.delivered == {}


def test_an_answer_that_was_not_seen_is_given_again():
    member = session()
    heard = member.poll_id
    delivered(member)
    assert member.poll_id != heard
    member.begin_next_poll(heard)
    assert member.positions == {A: 0, B: 5}
    assert member.processed == {}
    delivered(member)
    member.begin_next_poll(member.poll_id)
    assert member.processed == {A: 10, B: 6}


def test_answers_of_different_lives_are_never_taken_for_each_other():
    before, after = session(), session()
    after.poll_id = START + 50  # a later start
    delivered(before)
    delivered(after)
    assert before.poll_id != after.poll_id


def test_without_auto_commit_nothing_is_to_be_committed():
    member = session(auto_commit_ms=None)
    delivered(member)
    member.begin_next_poll(None)
    member.skip_to(A, Offset(12))
    assert member.processed == {}
    assert member.commit_due() is None
    assert member.positions[A] == 12


def test_positions_end_with_the_partition_and_its_work_is_kept_until_it_is_let_go():
    member = session()
    delivered(member)
    revoking = assignment(3, target_epoch=4, assigned=frozenset((A,)), revoking=frozenset((B,)))
    member.adopt(revoking)
    assert member.positions == {A: 10}
    member.finish(revoking.revoking)
    assert member.processed == {B: 6}
    member.note_committed({B: Offset(6)}, Instant(0))
    member.adopt(assignment(4, assigned=frozenset((A,))))
    assert member.processed == {}
    assert member.delivered == {A: span(0, 10)}


def test_auto_commit_is_due_an_interval_after_the_last_one():
    member = session(auto_commit_ms=5_000)
    assert member.commit_due() is None
    delivered(member)
    member.begin_next_poll(None)
    assert member.commit_due() == 5_000 * MILLISECOND
    member.note_committed({A: Offset(10)}, Instant(7))
    assert member.processed == {B: 6}
    assert member.commit_due() == 7 + 5_000 * MILLISECOND


# --- one poll at a time -------------------------------------------------------------------------


async def test_a_poll_ends_the_one_before():
    member = session()
    waiting = LongPoll(RealClock(), 60_000)
    first = member.begin_poll(waiting)
    member.check_poll(first)
    second = member.begin_poll(None)
    assert await waiting.wait()
    with pytest.raises(PollSuperseded):
        member.check_poll(first)
    member.check_poll(second)
