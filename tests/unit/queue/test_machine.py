"""The machine's verbs: transactions, deadlines, and what a restart leaves."""

import pytest

from goqueue.model.ids import Timestamp
from goqueue.model.markers import Marker
from goqueue.queue import (
    QueueSettings,
    ReceiptExpired,
    ReceiptInTransaction,
    ReceiptUnknown,
)
from goqueue.queue.settling import ACKED, Verdict
from tests.unit.queue.harness import GROUP, Bench, bench_of, offset_of, picture

LATER = 100_000


@pytest.fixture
def bench() -> Bench:
    bench = Bench(QueueSettings(visibility_ms=1000))
    bench.publish([2] * 20)
    return bench


def test_pinned_messages_do_not_run_out_and_are_acked_by_the_commit(bench):
    receipts = bench.lease("ann", 10)
    assert bench.reserve_for_transaction(receipts, "1:0:tx") == [ACKED] * 10
    bench.pass_time(LATER)
    assert bench.machine.next_deadline() is None
    assert sum(bench.state.in_flight) == 10
    assert bench.state.ack_floor == 0
    bench.end_reservations("1:0:tx", commits=True)
    assert bench.state.ack_floor == 10
    assert bench.machine.table.group(GROUP).totals.acked == 10
    assert bench.machine.table.reservations == {}
    assert not bench.state.messages


def test_after_an_abort_the_receipts_are_good_for_their_whole_time_again(bench):
    receipts = bench.lease("ann", 2)
    bench.reserve_for_transaction(receipts, "1:0:tx")
    bench.pass_time(LATER)
    bench.end_reservations("1:0:tx", commits=False)
    bench.pass_time(999)
    assert bench.ack(receipts[:1]) == [ACKED]
    bench.pass_time(1)
    assert isinstance(bench.ack(receipts[1:])[0], ReceiptExpired)
    assert bench.state.timeouts(1) == 1, "as if there had been no transaction"


def test_other_messages_of_the_same_hand_out_run_out(bench):
    receipts = bench.lease("ann", 10)
    bench.reserve_for_transaction([receipts[3], receipts[7]], "1:0:tx")
    bench.pass_time(1000)
    assert sum(bench.state.in_flight) == 2
    assert [isinstance(bench.ack([each])[0], ReceiptExpired) for each in receipts[:3]] == [True] * 3
    bench.end_reservations("1:0:tx", commits=True)
    assert 3 not in bench.state.messages
    assert 4 in bench.state.messages


@pytest.mark.parametrize("verb", ["ack", "nack", "reject", "release"])
def test_no_other_verb_ends_what_a_transaction_acks(bench, verb):
    (receipt,) = bench.lease("ann", 1)
    bench.reserve_for_transaction([receipt], "1:0:tx")
    (refusal,) = getattr(bench, verb)([receipt])
    assert isinstance(refusal, ReceiptInTransaction)
    assert isinstance(bench.extend([receipt], 5)[0], ReceiptInTransaction)
    assert isinstance(bench.reserve_for_transaction([receipt], "2:0:ty")[0], ReceiptInTransaction)
    assert bench.reserve_for_transaction([receipt], "1:0:tx") == [ACKED], (
        "but the same may be said twice"
    )
    bench.submit(lambda machine: machine.release_consumer(bench.now, GROUP, "ann", failed=True))
    assert bench.state.reserved_ranges("1:0:tx") == ((0, 0),)
    assert bench.machine.in_flight(GROUP, 0, 100) == {}


def test_one_bad_receipt_and_none_is_taken(bench):
    good = bench.lease("ann", 2)
    (acked,) = bench.lease("ann", 1)
    bench.ack([acked])
    never = good[0].replace(f"-0.{GROUP}", f"0-0.{GROUP}")  # a lease that nobody had
    outcomes = bench.reserve_for_transaction([*good, acked, never], "1:0:tx")
    assert [type(each) for each in outcomes] == [Verdict, Verdict, ReceiptExpired, ReceiptUnknown]
    assert bench.machine.table.reservations == {}
    assert bench.ack(good) == [ACKED, ACKED]


def test_a_pin_of_an_old_delivery_is_refused(bench):
    (old,) = bench.lease("ann", 1)
    bench.nack([old], 0)
    (new,) = bench.lease("bob", 1)
    assert isinstance(bench.reserve_for_transaction([old], "1:0:tx")[0], ReceiptExpired)
    assert bench.reserve_for_transaction([new], "1:0:tx") == [ACKED]


