"""The machine's verbs: transactions, deadlines, and what a restart leaves."""

from uuid import UUID

import pytest

from goqueue.model.errors import TransactionCoordinatorFenced
from goqueue.model.ids import GroupId, Offset, Timestamp, TopicId
from goqueue.model.markers import Marker
from goqueue.queue import (
    QueueSettings,
    ReceiptExpired,
    ReceiptInTransaction,
    ReceiptUnknown,
    settling,
)
from goqueue.queue.machine import LEASES_A_MS, LEASES_SKIPPED
from goqueue.queue.receipts import read_receipts
from goqueue.queue.records import DeadLettersRemoved, Move, Numbered, Opened
from goqueue.queue.settling import ACKED, NEVER_DELIVERED, Verdict
from tests.unit.queue.harness import (
    GROUP,
    TOPIC,
    TOPIC_ID,
    WHERE,
    Bench,
    bench_of,
    new_machine,
)

LATER = 100_000


@pytest.fixture
def bench() -> Bench:
    bench = Bench(QueueSettings(visibility_ms=1000))
    bench.publish([2] * 20)
    return bench


def test_reserved_messages_do_not_time_out_and_are_acked_by_the_commit(bench):
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


def test_other_messages_of_the_same_delivery_time_out(bench):
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


def test_reserving_an_old_delivery_is_refused(bench):
    (old,) = bench.lease("ann", 1)
    bench.nack([old], 0)
    (new,) = bench.lease("bob", 1)
    assert isinstance(bench.reserve_for_transaction([old], "1:0:tx")[0], ReceiptExpired)
    assert bench.reserve_for_transaction([new], "1:0:tx") == [ACKED]


def test_a_marker_that_is_repeated_leaves_the_next_transaction_alone(bench):
    first, second = bench.lease("ann", 1), bench.lease("ann", 1)
    marker = Marker(1, 1, coordinator_epoch=0, commits=True, is_bumped=True)
    bench.reserve_for_transaction(first, "1:0:tx")
    bench.submit(lambda machine: machine.end_transaction(bench.now, marker))
    assert bench.state.ack_floor == 1
    bench.reserve_for_transaction(second, "1:1:tx")
    bench.submit(lambda machine: machine.end_transaction(bench.now, marker))
    assert bench.state.reserved_ranges("1:1:tx") == ((1, 1),)


def test_a_marker_of_a_coordinator_that_was_replaced_is_refused(bench):
    first, second = bench.lease("ann", 1), bench.lease("ann", 1)
    old, new = (Marker(1, 0, coordinator_epoch=epoch, commits=True) for epoch in (4, 5))
    bench.reserve_for_transaction(first, "1:0:tx")
    bench.submit(lambda machine: machine.end_transaction(bench.now, old))
    bench.submit(lambda machine: machine.end_transaction(bench.now, new))
    bench.reserve_for_transaction(second, "1:0:tx")
    for machine in (bench.machine, bench.replay_snapshot(), bench.replay()):
        with pytest.raises(TransactionCoordinatorFenced, match="epoch 4, it is 5 now"):
            machine.end_transaction(bench.now, old)
    assert bench.state.reserved_ranges("1:0:tx") == ((1, 1),)
    bench.submit(lambda machine: machine.end_transaction(bench.now, new))
    assert bench.state.ack_floor == 2


def test_what_a_former_version_reserved_goes_to_the_producer(bench):
    bench.reserve_for_transaction(bench.lease("ann", 3), "tx")
    bench.submit(lambda machine: machine.rename_owner(bench.now, "tx", "1:0:tx"))
    assert bench.machine.table.reservations.keys() == {"1:0:tx"}
    bench.end_reservations("1:0:tx", commits=True)
    assert bench.state.ack_floor == 3


def test_a_range_that_was_delivered_more_than_once_says_so_of_each():
    queue = bench_of(20)
    receipts = queue.lease("ann", 20)
    queue.nack([receipts[9]], delay_ms=0)
    queue.lease("ann", 1)
    claims = queue.machine.in_flight(GROUP, 0, 100, "ann")
    found = sorted(claim for some in claims.values() for claim in some)
    assert found == [(0, 8, 1, 0), (9, 9, 2, 9), (10, 19, 1, 10)]


def test_very_many_leases_that_expire_together_are_dealt_with_in_portions():
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


# --- groups in the partition ----------------------------------------------------------------------


def test_a_group_opens_a_partition_once_and_again_when_the_topic_is_another():
    machine, now = new_machine(), Timestamp(5)
    numbered, opened = machine.open(now, GROUP, TOPIC_ID, Offset(3)).records
    assert numbered == Numbered(5 * LEASES_A_MS)
    assert opened == Opened(WHERE, TOPIC_ID, Offset(3))
    machine.apply(numbered)
    machine.apply(opened)
    assert machine.open(now, GROUP, TOPIC_ID, Offset(9)).records == ()
    (again,) = machine.open(now, GROUP, TopicId(UUID(int=9)), Offset(0)).records
    assert isinstance(again, Opened)
    assert machine.states[GROUP].fence == machine.next_lease_id


