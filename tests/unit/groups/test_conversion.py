"""A group changes its protocol."""

import msgspec
import pytest

from goqueue.groups import GroupsConfig, JoinRequest, Topics
from goqueue.groups.conversion import (
    assignment_bytes,
    consumer_member,
    make_classic,
    make_consumer,
    to_ids,
)
from goqueue.groups.embedded import read_assignment, read_subscription
from goqueue.groups.errors import GroupNotFound, RebalanceInProgress
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.records import ClassicState, GroupDeleted
from goqueue.model.ids import TopicName
from tests.unit.groups.harness import (
    GROUP,
    ClassicClient,
    ConsumerClient,
    Host,
    partitions_of,
    topic,
)

ORDERS = topic("orders", 4)


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(initial_rebalance_delay_ms=0), ORDERS)


def change_of(host: Host) -> PendingChange:
    return PendingChange(host.machine._context, GROUP, host.now)


def stable(host: Host, *shares: list[int]) -> list[ClassicClient]:
    """Classic members that have these partitions; the first one leads."""
    clients = [ClassicClient(host) for _ in shares]
    for client in clients:
        client.join()
    for client in clients:
        client.join()
    for client in clients:
        client.reply()
    leader, *others = sorted(clients, key=lambda each: each.member_id != clients[0].reply().leader)
    for client in others:
        client.sync()
    leader.sync({client: {"orders": share} for client, share in zip(clients, shares, strict=True)})
    assert host.state() == "Stable"
    return clients


def test_without_a_group_or_with_one_that_is_converted_there_is_nothing_to_do(host: Host):
    change = change_of(host)
    make_consumer(change)
    assert change.records == []
    ConsumerClient(host).heartbeat()
    change = change_of(host)
    make_consumer(change)
    assert change.records == []


def test_an_empty_group_is_simply_made_anew(host: Host):
    (client,) = stable(host, [0])
    client.leave()
    change = change_of(host)
    make_consumer(change)
    assert change.records == [GroupDeleted(GROUP)]


def test_members_keep_their_partitions_and_the_generation_is_the_epoch(host: Host):
    first, second = stable(host, [0, 1], [2, 3])
    change = change_of(host)
    make_consumer(change)
    group = change.consumer
    assert group.epoch == group.target_epoch == first.generation
    assert group.current[first.member_id].assigned == partitions_of(ORDERS, 0, 1)
    assert group.current[second.member_id].assigned == partitions_of(ORDERS, 2, 3)
    assert group.targets[second.member_id] == partitions_of(ORDERS, 2, 3)
    assert (group.classic_count, group.topics) == (2, (ORDERS,))
    assert group.is_settled


def test_a_partition_that_was_given_twice_goes_to_the_first(host: Host):
    first, second = stable(host, [0, 1], [1, 2])
    change = change_of(host)
    make_consumer(change)
    assert change.consumer.owners.keys() == partitions_of(ORDERS, 0, 1, 2)
    assert len(change.consumer.current[first.member_id].assigned) == 2
    assert change.consumer.current[second.member_id].assigned == partitions_of(ORDERS, 2)


def test_whoever_waits_is_sent_to_ask_again(host: Host):
    first, _ = stable(host, [0, 1], [2, 3])
    first.topics = ("orders", "bills")
    first.owned = {"orders": [0]}
    first.join()
    change = change_of(host)
    make_consumer(change)
    (wakeup,) = change.wakeups
    assert isinstance(wakeup.reply, RebalanceInProgress)
    assert change.consumer.current[first.member_id].assigned == partitions_of(ORDERS, 0), (
        "what it says that it owns"
    )


@pytest.mark.parametrize("kind", ["connect", "consumer"])
def test_a_group_that_nobody_can_read_stays_classic(host: Host, kind: str):
    client = ClassicClient(host)
    client.protocol_type = kind
    request = client.request
    if kind == "consumer":
        client.request = lambda: _unreadable(request())  # type: ignore[method-assign]
    client.join()
    with pytest.raises(GroupNotFound, match="cannot be translated"):
        make_consumer(change_of(host))


def _unreadable(request: JoinRequest) -> JoinRequest:
    broken = tuple(msgspec.structs.replace(each, metadata=b"?") for each in request.protocols)
    return msgspec.structs.replace(request, protocols=broken)


def test_a_group_becomes_classic_with_a_rebalance(host: Host):
    first, second = stable(host, [0, 1], [2, 3])
    change = change_of(host)
    make_consumer(change)
    epoch = change.consumer.epoch
    make_classic(change)
    group = change.classic
    assert (group.state, group.generation) == (ClassicState.PREPARING, epoch)
    assert (group.protocol_type, group.protocol) == ("consumer", "range")
    assert list(group.members) == [first.member_id, second.member_id]
    assert group.members[first.member_id] == first.request().member(first.member_id)
    assert read_assignment(group.assignments[second.member_id]) == {"orders": (2, 3)}


def test_an_assignment_leaves_out_topics_that_are_gone(host: Host):
    (client,) = stable(host, [0, 1])
    change = change_of(host)
    make_consumer(change)
    data = assignment_bytes(Topics(), change.consumer, client.member_id)
    assert read_assignment(data) == {}
    data = assignment_bytes(Topics([ORDERS]), change.consumer, client.member_id)
    assert data[:2] == b"\0\1", "in the version of the subscription"
    assert read_assignment(data) == {"orders": (0, 1)}


def test_names_become_ids_where_there_is_a_topic():
    view = Topics([ORDERS])
    found = to_ids(view, {TopicName("orders"): (0, 3), TopicName("gone"): (1,)})
    assert found == partitions_of(ORDERS, 0, 3)
    assert to_ids(view, {}) == frozenset()


def test_a_classic_member_keeps_its_traits(host: Host):
    client = ClassicClient(host, "orders", "bills", "orders", instance_id="i")
    request = client.request()
    subscription = read_subscription(request.protocols[0].metadata)
    member = consumer_member(request.member("m"), subscription)
    assert (member.member_id, member.instance_id) == ("m", "i")
    assert member.subscribed_names == ("bills", "orders")
    assert member.rebalance_timeout_ms == request.rebalance_timeout_ms
    assert member.classic is not None
    assert member.classic.session_timeout_ms == request.session_timeout_ms
    assert (member.classic.protocols, member.classic.version) == (request.protocols, 1)
