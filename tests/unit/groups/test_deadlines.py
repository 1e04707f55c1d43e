"""Sessions and revocations that time out."""

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


def test_a_paused_member_that_does_not_return_expires(host: Host) -> None:
    first, second = ConsumerClient(host, instance_id="a"), ConsumerClient(host)
    settle(first, second)
    first.leave(epoch=-2)
    host.advance(SESSION - 1)
    second.heartbeat()
    host.advance(1)
    second.heartbeat()
    assert len(second.owned) == 4
