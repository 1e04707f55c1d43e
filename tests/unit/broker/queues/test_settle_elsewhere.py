"""Ending deliveries of partitions that other nodes lead."""

from goqueue.broker.queues.acknowledgement import Ack
from goqueue.model.ids import GroupId, TopicName
from goqueue.queue import ReceiptMalformed, Settled, Where
from tests import queue_verbs
from tests.unit.broker.cluster.apart import Apart, led_apart


def receipts_of_all(apart: Apart) -> list[str]:
    """A message of each partition, in the order of the partitions."""
    for index in range(3):
        apart.publish("a", str(index), partition=index)
    found = [each for host in ("a", "b", "c") for each in apart.receive(host, max_messages=1)]
    return [receipt for _, receipt in sorted(found)]


def test_each_leader_settles_its_own_and_outcomes_are_in_order():
    with led_apart() as apart:
        first, second, third = receipts_of_all(apart)
        queues = apart["b"].queues
        outcomes = apart.world.run(queue_verbs.ack(queues, [third, "rubbish", first, second]))
        assert [each.partition for each in outcomes if isinstance(each, Settled)] == [2, 0, 1]
        assert isinstance(outcomes[1], ReceiptMalformed)
        again = apart.world.run(queue_verbs.ack(apart["c"].queues, [first, second, third]))
        assert all(isinstance(each, Settled) for each in again), "to ack twice is no error"
        assert not any(apart.receive(host) for host in ("a", "b", "c"))


def test_only_what_went_wrong_is_told_to_who_wants_no_more():
    with led_apart() as apart:
        receipts = receipts_of_all(apart)
        unknown = receipts[2].replace(":0:1:", ":7:1:")
        settlement = apart["b"].queues.settlement
        refused = apart.world.run(settlement.refusals([*receipts, unknown, "rubbish"], Ack()))
        assert {place: error.code for place, error in refused.items()} == {
            3: "receipt_unknown",
            4: "receipt_malformed",
        }


def test_a_nacked_message_comes_back_with_its_next_attempt():
    with led_apart() as apart:
        receipts = receipts_of_all(apart)
        apart.world.run(queue_verbs.nack(apart["a"].queues, receipts, delay_ms=0))
        back = [
            each.attempt
            for host in ("a", "b", "c")
            for each in apart.world.run(
                queue_verbs.receive(apart[host].queues, ["orders"], "g", "c")
            )
        ]
        assert back == [2, 2, 2]


def test_a_leader_that_is_gone_refuses_its_receipts_only():
    with led_apart() as apart:
        receipts = receipts_of_all(apart)
        apart.nodes.stop("c")
        outcomes = apart.world.run(queue_verbs.ack(apart["b"].queues, receipts))
        assert [isinstance(each, Settled) for each in outcomes] == [True, True, False]


def test_a_range_is_acked_by_its_leader():
    with led_apart() as apart:
        apart.publish("a", *"abc", partition=2)
        assert len(apart.receive("a", max_messages=10)) == 3
        where = Where(GroupId("g"), TopicName("orders"), 2)
        settlement = apart["b"].queues.settlement
        done = apart.world.run(settlement.settle_range(where, 0, 1, Ack()))
        assert [each.offset for each in done] == [0, 1]
