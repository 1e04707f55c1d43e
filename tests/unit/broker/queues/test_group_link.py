"""What leaders of ledgers and the coordinator of their group tell each other."""

import pytest

from goqueue.groups import CommitRequest, HeartbeatRequest, OffsetToCommit
from goqueue.groups.errors import GroupError
from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from tests import queue_verbs
from tests.unit.broker.cluster.apart import Apart, led_apart

GROUP = GroupId("g")
THIRD = TopicPartition(TopicName("orders"), 2)


def committed(apart: Apart) -> int | None:
    """In the partition that host c leads, as the coordinator on host a has it."""
    found = apart["a"].groups.committed_offsets(GROUP).get(THIRD)
    return None if found is None else found.offset


def ack_some(apart: Apart, count: int) -> None:
    found = apart.receive("b", max_messages=count)
    assert len(found) == count
    apart.world.run(queue_verbs.ack(apart["b"].queues, [receipt for _, receipt in found]))


def test_ack_floors_are_committed_at_the_coordinator():
    with led_apart() as apart:
        apart.publish("a", *"abcde", partition=2)
        ack_some(apart, 3)
        apart.world.run_until(lambda: committed(apart) == 3, limit_s=10)


def test_a_commit_of_somebody_else_moves_the_floor_and_is_not_overwritten():
    with led_apart() as apart:
        apart.publish("a", *"abcde", partition=2)
        ack_some(apart, 4)
        apart.world.run_until(lambda: committed(apart) == 4, limit_s=10)
        back = OffsetToCommit(THIRD.topic, 2, Offset(1))
        request = CommitRequest(group_id=GROUP, offsets=(back,))
        apart.world.run(apart["a"].groups.commit(request))
        apart.world.run_for(3.0)
        found = [value for value, _ in apart.receive("b", max_messages=10)]
        assert found == ["b", "c", "d", "e"]


def test_a_group_with_members_that_read_streams_is_no_queue_anywhere():
    with led_apart() as apart:
        joined = HeartbeatRequest(
            group_id=GROUP,
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_names=(THIRD.topic,),
        )
        apart.world.run(apart["a"].groups.consumer_heartbeat(joined))
        for host in ("a", "b", "c"):
            with pytest.raises(GroupError):
                apart.receive(host)


def test_a_queue_goes_on_while_its_coordinator_is_gone():
    with led_apart() as apart:
        apart.publish("a", *"abc", partition=2)
        ack_some(apart, 1)
        apart.nodes.stop("a")
        apart.world.run_for(3.0)
        assert [value for value, _ in apart.receive("c", max_messages=10)] == ["b", "c"]
