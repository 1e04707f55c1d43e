"""What administrators see of groups, and what they may delete."""

import pytest

from goqueue.groups import CommitRequest, GroupsConfig, OffsetToCommit
from goqueue.groups.errors import GroupNotEmpty, GroupNotFound
from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from tests.unit.groups.harness import GROUP, ConsumerClient, Host, topic

ORDERS, PAYMENTS = topic("orders", 2), topic("payments", 1)
KEY = TopicPartition(TopicName("orders"), 0)


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(initial_rebalance_delay_ms=0), ORDERS, PAYMENTS)


def test_only_an_empty_group_is_deleted_and_its_offsets_with_it(host: Host) -> None:
    member = ConsumerClient(host)
    member.heartbeat()
    host.commit(1, member_id=member.member_id, generation=1)
    with pytest.raises(GroupNotEmpty, match="1 members"):
        host.machine.delete_group(host.now, GROUP)
    member.leave()
    host.run(host.machine.delete_group(host.now, GROUP))
    assert host.read_committed() is None
    for verb in (host.machine.delete_group, lambda _, group: host.machine.describe(group)):
        with pytest.raises(GroupNotFound):
            verb(host.now, GROUP)


def test_groups_are_listed_by_state_and_type(host: Host) -> None:
    ConsumerClient(host).heartbeat()
    request = CommitRequest(group_id=GroupId("simple"), offsets=(OffsetToCommit(*KEY, Offset(1)),))
    host.run(host.machine.commit(host.now, request))

    def ids(**filters: list[str]) -> list[str]:
        return [group.group_id for group in host.run(host.machine.list_groups(**filters))]

    assert ids() == [GROUP, "simple"]
    assert ids(states=["stable"]) == [GROUP]
    assert ids(types=["Classic"]) == ["simple"]
    assert ids(states=["Dead"]) == []
    assert host.run(host.machine.describe(GroupId("simple"))).state == "Empty"


def test_a_description_shows_where_each_member_stands(host: Host) -> None:
    first, second = ConsumerClient(host), ConsumerClient(host, instance_id="i")
    first.heartbeat()
    second.heartbeat()
    first.heartbeat()
    described = host.run(host.machine.describe(GROUP))
    mine, other = described.members
    assert (described.state, described.epoch, described.target_epoch) == ("Reconciling", 2, 2)
    assert (mine.state, len(mine.assigned), len(mine.revoking)) == ("revoking", 1, 1)
    assert (other.state, other.instance_id, len(other.target)) == ("waiting", "i", 1)