def test_a_ledger_that_opens_at_the_beginning_of_time_has_a_lease_to_give():
    numbered, _ = new_machine().open(Timestamp(0), GROUP, TOPIC_ID, Offset(0)).records
    assert numbered == Numbered(1)


def test_verbs_about_a_group_that_never_opened_do_nothing():
    machine, nobody = new_machine(), GroupId("nobody")
    assert machine.move_ack_floor(nobody, Offset(3)).records == ()
    assert machine.forget_group(nobody).records == ()
    assert machine.in_flight(nobody, 0, 100) == {}
    assert machine.resume(Timestamp(0), skips_leases=False).records == []


def test_a_log_that_lost_its_end_is_told_to_those_who_knew_more(bench):
    other = GroupId("others")
    bench.submit(lambda machine: machine.open(bench.now, other, TOPIC_ID, Offset(0)))
    bench.ack(bench.lease("ann", 5))
    assert bench.machine.shorten_log(TOPIC_ID, Offset(20)).reply == []
    assert bench.machine.shorten_log(TopicId(UUID(int=9)), Offset(4)).reply == []
    assert bench.submit(lambda machine: machine.shorten_log(TOPIC_ID, Offset(4))) == [(WHERE, 5)]
    assert bench.state.ack_floor == 4
    assert bench.machine.states[other].ack_floor == 0


def test_deliveries_that_may_be_forgotten_do_not_lend_their_numbers(bench):
    before = bench.machine.next_lease_id
    bench.submit(lambda machine: machine.resume(bench.now, skips_leases=True))
    assert bench.machine.next_lease_id == before + LEASES_SKIPPED


@pytest.mark.parametrize(("failed", "counts"), [(True, (0, 1)), (False, (0, 0))])
def test_what_a_consumer_held_comes_back(bench, failed, counts):
    bench.lease("ann", 3)
    bench.lease("bob", 1)
    released = bench.submit(
        lambda machine: machine.release_consumer(bench.now, GROUP, "ann", failed=failed)
    )
    assert released == 3
    assert (bench.state.failures(0), bench.state.timeouts(0)) == counts
    assert bench.machine.table.group(GROUP).book.consumers == {"bob": 1}


def test_the_limit_of_deliveries_is_the_callers_or_the_groups():
    queue = bench_of(3, max_deliveries=1, backoff_base_ms=0)
    own, none, given = queue.lease("ann", 3)
    (died,) = queue.release([own])
    assert died == settling.DEAD
    for text, most in ((none, 0), (given, 2)):
        claims, _ = read_receipts([text])
        outcomes: settling.Outcomes = [NEVER_DELIVERED]
        queue.machine.release(queue.now, claims, outcomes, deliveries_max=most)
        assert outcomes == [Verdict("released", visible_at=queue.now)]


def test_receipts_of_a_group_that_never_opened_are_not_reserved(bench):
    claims, _ = read_receipts([bench.lease("ann", 1)[0].replace(GROUP, "nobody")])
    outcomes: settling.Outcomes = [NEVER_DELIVERED]
    assert bench.machine.reserve_for_transaction(claims, outcomes, "1:0:tx").records == []
    assert bench.machine.ack(claims, outcomes).records == []
    assert outcomes == [NEVER_DELIVERED]


# --- dead letters ---------------------------------------------------------------------------------


def test_letters_that_are_gone_or_on_their_way_are_not_moved_again():
    machine = new_machine()
    machine.apply(DeadLettersRemoved(TOPIC, 0, ((1, 1),)))
    wanted = Move(((0, 3),), TOPIC, TOPIC_ID, 0, 1, 0, Offset(0))
    decision = machine.start_redrive([wanted])
    assert [move.ranges for move in decision.reply] == [((0, 0), (2, 3))]
    machine.apply(*decision.records)
    assert machine.start_redrive([wanted]).records == ()
    machine.apply(*machine.remove_dead_letters(((0, 0), (2, 3)), Offset(0)).records)
    assert (machine.dead_letters.floor, machine.dead_letters.moves) == (4, [])


# --- deadlines ------------------------------------------------------------------------------------


def test_a_deadline_wakes_the_groups_that_have_something_to_deliver(bench):
    other = GroupId("others")
    bench.submit(lambda machine: machine.open(bench.now, other, TOPIC_ID, Offset(0)))
    assert bench.machine.next_deadline() is None
    bench.lease("ann", 1)
    due = bench.machine.next_deadline()
    assert due == bench.now + 1_000
    early = bench.machine.on_deadline(Timestamp(due - 1))
    assert (early.records, early.reply.groups) == ([], frozenset())
    decision = bench.machine.on_deadline(due)
    assert (decision.reply.groups, decision.reply.has_dead) == (frozenset({GROUP}), False)
    assert bench.machine.next_deadline() == due, "until it is applied"


def test_a_deadline_that_ends_a_message_says_so():
    queue = bench_of(1, visibility_ms=1_000, max_timeouts=1)
    queue.lease("ann", 1)
    decision = queue.machine.on_deadline(Timestamp(queue.now + 1_000))
    assert decision.reply.has_dead
