"""From a change in a consumer group to its next target."""

import pytest

from goqueue.groups import AssignmentPace, GroupsConfig
from goqueue.groups.errors import InvalidRegularExpression, UnsupportedAssignor
from tests.unit.groups.harness import ConsumerClient, Host, partitions_of, settle, topic

ORDERS = topic("orders", 4)
PAYMENTS = topic("payments", 2)
SESSION = 30_000


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(), ORDERS, PAYMENTS)


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
