"""A queue whose partitions are led by different nodes looks the same at each of them."""

from collections.abc import Iterator

import pytest

from goqueue.broker.queues.overview import Missing
from goqueue.broker.queues.stats import WhichInFlight
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, TopicName
from goqueue.queue import GroupStats, InFlight, QueueGroupNotFound
from tests.unit.broker.cluster.apart import HOSTS, Apart, led_apart

EVERYTHING = WhichInFlight()


@pytest.fixture
def apart() -> Iterator[Apart]:
    """Three messages in each partition; one of each is in flight."""
    with led_apart() as found:
        for index in range(3):
            found.publish("a", *(f"{index}-{n}" for n in range(3)), partition=index)
        held = 0
        while held < 3:
            held += len(found.receive("a", max_messages=1))
        yield found


def stats(apart: Apart, host: str, missing: Missing | None = None) -> GroupStats:
    (found,) = apart.world.run(apart[host].queues.stats("g", missing))
    return found


def held(
    apart: Apart, host: str, limit: int = 100, missing: Missing | None = None
) -> list[InFlight]:
    left_out = Missing() if missing is None else missing
    return apart.world.run(apart[host].queues.list_held("g", EVERYTHING, limit, left_out))


def test_statistics_are_those_of_all_leaders(apart: Apart):
    found = [stats(apart, host) for host in HOSTS]
    for each in found:
        assert [part.partition for part in each.partitions] == [0, 1, 2]
        assert sum(part.ready for part in each.partitions) == 6
        assert (each.in_flight, each.consumers) == (3, {"c": 3})
        assert each.totals.delivered == 3
        assert each.topic_totals[TopicName("orders")].delivered == 3


def test_who_holds_what_is_known_everywhere_and_can_be_released(apart: Apart):
    for host in HOSTS:
        missing = Missing()
        found = held(apart, host, missing=missing)
        assert sorted((each.partition, each.offset) for each in found) == [(0, 0), (1, 0), (2, 0)]
        assert missing == {}
    assert len(held(apart, "b", limit=2)) == 2
    receipts = [each.receipt for each in held(apart, "b")]
    apart.world.run(apart["c"].queues.release(receipts))
    assert held(apart, "a") == []


def test_partitions_of_a_leader_that_is_gone_are_named(apart: Apart):
    apart.nodes.stop("c")
    missing = Missing()
    found = stats(apart, "a", missing)
    assert [each.partition for each in found.partitions] == [0, 1]
    assert [str(place.topic) + f"-{place.partition}" for place in missing] == ["orders-2"]
    missing = Missing()
    assert {each.partition for each in held(apart, "b", missing=missing)} == {0, 1}
    assert {place.partition for place in missing} == {2}
    missing = Missing()
    receiver = apart["b"].queues.receiver
    peeked = apart.world.run(receiver.peek(GroupId("g"), "orders", 10, missing))
    assert {each.partition for each in peeked} == {0, 1}
    assert {place.partition for place in missing} == {2}


def test_a_group_that_no_node_knows_is_not_found(apart: Apart):
    for host in HOSTS:
        with pytest.raises(QueueGroupNotFound):
            apart.world.run(apart[host].queues.stats("nobody"))
        with pytest.raises(QueueGroupNotFound):
            apart.world.run(apart[host].queues.list_held("nobody", EVERYTHING, 1, Missing()))
    apart.nodes.stop("c")
    with pytest.raises(GoQueueError, match="node 3"):
        apart.world.run(apart["a"].queues.stats("nobody"))


def test_peeking_takes_from_all_leaders_in_turn(apart: Apart):
    for host in HOSTS:
        receiver = apart[host].queues.receiver
        found = apart.world.run(receiver.peek(GroupId("g"), "orders", 3))
        assert {each.partition for each in found} == {0, 1, 2}


def test_a_group_starts_over_and_is_moved_at_any_node(apart: Apart):
    queues = apart["b"].queues
    apart.world.run(queues.move_ack_floor("g", "orders", 2, 3))
    assert [each.floor for each in stats(apart, "a").partitions] == [0, 0, 3]
    assert apart.world.run(queues.forget_partitions("g", "orders")) == [0, 1, 2]
    assert stats(apart, "c").partitions == ()
