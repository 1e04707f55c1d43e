"""Counters of rebalances."""

import pytest

from goqueue.groups import GroupsConfig
from tests.unit.groups.harness import GROUP, ConsumerClient, Host, settle, topic

ORDERS = topic("orders", 4)
PAYMENTS = topic("payments", 2)
SESSION = 30_000


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(), ORDERS, PAYMENTS)


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
