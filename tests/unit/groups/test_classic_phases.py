"""The phases of a classic group, and the deadlines that end them."""

import pytest

from goqueue.groups import GroupsConfig, Joined
from goqueue.groups.errors import (
    IllegalGeneration,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from tests.unit.groups.harness import DELAY, ClassicClient, Host, stable_pair


@pytest.fixture
def host() -> Host:
    return Host()


def test_the_first_generation_waits_for_a_fleet_that_starts_together(host: Host) -> None:
    first = ClassicClient(host)
    first.join()
    host.advance(DELAY - 1)
    second = ClassicClient(host)
    second.join()
    host.advance(DELAY)
    assert first.reply() is None, "the newcomer prolonged the delay"
    host.advance(DELAY)
    assert len(first.reply().members) == 2


def test_a_group_can_be_told_not_to_wait() -> None:
    host = Host(GroupsConfig(initial_rebalance_delay_ms=0))
    assert isinstance(ClassicClient(host).join(), Joined)


def test_a_third_member_calls_everybody_back_at_the_next_heartbeat(host: Host) -> None:
    first, second = stable_pair(host)
    third = ClassicClient(host)
    third.join()
    for client in (first, second):
        with pytest.raises(RebalanceInProgress):
            client.heartbeat()
    first.join()
    assert third.reply() is None
    second.join()
    assert third.reply().generation == 2, "all are there: nobody waits any longer"
    assert len(first.reply().members) == 3


def test_an_id_that_was_given_and_not_used_yet_is_waited_for(host: Host) -> None:
    first, second = stable_pair(host)
    third, fourth = ClassicClient(host), ClassicClient(host)
    with pytest.raises(MemberIdRequired) as required:
        fourth._join()
    third.join()
    first.join()
    second.join()
    assert first.reply() is None
    fourth.member_id = required.value.member_id
    fourth.join()
    assert len(first.reply().members) == 4


def test_an_id_that_is_given_back_is_waited_for_no_longer(host: Host) -> None:
    first, second = stable_pair(host)
    fourth = ClassicClient(host)
    with pytest.raises(MemberIdRequired) as required:
        fourth._join()
    first.join()
    second.join()
    fourth.member_id = required.value.member_id
    fourth.leave()
    assert first.reply().generation == 2


def test_who_does_not_come_back_is_dropped_when_the_rebalance_times_out(host: Host) -> None:
    first, second = stable_pair(host)
    third = ClassicClient(host)
    third.join()
    first.join()
    for _ in range(6):
        host.advance(5_000)
        with pytest.raises((RebalanceInProgress, UnknownMember, IllegalGeneration)):
            second.heartbeat()
    assert {member.member_id for member in first.reply().members} == {
        first.member_id,
        third.member_id,
    }
    with pytest.raises(UnknownMember):
        second.heartbeat()


def test_a_silent_member_expires_and_the_others_are_called_back(host: Host) -> None:
    first, second = stable_pair(host)
    host.advance(9_000)
    first.heartbeat()
    host.advance(1_000)
    with pytest.raises(RebalanceInProgress):
        first.heartbeat()
    with pytest.raises(UnknownMember):
        second.heartbeat()
    assert first.join().generation == 2
    assert host.machine.statistics.total.by_reason["session expired"] == 1


def test_a_waiting_member_does_not_expire(host: Host) -> None:
    first, second = stable_pair(host)
    second.session_timeout_ms = 6_000
    third = ClassicClient(host)
    third.join()
    for _ in range(4):
        host.advance(5_000)
        for client in (first, second):
            with pytest.raises(RebalanceInProgress):
                client.heartbeat()
    assert third.reply() is None
    first.join()
    second.join()
    assert third.reply().generation == 2


def test_one_whose_connection_broke_while_it_waited_expires(host: Host) -> None:
    first, _ = stable_pair(host)
    third = ClassicClient(host)
    third.join()
    third.abandon()
    assert host.machine.parked_count == 0
    host.advance(9_000)
    with pytest.raises(RebalanceInProgress):
        first.heartbeat()
    host.advance(2_000)
    assert first.join().generation == 2
    assert third.reply() is None


def test_joined_but_never_synced_members_are_dropped(host: Host) -> None:
    first, second = ClassicClient(host), ClassicClient(host)
    first.join()
    second.join()
    host.advance(2 * DELAY)
    first.reply()
    second.reply()
    second.sync()
    for _ in range(7):
        host.advance(4_900)
        try:
            first.heartbeat()
        except (RebalanceInProgress, UnknownMember):
            break
    assert isinstance(second.reply(), RebalanceInProgress)
    assert second.join().leader == second.member_id


def test_a_static_member_that_stays_away_expires_after_its_session(host: Host) -> None:
    member = ClassicClient(host, instance_id="cart-1")
    member.join()
    host.advance(DELAY)
    member.reply()
    member.sync({member: {"orders": [0]}})
    host.advance(member.session_timeout_ms)
    assert host.state() == "Empty"
