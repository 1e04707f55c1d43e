"""The classic protocol, told as stories."""

import msgspec
import pytest

from goqueue.groups import GroupsConfig, Joined, MemberIdentity, Parked, Synced
from goqueue.groups.embedded import write_assignment
from goqueue.groups.errors import (
    FencedInstance,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from tests.unit.groups.harness import CONFIG, GROUP, ClassicClient, Host

DELAY = 3_000


@pytest.fixture
def host() -> Host:
    return Host()


def stable_pair(host: Host) -> tuple[ClassicClient, ClassicClient]:
    """Two members, settled: `first` leads and has partition 0, `second` has 1."""
    first, second = ClassicClient(host), ClassicClient(host)
    first.join()
    second.join()
    host.advance(2 * DELAY)
    first.reply()
    second.reply()
    second.sync()
    first.sync({first: {"orders": [0]}, second: {"orders": [1]}})
    assert host.state() == "Stable"
    return first, second


def test_a_new_member_is_first_given_an_id(host: Host) -> None:
    client = ClassicClient(host)
    with pytest.raises(MemberIdRequired) as required:
        client._join()
    client.member_id = required.value.member_id
    assert isinstance(client._join(), Parked)


def test_an_old_client_joins_without_that_step(host: Host) -> None:
    request = msgspec.structs.replace(ClassicClient(host).request(), requires_member_id=False)
    assert isinstance(host.run(host.machine.join(host.now, request, "m")), Parked)


def test_what_is_said_about_a_member_is_bounded() -> None:
    host = Host(msgspec.structs.replace(CONFIG, member_metadata_bytes_max=200))
    with pytest.raises(InvalidGroupRequest, match="member_metadata_bytes_max"):
        ClassicClient(host, "t" * 190).join()
    client = ClassicClient(host)
    client.join()
    host.advance(DELAY)
    client.reply()
    with pytest.raises(InvalidGroupRequest, match="member_metadata_bytes_max"):
        client.sync({client: {"t" * 190: [0]}})
    client.sync({client: {"orders": [0]}})
    assert host.state() == "Stable"


def test_an_id_that_is_not_used_is_forgotten(host: Host) -> None:
    client = ClassicClient(host)
    with pytest.raises(MemberIdRequired) as required:
        client._join()
    host.advance(client.session_timeout_ms)
    client.member_id = required.value.member_id
    with pytest.raises(UnknownMember):
        client._join()


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


def test_a_generation_without_assignment_shows_none(host: Host) -> None:
    first, second = stable_pair(host)
    first.join()
    second.join()
    assert host.state() == "CompletingRebalance"
    described = host.run(host.machine.describe(GROUP))
    assert [member.assignment for member in described.members] == [b"", b""]


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


def test_zombies_are_fenced_by_their_generation(host: Host) -> None:
    first, second = stable_pair(host)
    second.leave()
    first.join()
    first.sync({first: {"orders": [0, 1]}})
    first.generation -= 1
    with pytest.raises(IllegalGeneration):
        first.heartbeat()
    with pytest.raises(IllegalGeneration):
        host.commit(7, member_id=first.member_id, generation=first.generation)
    with pytest.raises(UnknownMember):
        host.commit(7, member_id=second.member_id, generation=second.generation)
    with pytest.raises(UnknownMember):
        host.commit(7)
    assert host.committed() is None


def test_leaving_frees_the_place_at_once_and_the_last_one_leaves_an_empty_group(
    host: Host,
) -> None:
    first, second = stable_pair(host)
    (left,) = second.leave()
    assert left.error is None
    (again,) = second.leave()
    assert isinstance(again.error, UnknownMember)
    first.leave()
    assert host.state() == "Empty"


def test_a_follower_that_asks_again_learns_the_present_generation(host: Host) -> None:
    first, second = stable_pair(host)
    reply = second.join()
    assert (reply.generation, reply.leader) == (1, first.member_id)
    assert host.state() == "Stable"


def test_a_join_whose_answer_was_lost_is_answered_again_in_the_sync_phase(host: Host) -> None:
    client = ClassicClient(host)
    client.join()
    host.advance(DELAY)
    first = client.reply()
    assert client.join() == first
    assert host.state() == "CompletingRebalance"


def test_a_leader_that_joins_again_opens_a_rebalance(host: Host) -> None:
    first, _ = stable_pair(host)
    assert isinstance(first.join(), Parked)
    assert host.state() == "PreparingRebalance"


def test_a_changed_subscription_opens_a_rebalance(host: Host) -> None:
    _, second = stable_pair(host)
    second.topics = ("orders", "payments")
    assert isinstance(second.join(), Parked)


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


def test_a_static_member_restarts_and_nobody_notices(host: Host) -> None:
    first, second = ClassicClient(host), ClassicClient(host, instance_id="cart-2")
    first.join()
    second.join()
    host.advance(2 * DELAY)
    first.reply()
    second.reply()
    second.sync()
    first.sync({first: {"orders": [0]}, second: {"orders": [1]}})

    reborn = ClassicClient(host, instance_id="cart-2")
    reply = reborn.join()
    assert reply.generation == 1
    assert reborn.sync().assignment == write_assignment({"orders": [1]})
    first.heartbeat()
    with pytest.raises(FencedInstance):
        second.heartbeat()
    with pytest.raises(FencedInstance):
        host.commit(1, member_id=second.member_id, generation=1, instance_id=second.instance_id)


@pytest.mark.parametrize("skips", [True, False])
def test_a_static_leader_restarts_without_dividing_anew(host: Host, skips: bool) -> None:
    leader = ClassicClient(host, instance_id="cart-1")
    leader.join()
    host.advance(DELAY)
    leader.reply()
    leader.sync({leader: {"orders": [0]}})
    reborn = ClassicClient(host, instance_id="cart-1")
    reborn.skips_assignment = skips
    reply = reborn.join()
    assert reply.skip_assignment is skips
    assert (reply.leader == reborn.member_id) is skips
    assert reborn.sync().assignment == write_assignment({"orders": [0]})


def test_a_static_member_that_wants_other_topics_opens_a_rebalance(host: Host) -> None:
    member = ClassicClient(host, instance_id="cart-1")
    member.join()
    host.advance(DELAY)
    member.reply()
    member.sync({member: {"orders": [0]}})
    reborn = ClassicClient(host, "payments", instance_id="cart-1")
    assert reborn.join().generation == 2


def test_a_static_member_that_stays_away_expires_after_its_session(host: Host) -> None:
    member = ClassicClient(host, instance_id="cart-1")
    member.join()
    host.advance(DELAY)
    member.reply()
    member.sync({member: {"orders": [0]}})
    host.advance(member.session_timeout_ms)
    assert host.state() == "Empty"


def test_a_restart_while_the_old_process_waits_fences_the_waiting_call(host: Host) -> None:
    old = ClassicClient(host, instance_id="cart-1")
    old.join()
    reborn = ClassicClient(host, instance_id="cart-1")
    assert isinstance(reborn.join(), Parked)
    assert isinstance(old.reply(), FencedInstance)
    host.advance(2 * DELAY)
    assert reborn.reply().leader == reborn.member_id


def test_an_administrator_removes_static_members_by_instance(host: Host) -> None:
    member = ClassicClient(host, instance_id="cart-1")
    member.join()
    host.advance(DELAY)
    leavers = [MemberIdentity(instance_id="cart-1"), MemberIdentity(instance_id="cart-9")]
    gone, unknown = host.run(host.machine.leave(host.now, GROUP, leavers))
    assert gone.error is None
    assert isinstance(unknown.error, UnknownMember)


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


def test_a_member_that_shares_no_protocol_is_refused(host: Host) -> None:
    stable_pair(host)
    stranger = ClassicClient(host)
    stranger.protocols = ("odd",)
    with pytest.raises(InconsistentGroupProtocol):
        stranger.join()
    connector = ClassicClient(host)
    connector.protocol_type = "connect"
    with pytest.raises(InconsistentGroupProtocol):
        connector.join()


def test_limits_are_named_in_the_refusal() -> None:
    host = Host(GroupsConfig(members_max=1, initial_rebalance_delay_ms=0))
    ClassicClient(host).join()
    with pytest.raises(GroupMaxSizeReached, match="1 allowed"):
        ClassicClient(host).join()
    hasty = ClassicClient(host)
    hasty.session_timeout_ms = 1
    with pytest.raises(InvalidSessionTimeout, match="6000 to"):
        hasty.join()


def test_after_a_broker_restart_members_carry_on_where_they_were(host: Host) -> None:
    first, second = stable_pair(host)
    host.commit(42, member_id=first.member_id, generation=1)
    host.restart()
    host.advance(9_000)  # the sessions began anew
    first.heartbeat()
    second.heartbeat()
    assert second.sync().assignment == write_assignment({"orders": [1]})
    assert host.committed() == 42
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
