"""Dead letters that go to a partition of another leader."""

from goqueue.broker.messages.remote_partition import readable
from goqueue.broker.queues.acknowledgement import Reject
from goqueue.model.ids import NodeId
from goqueue.queue import Settled
from tests.unit.broker.cluster.apart import Apart, led_apart


def place_dead_letters(apart: Apart, *leaders: int) -> None:
    replicas = [[NodeId(each)] for each in leaders]
    creating = apart["a"].create_topic("orders.dlq", partitions=3, assignments=replicas)
    apart.world.run(creating)
    apart.world.run_until(
        lambda: all("orders.dlq" in seen for seen in apart.nodes.topics_seen.values())
    )


def counts(apart: Apart) -> list[int]:
    """Of the dead letters by partition."""
    broker = apart["a"]
    topic = broker.topic("orders.dlq")
    found = [apart.world.run(readable(broker, topic, index)) for index in range(3)]
    return [each.log.end_offset for each in found]


def test_dead_letters_are_written_once_at_another_leader():
    with led_apart() as apart:
        place_dead_letters(apart, 2, 3, 1)
        for index in range(3):
            apart.publish("a", "x", "y", partition=index)
        receipts = []
        for host in ("a", "b", "c"):
            receipts += [receipt for _, receipt in apart.receive(host, max_messages=2)]
        outcomes = apart.world.run(apart["b"].queues.settlement.settle(receipts, Reject("bad")))
        assert all(isinstance(each, Settled) for each in outcomes)
        apart.world.run_for(5.0)
        assert counts(apart) == [2, 2, 2]


def test_dead_letters_wait_for_a_leader_that_is_gone():
    with led_apart() as apart:
        place_dead_letters(apart, 3, 2, 2)
        apart.publish("a", "x", partition=0)
        ((_, receipt),) = apart.receive("a")
        apart.nodes.stop("c")
        apart.world.run(apart["a"].queues.settlement.settle([receipt], Reject("bad")))
        apart.world.run_until(lambda: bool(apart["a"].queues.unwritten_dead_letters()), limit_s=60)
        assert [each.count for each in apart["a"].queues.unwritten_dead_letters()] == [1]
        apart.nodes.start("c")
        apart.world.run_until(lambda: "c" in apart.nodes.brokers, limit_s=30)
        apart.world.run_until(lambda: not apart["a"].queues.unwritten_dead_letters(), limit_s=120)
        target = apart.world.run(apart["c"].partition("orders.dlq", 0))
        assert target.log.end_offset == 1
