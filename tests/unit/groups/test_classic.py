"""The classic protocol, told as stories."""

import pytest

from goqueue.groups import Parked, Synced
from goqueue.groups.embedded import write_assignment
from goqueue.groups.errors import (
    RebalanceInProgress,
    UnknownMember,
)
from tests.unit.groups.harness import DELAY, GROUP, ClassicClient, Host, stable_pair


@pytest.fixture
def host() -> Host:
    return Host()


def test_two_join_the_leader_divides_and_both_learn_their_share(host: Host) -> None:
    first, second = ClassicClient(host), ClassicClient(host)
    assert isinstance(first.join(), Parked)
    assert isinstance(second.join(), Parked)
    assert host.state() == "PreparingRebalance"
    host.advance(2 * DELAY)

    led, followed = first.reply(), second.reply()
    assert led.leader == followed.leader == first.member_id
    assert {member.member_id for member in led.members} == {first.member_id, second.member_id}
    assert followed.members == ()
    assert led.generation == followed.generation == 1
    assert host.state() == "CompletingRebalance"

    assert isinstance(second.sync(), Parked)
    mine = first.sync({first: {"orders": [0]}, second: {"orders": [1]}})
    assert mine == Synced("consumer", "range", write_assignment({"orders": [0]}))
    assert second.reply().assignment == write_assignment({"orders": [1]})
    assert host.state() == "Stable"


def test_a_generation_without_assignment_shows_none(host: Host) -> None:
    first, second = stable_pair(host)
    first.join()
    second.join()
    assert host.state() == "CompletingRebalance"
    described = host.run(host.machine.describe(GROUP))
    assert [member.assignment for member in described.members] == [b"", b""]


def test_a_cooperative_member_keeps_reading_through_two_rounds(host: Host) -> None:
    first = ClassicClient(host)
    first.protocols = ("cooperative-sticky",)
    first.join()
    host.advance(DELAY)
    first.reply()
    first.sync({first: {"orders": [0, 1]}})
    first.owned = {"orders": [0, 1]}

    second = ClassicClient(host)
    second.protocols = ("cooperative-sticky",)
    second.join()
    first.join()  # still owning both
    first.reply()
    second.reply()
    second.sync()
    first.sync({first: {"orders": [0]}})  # round one: only take away
    assert second.reply().assignment == b""

    first.owned = {"orders": [0]}
    assert isinstance(first.join(), Parked)
    with pytest.raises(RebalanceInProgress):
        second.heartbeat()
    second.join()
    assert second.reply().generation == 3
    first.reply()
    second.sync()
    first.sync({first: {"orders": [0]}, second: {"orders": [1]}})
    assert second.reply().assignment == write_assignment({"orders": [1]})


def test_the_protocol_is_one_that_all_know_and_most_prefer(host: Host) -> None:
    clients = [ClassicClient(host) for _ in range(3)]
    clients[0].protocols = ("range", "sticky")
    clients[1].protocols = ("sticky", "range")
    clients[2].protocols = ("sticky", "range", "odd")
    for client in clients:
        client.join()
    host.advance(3 * DELAY)
    assert clients[0].reply().protocol == "sticky"


def test_after_a_broker_restart_members_carry_on_where_they_were(host: Host) -> None:
    first, second = stable_pair(host)
    host.commit(42, member_id=first.member_id, generation=1)
    host.restart()
    host.advance(9_000)  # the sessions began anew
    first.heartbeat()
    second.heartbeat()
    assert second.sync().assignment == write_assignment({"orders": [1]})
    assert host.read_committed() == 42
    host.advance(10_000)
    assert host.state() == "Empty", "and they still end"


def test_a_broker_restart_in_the_middle_of_a_join_phase_is_survived(host: Host) -> None:
    first, second = stable_pair(host)
    third = ClassicClient(host)
    third.join()
    first.join()
    host.restart()
    for client in (first, second, third):
        client.join()
    assert [client.reply().generation for client in (first, second, third)] == [2, 2, 2]
    host.restart()  # and in the middle of a sync phase
    second.sync()
    first.sync({first: {"orders": [0]}, second: {"orders": [1]}, third: {"orders": [2]}})
    assert second.reply().assignment == write_assignment({"orders": [1]})


def test_calls_about_groups_that_are_not_there_leave_nothing_behind(host: Host) -> None:
    stranger = ClassicClient(host)
    stranger.member_id = "nobody"
    with pytest.raises(UnknownMember):
        stranger.join()
    with pytest.raises(UnknownMember):
        stranger.heartbeat()
    with pytest.raises(UnknownMember):
        stranger.sync()
    (left,) = stranger.leave()
    assert isinstance(left.error, UnknownMember)
    assert not host.machine._context.parked_requests._waiters
    assert host.machine.next_deadline() is None


def test_a_group_that_is_over_leaves_nothing_behind(host: Host) -> None:
    first, second = stable_pair(host)
    first.leave()
    second.leave()
    host.advance(2 * host.config.offset_check_interval_ms)
    context = host.machine._context
    assert not context.groups
    assert not context.parked_requests._waiters
    assert not context.statistics.groups
    assert host.machine.next_deadline() is None
