"""JoinGroup of the classic protocol: who joins, joins again, and is refused."""

import msgspec
import pytest

from goqueue.groups import GroupsConfig, Parked
from goqueue.groups.embedded import write_assignment
from goqueue.groups.errors import (
    FencedInstance,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    UnknownMember,
)
from tests.unit.groups.harness import CONFIG, DELAY, ClassicClient, Host, stable_pair


@pytest.fixture
def host() -> Host:
    return Host()


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


def test_a_restart_while_the_old_process_waits_fences_the_waiting_call(host: Host) -> None:
    old = ClassicClient(host, instance_id="cart-1")
    old.join()
    reborn = ClassicClient(host, instance_id="cart-1")
    assert isinstance(reborn.join(), Parked)
    assert isinstance(old.reply(), FencedInstance)
    host.advance(2 * DELAY)
    assert reborn.reply().leader == reborn.member_id


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