def test_pins_survive_a_restart_and_a_snapshot(bench):
    receipts = bench.lease("ann", 12)
    bench.reserve_for_transaction(receipts[:9], "1:0:tx")
    bench.reserve_for_transaction(receipts[10:11], "2:0:ty")
    for machine in (bench.replay(), bench.replay_snapshot()):
        assert picture(machine) == picture(bench.machine)
        assert machine.table.reservations.keys() == {"1:0:tx", "2:0:ty"}
    bench.machine = bench.replay_snapshot()
    bench.submit(lambda machine: machine.resume(bench.now, skips_leases=False))
    bench.pass_time(LATER)
    assert sum(bench.state.in_flight) == 10
    bench.end_reservations("1:0:tx", commits=True)
    assert bench.state.ack_floor == 9


def test_a_topic_or_group_that_goes_takes_its_pins_along(bench):
    bench.reserve_for_transaction(bench.lease("ann", 3), "1:0:tx")
    bench.machine.close()
    assert bench.machine.table.reservations == {}
    bench.end_reservations("1:0:tx", commits=True)


def test_a_floor_that_is_moved_by_decree_moves_over_pins(bench):
    bench.reserve_for_transaction(bench.lease("ann", 3), "1:0:tx")
    bench.submit(lambda machine: machine.move_ack_floor(GROUP, 2))
    assert bench.state.reserved_ranges("1:0:tx") == ((2, 2),)
    bench.submit(lambda machine: machine.move_ack_floor(GROUP, 0))
    assert bench.state.reserved == {}
    bench.end_reservations("1:0:tx", commits=True)
    assert bench.state.ack_floor == 0
    assert bench.machine.table.reservations == {}


def test_a_marker_that_is_repeated_leaves_the_next_transaction_alone(bench):
    first, second = bench.lease("ann", 1), bench.lease("ann", 1)
    marker = Marker(1, 1, coordinator_epoch=0, commits=True, is_bumped=True)
    bench.reserve_for_transaction(first, "1:0:tx")
    bench.submit(lambda machine: machine.end_transaction(bench.now, marker))
    assert bench.state.ack_floor == 1
    bench.reserve_for_transaction(second, "1:1:tx")
    bench.submit(lambda machine: machine.end_transaction(bench.now, marker))
    assert bench.state.reserved_ranges("1:1:tx") == ((1, 1),)


def test_what_a_former_version_reserved_goes_to_the_producer(bench):
    bench.reserve_for_transaction(bench.lease("ann", 3), "tx")
    bench.submit(lambda machine: machine.rename_owner(bench.now, "tx", "1:0:tx"))
    assert bench.machine.table.reservations.keys() == {"1:0:tx"}
    bench.end_reservations("1:0:tx", commits=True)
    assert bench.state.ack_floor == 3


def test_a_range_that_was_handed_out_more_than_once_says_so_of_each():
    queue = bench_of(20)
    receipts = queue.lease("ann", 20)
    queue.nack([receipts[9]], delay_ms=0)
    queue.lease("ann", 1)
    claims = queue.machine.in_flight(GROUP, 0, 100, "ann")
    found = sorted(claim for some in claims.values() for claim in some)
    assert found == [(0, 8, 1, 0), (9, 9, 2, 9), (10, 19, 1, 10)]


def test_very_many_leases_that_run_out_together_are_dealt_with_in_portions():
    queue = bench_of(12_000, visibility_ms=1_000, backoff_base_ms=0)
    for number in range(12):
        queue.lease(f"c{number}", 1_000)
    queue.now = Timestamp(queue.now + 1_000)
    sizes = []
    while (deadline := queue.machine.next_deadline()) is not None and deadline <= queue.now:
        before = len(queue.log)
        queue.submit(lambda machine: machine.on_deadline(queue.now))
        sizes.append(len(queue.log) - before)
    assert len(queue.lease("bob", 20_000)) == 12_000
    assert len(sizes) >= 3


def test_after_a_restart_every_consumer_has_its_whole_time_again():
    queue = bench_of(2, visibility_ms=10_000)
    receipts = queue.lease("ann", 2)
    queue.machine = queue.replay()
    queue.now = Timestamp(queue.now + 60_000)  # the broker was down for a minute
    queue.submit(lambda machine: machine.resume(queue.now, skips_leases=False))
    queue.pass_time(9_000)
    queue.ack(receipts[:1])
    queue.pass_time(2_000)
    assert queue.state.timeouts(offset_of(receipts[1])) == 1
    assert picture(queue.replay()) == picture(queue.machine)
