"""A consumer group, told as stories of its members."""

import pytest

from goqueue.groups import GroupsConfig
from goqueue.groups.errors import UnknownMember
from tests.unit.groups.harness import ConsumerClient, Host, partitions_of, settle, topic

ORDERS = topic("orders", 4)
PAYMENTS = topic("payments", 2)
SESSION = 30_000


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(), ORDERS, PAYMENTS)


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
