"""JoinGroup and SyncGroup requests that wait."""

from goqueue.groups.parked_requests import ParkedRequest, ParkedRequests, Waiting
from goqueue.groups.replies import Token
from goqueue.model.ids import GroupId
from tests.unit.groups.harness import GROUP

OTHER = GroupId("others")
JOIN = ParkedRequest(GROUP, "ann", Waiting.JOIN)
SYNC = ParkedRequest(GROUP, "ann", Waiting.SYNC)


def test_a_request_waits_until_it_is_ended():
    parked = ParkedRequests()
    token = parked.park(JOIN)
    waiters = parked.waiters(GROUP)
    assert (waiters.joining, waiters.syncing, len(parked)) == ({"ann": token}, {}, 1)
    assert waiters.is_waiting("ann")
    assert not waiters.is_waiting("bob")
    assert parked.leave(SYNC) is None, "of another kind"
    assert parked.leave(JOIN) == token
    assert parked.leave(JOIN) is None
    assert len(parked) == 0
    assert not waiters.is_waiting("ann")


def test_a_member_waits_with_either_kind():
    parked = ParkedRequests()
    parked.park(SYNC)
    assert parked.waiters(GROUP).is_waiting("ann")


def test_a_client_that_disconnects_waits_no_longer():
    parked = ParkedRequests()
    token = parked.park(JOIN)
    assert parked.abandon(token) == JOIN
    assert parked.abandon(token) is None
    assert parked.waiters(GROUP).joining == {}


def test_requests_of_one_kind_and_group_are_listed_and_may_end_meanwhile():
    parked = ParkedRequests()
    bob = ParkedRequest(GROUP, "bob", Waiting.JOIN)
    for each in (JOIN, SYNC, bob, ParkedRequest(OTHER, "cleo", Waiting.JOIN)):
        parked.park(each)
    found = []
    for each in parked.waiting_in(GROUP, Waiting.JOIN):
        parked.leave(each)
        found.append(each)
    assert found == [JOIN, bob]
    assert list(parked.waiting_in(GROUP, Waiting.SYNC)) == [SYNC]


def test_no_token_is_used_twice():
    parked = ParkedRequests()
    first = parked.park(JOIN)
    assert parked.clear() == [first]
    assert (len(parked), parked.waiters(GROUP).joining) == (0, {})
    assert parked.park(JOIN) == Token(first + 1)


def test_a_question_costs_no_memory():
    parked = ParkedRequests()
    parked.peek_waiters(GROUP).pending.add("lost")
    assert parked.peek_waiters(GROUP).is_vacant
    parked.waiters(GROUP).pending.add("ann")
    assert parked.peek_waiters(GROUP).pending == {"ann"}


def test_only_a_group_without_waiters_is_swept_out():
    parked = ParkedRequests()
    token = parked.park(JOIN)
    parked.sweep(GROUP)
    parked.sweep(OTHER)
    assert parked.peek_waiters(GROUP).joining == {"ann": token}
    parked.leave(JOIN)
    waiters = parked.waiters(GROUP)
    waiters.newcomers = True
    for kind in (waiters.pending, waiters.unsynced):
        kind.add("ann")
        parked.sweep(GROUP)
        assert parked.peek_waiters(GROUP) is waiters
        kind.clear()
    parked.sweep(GROUP)
    assert not parked.peek_waiters(GROUP).newcomers
