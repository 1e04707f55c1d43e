"""The steps of a member towards its target."""

import pytest

from goqueue.groups import GroupsConfig
from tests.unit.groups.harness import ConsumerClient, Host, partitions_of, settle, topic

ORDERS = topic("orders", 4)
PAYMENTS = topic("payments", 2)
SESSION = 30_000


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(), ORDERS, PAYMENTS)


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
