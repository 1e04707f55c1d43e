"""Members that come and go in a consumer group."""

import pytest

from goqueue.groups import GroupsConfig
from tests.unit.groups.harness import ConsumerClient, Host, partitions_of, settle, topic

ORDERS = topic("orders", 4)
PAYMENTS = topic("payments", 2)
SESSION = 30_000


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(), ORDERS, PAYMENTS)


def test_a_member_that_leaves_frees_its_partitions_at_once(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host)
    settle(first, second)
    second.leave()
    assert first.heartbeat().assigned == partitions_of(ORDERS, 0, 1, 2, 3)
    first.leave()
    assert host.state() == "Empty"
