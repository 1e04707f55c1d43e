"""Messages that wait for the end of a transaction."""

import pytest

from goqueue.queue import (
    QueueSettings,
    ReceiptExpired,
    ReceiptInTransaction,
    ReceiptUnknown,
)
from goqueue.queue.settling import ACKED, Verdict
from tests.unit.queue.harness import GROUP, WHERE, Bench, picture

LATER = 100_000


@pytest.fixture
def bench() -> Bench:
    bench = Bench(QueueSettings(visibility_ms=1000))
    bench.publish([2] * 20)
    return bench


def test_pinned_messages_do_not_run_out_and_are_acked_by_the_commit(bench):
    receipts = bench.hand("ann", 10)
    assert bench.pin(receipts, "tx") == [ACKED] * 10
    bench.pass_time(LATER)
    assert bench.machine.next_deadline() is None
    assert sum(bench.ledger.in_flight) == 10
    assert bench.ledger.floor == 0
    bench.end_pins("tx", commits=True)
    assert bench.ledger.floor == 10
    assert bench.machine.group(GROUP).totals.acked == 10
    assert bench.machine.pins == {}
    assert not bench.ledger.held


def test_after_an_abort_the_receipts_are_good_for_their_whole_time_again(bench):
    receipts = bench.hand("ann", 2)
    bench.pin(receipts, "tx")
    bench.pass_time(LATER)
    bench.end_pins("tx", commits=False)
    bench.pass_time(999)
    assert bench.ack(receipts[:1]) == [ACKED]
    bench.pass_time(1)
    assert isinstance(bench.ack(receipts[1:])[0], ReceiptExpired)
    assert bench.ledger.timeouts(1) == 1, "as if there had been no transaction"


def test_other_messages_of_the_same_hand_out_run_out(bench):
    receipts = bench.hand("ann", 10)
    bench.pin([receipts[3], receipts[7]], "tx")
    bench.pass_time(1000)
    assert sum(bench.ledger.in_flight) == 2
    assert [isinstance(bench.ack([each])[0], ReceiptExpired) for each in receipts[:3]] == [True] * 3
    bench.end_pins("tx", commits=True)
    assert 3 not in bench.ledger.held
    assert 4 in bench.ledger.held


@pytest.mark.parametrize("verb", ["ack", "nack", "reject", "release"])
def test_no_other_verb_ends_what_a_transaction_acks(bench, verb):
    (receipt,) = bench.hand("ann", 1)
    bench.pin([receipt], "tx")
    (refusal,) = getattr(bench, verb)([receipt])
    assert isinstance(refusal, ReceiptInTransaction)
    assert isinstance(bench.extend([receipt], 5)[0], ReceiptInTransaction)
    assert isinstance(bench.pin([receipt], "ty")[0], ReceiptInTransaction)
    assert bench.pin([receipt], "tx") == [ACKED], "but the same may be said twice"
    bench.submit(lambda machine: machine.consumer_gone(bench.now, GROUP, "ann", failed=True))
    assert bench.ledger.pinned_ranges("tx") == ((0, 0),)
    assert bench.machine.in_flight(WHERE, 0, 100) == {}


def test_one_bad_receipt_and_none_is_taken(bench):
    good = bench.hand("ann", 2)
    (acked,) = bench.hand("ann", 1)
    bench.ack([acked])
    never = good[0].replace(f".{GROUP}", f"0.{GROUP}")  # a lease that nobody had
    outcomes = bench.pin([*good, acked, never], "tx")
    assert [type(each) for each in outcomes] == [Verdict, Verdict, ReceiptExpired, ReceiptUnknown]
    assert bench.machine.pins == {}
    assert bench.ack(good) == [ACKED, ACKED]


def test_a_pin_of_an_old_delivery_is_refused(bench):
    (old,) = bench.hand("ann", 1)
    bench.nack([old], 0)
    (new,) = bench.hand("bob", 1)
    assert isinstance(bench.pin([old], "tx")[0], ReceiptExpired)
    assert bench.pin([new], "tx") == [ACKED]


def test_pins_survive_a_restart_and_a_snapshot(bench):
    receipts = bench.hand("ann", 12)
    bench.pin(receipts[:9], "tx")
    bench.pin(receipts[10:11], "ty")
    for machine in (bench.replay(), bench.replay_snapshot()):
        assert picture(machine) == picture(bench.machine)
        assert machine.pins.keys() == {"tx", "ty"}
    bench.machine = bench.replay_snapshot()
    bench.submit(lambda machine: machine.resume(bench.now))
    bench.pass_time(LATER)
    assert sum(bench.ledger.in_flight) == 10
    bench.end_pins("tx", commits=True)
    assert bench.ledger.floor == 9


def test_a_topic_or_group_that_goes_takes_its_pins_along(bench):
    bench.pin(bench.hand("ann", 3), "tx")
    bench.submit(lambda machine: machine.forget_topic(WHERE.topic))
    assert bench.machine.pins == {}
    bench.end_pins("tx", commits=True)


def test_a_floor_that_is_moved_by_decree_moves_over_pins(bench):
    bench.pin(bench.hand("ann", 3), "tx")
    bench.submit(lambda machine: machine.move_floor(WHERE, 2))
    assert bench.ledger.pinned_ranges("tx") == ((2, 2),)
    bench.submit(lambda machine: machine.move_floor(WHERE, 0))
    assert bench.ledger.pinned == {}
    bench.end_pins("tx", commits=True)
    assert bench.ledger.floor == 0
    assert bench.machine.pins == {}
