"""The consumer protocol (KIP-848), told as stories."""

import pytest

from goqueue.groups import GroupsConfig, HeartbeatRequest
from goqueue.groups.errors import (
    FencedInstance,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidGroupRequest,
    UnknownMember,
    UnreleasedInstance,
)
from tests.unit.groups.harness import GROUP, ConsumerClient, Host, partitions_of, settle, topic

ORDERS = topic("orders", 4)
PAYMENTS = topic("payments", 2)
SESSION = 30_000


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(), ORDERS, PAYMENTS)


def test_the_first_member_has_all_partitions_in_the_first_answer(host: Host) -> None:
    reply = ConsumerClient(host).heartbeat()
    assert reply.assigned == partitions_of(ORDERS, 0, 1, 2, 3)
    assert reply.member_epoch == 1
    assert host.state() == "Stable"


def test_a_small_group_comes_often_and_a_large_one_seldom() -> None:
    host = Host(GroupsConfig(heartbeat_interval_ms=500), ORDERS, PAYMENTS)
    intervals = [ConsumerClient(host).heartbeat().heartbeat_interval_ms for _ in range(60)]
    assert intervals[0] == 300, "so that a rebalance settles in less than a second"
    assert intervals[39] == 400
    assert intervals[59] == 500


def test_a_heartbeat_without_news_says_so(host: Host) -> None:
    client = ConsumerClient(host)
    client.heartbeat()
    records = len(host.log)
    client.topics = None
    reply = client.heartbeat(silent=True)
    assert reply.assigned is None
    assert len(host.log) == records


def test_a_lost_answer_is_repeated(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat(lost=True)
    assert first.heartbeat().assigned == partitions_of(ORDERS, 0, 1, 2, 3)
    second.heartbeat()
    first.heartbeat()
    first.heartbeat(lost=True)  # acknowledged; its new epoch never arrives
    assert first.heartbeat().member_epoch == 2
    settle(first, second)
    assert first.owned | second.owned == partitions_of(ORDERS, 0, 1, 2, 3)


def test_other_epochs_are_fenced_and_the_fenced_start_over(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    settle(first, second)
    second.epoch += 1
    with pytest.raises(FencedMemberEpoch):
        second.heartbeat()
    first.epoch = 1
    with pytest.raises(FencedMemberEpoch):
        first.heartbeat(silent=True)
    for client in (first, second):
        client.epoch, client.owned = 0, frozenset()
    settle(first, second)
    assert host.state() == "Stable"


def test_the_epoch_before_passes_only_with_nothing_but_what_is_assigned(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    second.heartbeat()
    first.heartbeat()
    first.heartbeat(lost=True)
    first.owned |= partitions_of(ORDERS, 3)
    with pytest.raises(FencedMemberEpoch):
        first.heartbeat()


def test_an_unknown_member_is_told_to_join(host: Host) -> None:
    stranger = ConsumerClient(host)
    stranger.epoch = 5
    with pytest.raises(UnknownMember):
        stranger.heartbeat()
    ConsumerClient(host).heartbeat()
    with pytest.raises(UnknownMember):
        stranger.heartbeat()


def test_a_static_member_pauses_and_its_next_process_takes_over(host: Host) -> None:
    first, second = ConsumerClient(host, instance_id="a"), ConsumerClient(host)
    settle(first, second)
    owned, others = first.owned, second.owned
    first.leave(epoch=-2)
    second.heartbeat()
    assert second.owned == others, "nobody else notices"
    reborn = ConsumerClient(host, instance_id="a")
    assert reborn.heartbeat().assigned == owned
    first.epoch = 2
    with pytest.raises(FencedInstance):
        first.heartbeat()
    assert host.state() == "Stable"


def test_an_instance_in_use_is_not_given_away(host: Host) -> None:
    ConsumerClient(host, instance_id="a").heartbeat()
    with pytest.raises(UnreleasedInstance):
        ConsumerClient(host, instance_id="a").heartbeat()
    host.advance(SESSION)
    ConsumerClient(host, instance_id="a").heartbeat()


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": ""},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"instance_id": ""},
        {"owned": partitions_of(ORDERS, 0)},
        {"subscribed_names": None},
    ],
)
def test_requests_that_contradict_themselves_are_refused(
    host: Host, fields: dict[str, object]
) -> None:
    sound = {"member_id": "m", "member_epoch": 0, "subscribed_names": ("orders",)}
    request = HeartbeatRequest(group_id=GROUP, **(sound | fields))  # type: ignore[arg-type]
    with pytest.raises(InvalidGroupRequest):
        host.machine.consumer_heartbeat(host.now, request)


def test_a_full_group_refuses_newcomers() -> None:
    host = Host(GroupsConfig(members_max=1), ORDERS)
    first = ConsumerClient(host)
    first.heartbeat()
    with pytest.raises(GroupMaxSizeReached):
        ConsumerClient(host).heartbeat()
    first.heartbeat()
