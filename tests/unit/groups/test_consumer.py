"""The consumer protocol (KIP-848), told as stories."""

import pytest

from goqueue.groups import AssignmentPace, GroupsConfig, HeartbeatRequest
from goqueue.groups.errors import (
    FencedInstance,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidGroupRequest,
    InvalidRegularExpression,
    StaleMemberEpoch,
    UnknownMember,
    UnreleasedInstance,
    UnsupportedAssignor,
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


def test_a_partition_is_handed_over_only_when_its_owner_let_go(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    assert second.heartbeat().assigned == frozenset(), "nothing is free yet"
    assert host.state() == "Reconciling"

    told = first.heartbeat()
    assert told.assigned == partitions_of(ORDERS, 0, 1), "told what to keep"
    assert told.member_epoch == 1, "and not further until it did"
    second.heartbeat()
    assert second.owned == frozenset()

    assert first.heartbeat().member_epoch == 2
    assert second.heartbeat().assigned == partitions_of(ORDERS, 2, 3)
    assert host.state() == "Stable"


def test_a_member_that_keeps_its_partitions_is_never_asked_to_stop(host: Host) -> None:
    clients = [ConsumerClient(host) for _ in range(4)]
    for client in clients:
        settle(*clients[: clients.index(client) + 1])
    owned = {client.member_id: client.owned for client in clients}
    clients[0].leave()
    settle(*clients[1:])
    for client in clients[1:]:
        assert owned[client.member_id] <= client.owned


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


def test_a_silent_member_expires_and_the_rest_share_its_partitions(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    settle(first, second)
    host.advance(SESSION - 1)
    first.heartbeat()
    host.advance(1)
    assert first.heartbeat().assigned == partitions_of(ORDERS, 0, 1, 2, 3)
    with pytest.raises(UnknownMember):
        second.heartbeat()


def test_one_that_clings_to_its_partitions_is_put_out_when_the_time_is_up(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    second.heartbeat()
    first.clings = True
    for _ in range(5):
        first.heartbeat()
        second.heartbeat()
        host.advance(4_000)
    with pytest.raises(UnknownMember):
        first.heartbeat()
    assert second.heartbeat().assigned == partitions_of(ORDERS, 0, 1, 2, 3)
    assert host.machine.statistics.total.revocation_timeouts == 1


def test_a_member_that_leaves_frees_its_partitions_at_once(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    settle(first, second)
    second.leave()
    assert first.heartbeat().assigned == partitions_of(ORDERS, 0, 1, 2, 3)
    first.leave()
    assert host.state() == "Empty"


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


def test_a_paused_member_that_does_not_return_expires(host: Host) -> None:
    first, second = ConsumerClient(host, instance_id="a"), ConsumerClient(host)
    settle(first, second)
    first.leave(epoch=-2)
    host.advance(SESSION - 1)
    second.heartbeat()
    host.advance(1)
    second.heartbeat()
    assert len(second.owned) == 4


def test_topics_that_grow_come_and_vanish_reach_the_members(host: Host) -> None:
    client = ConsumerClient(host, "orders", "later")
    client.heartbeat()
    host.change_topics(topic("orders", 5), PAYMENTS)
    client.heartbeat()
    assert client.owned == partitions_of(ORDERS, 0, 1, 2, 3, 4)
    later = topic("later", 1)
    host.change_topics(topic("orders", 5), later)
    client.heartbeat()
    assert partitions_of(later, 0) <= client.owned
    host.change_topics(later)
    settle(client)
    assert client.owned == partitions_of(later, 0)
    host.change_topics(later, topic("unrelated", 3))
    assert host.group().epoch == 4, "other topics are no news"


def test_a_topic_made_anew_under_its_old_name_is_another_topic(host: Host) -> None:
    client = ConsumerClient(host)
    client.heartbeat()
    anew = topic("orders", 4, number=77)
    host.change_topics(anew)
    settle(client)
    assert client.owned == partitions_of(anew, 0, 1, 2, 3)


def test_a_regular_expression_follows_the_topics_that_match(host: Host) -> None:
    client = ConsumerClient(host)
    client.topics, client.regex = (), "(orders|refunds.*)"
    client.heartbeat()
    assert client.owned == partitions_of(ORDERS, 0, 1, 2, 3)
    refunds = topic("refunds-eu", 1)
    host.change_topics(ORDERS, refunds)
    client.heartbeat()
    assert client.owned == partitions_of(ORDERS, 0, 1, 2, 3) | partitions_of(refunds, 0)
    client.regex = "("
    with pytest.raises(InvalidRegularExpression):
        client.heartbeat()


def test_members_with_different_wishes_get_what_they_asked_for(host: Host) -> None:
    both, only = ConsumerClient(host, "orders", "payments"), ConsumerClient(host, "payments")
    settle(both, only)
    assert both.owned == partitions_of(ORDERS, 0, 1, 2, 3)
    assert only.owned == partitions_of(PAYMENTS, 0, 1)
    only.topics = ("orders",)
    settle(both, only)
    assert only.owned <= partitions_of(ORDERS, 0, 1, 2, 3)
    assert len(both.owned) == len(only.owned) == 3


def test_the_assignor_most_members_ask_for_is_used(host: Host) -> None:
    first, second, third = (ConsumerClient(host) for _ in range(3))
    first.assignor = second.assignor = "range"
    third.assignor = "roundrobin"
    settle(first, second, third)
    assert host.group().assignor == "range"
    assert first.owned == partitions_of(ORDERS, 0, 1)
    third.assignor = "wishful"
    with pytest.raises(UnsupportedAssignor, match="uniform"):
        third.heartbeat()


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


def test_commits_are_fenced_by_the_epoch(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    host.commit(5, member_id=first.member_id, generation=1)
    settle(first, second)
    (lost, *_) = second.owned
    with pytest.raises(StaleMemberEpoch):
        host.commit(6, partition=lost.partition, member_id=first.member_id, generation=1)
    with pytest.raises(UnknownMember):
        host.commit(6, member_id="gone", generation=1)
    with pytest.raises(UnknownMember):
        host.commit(6)
    assert host.committed() == 5


def test_a_broker_restart_in_the_middle_of_a_move_loses_nothing(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    second.heartbeat()
    first.heartbeat()  # told to give up two
    host.restart()
    assert second.heartbeat().assigned == frozenset()
    settle(first, second)
    assert first.owned == partitions_of(ORDERS, 0, 1)
    assert second.owned == partitions_of(ORDERS, 2, 3)
    host.restart()
    host.advance(SESSION)
    with pytest.raises(UnknownMember):
        first.heartbeat()


def test_rebalances_are_counted_by_reason_and_timed(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    first.heartbeat()
    second.heartbeat()
    host.advance(700)
    settle(first, second)
    counters = host.machine.statistics.groups[GROUP]
    assert counters.by_reason == {"member joined": 2}
    assert counters.finished == 2
    assert counters.last_duration_ms == 700
    assert counters.partitions_revoked == 2
    assert counters.partitions_assigned == 6


def test_a_large_group_is_divided_at_most_once_an_interval() -> None:
    pace = AssignmentPace(large_group_members=3, interval_ms=1_000)
    host = Host(GroupsConfig(), topic("orders", 8), pace=pace)
    clients = [ConsumerClient(host) for _ in range(8)]
    for client in clients:
        assert client.heartbeat().member_epoch > 0
    group = host.group()
    assert (group.epoch, group.target_epoch, host.state()) == (8, 3, "Assigning")
    host.restart()  # it is not forgotten
    host.advance(1_000)
    assert host.group().target_epoch == 8
    settle(*clients)
    assert [len(client.owned) for client in clients] == [1] * 8
    assert host.state() == "Stable"
