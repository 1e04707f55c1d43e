"""How a delivery ends: whose receipts are good, and which counts end a message."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.ids import Offset, Timestamp
from goqueue.queue import QueueError, QueueSettings, ReceiptExpired, ReceiptUnknown, settling
from goqueue.queue.dead_letter import ERROR_LENGTH_MAX
from goqueue.queue.records import Returned
from goqueue.queue.settling import ACKED, NEVER_DELIVERED, Verdict, jitter_position
from tests.unit.queue.harness import (
    GROUP,
    WHERE,
    Bench,
    attempt_of,
    bench_of,
    claim_of,
    offset_of,
    picture,
)


def test_a_job_that_was_only_prefetched_outlives_the_deaths_of_its_workers():
    queue = bench_of(1, max_failures=3, backoff_base_ms=0)
    for _ in range(10):
        queue.lease("ann", 1)
        queue.submit(lambda machine: machine.release_consumer(queue.now, GROUP, "ann", failed=True))
    assert (queue.state.failures(0), queue.state.timeouts(0)) == (0, 10)
    assert not queue.machine.table.has_dead
    assert picture(queue.replay_snapshot()) == picture(queue.machine)
    queue.ack(queue.lease("ann", 1))
    assert queue.state.ack_floor == 1


def test_a_message_that_no_worker_survives_dies_at_the_limit_of_time_outs():
    queue = bench_of(1, visibility_ms=1_000, max_timeouts=4, backoff_base_ms=0)
    for _ in range(4):
        assert queue.lease("ann", 1)
        queue.pass_time(1_000)
    ((_, (letter,)),) = queue.machine.table.dead()
    assert (letter.reason, letter.attempts) == ("max_timeouts", 4)
    assert (letter.failures, letter.timeouts) == (0, 4)


def test_nacks_and_time_outs_are_counted_apart():
    queue = bench_of(1, visibility_ms=1_000, max_failures=2, max_timeouts=2, backoff_base_ms=0)
    queue.nack(queue.lease("ann", 1))
    queue.lease("ann", 1)
    queue.pass_time(1_000)
    assert (queue.state.failures(0), queue.state.timeouts(0)) == (1, 1)
    queue.nack(queue.lease("ann", 1))
    ((_, (letter,)),) = queue.machine.table.dead()
    assert (letter.reason, letter.failures, letter.timeouts) == ("max_failures", 2, 1)


def test_every_delivery_counts_for_the_limit_of_deliveries():
    queue = bench_of(2, visibility_ms=1_000, max_deliveries=3, backoff_base_ms=0)
    queue.release(queue.lease("ann", 2))
    queue.nack(queue.lease("ann", 2))
    released, timed_out = queue.lease("ann", 2)
    (outcome,) = queue.release([released])
    assert outcome.action == "dead"
    queue.pass_time(1_000)
    assert offset_of(timed_out) == 1
    ((_, letters),) = queue.machine.table.dead()
    assert [(each.offset, each.reason, each.attempts) for each in letters] == [
        (0, "max_deliveries", 3),
        (1, "max_deliveries", 3),
    ]
    assert [(each.failures, each.timeouts) for each in letters] == [(1, 0), (1, 1)]
    totals = queue.machine.table.group(GROUP).totals
    assert (totals.released, totals.nacked, totals.timed_out) == (3, 2, 1)


def test_acks_in_any_portions_end_a_large_hand_out():
    queue = bench_of(1_000)
    receipts = queue.lease("ann", 1_000)
    queue.ack(receipts[300:310] + receipts[100:200] + receipts[305:320])
    queue.nack(receipts[500:503])
    queue.ack(receipts[:100])
    assert queue.state.ack_floor == 200
    assert picture(queue.replay()) == picture(queue.machine)
    outcomes = queue.ack(receipts)  # among them what is acked already, and what came back
    refused = [place for place, each in enumerate(outcomes) if isinstance(each, QueueError)]
    assert refused == [500, 501, 502]
    assert queue.state.ack_floor == 500
    assert picture(queue.replay_snapshot()) == picture(queue.machine)
    queue.pass_time(10_000)
    queue.ack(queue.lease("bob", 3))
    assert not queue.state.messages
    assert queue.state.ack_floor == 1_000
    assert queue.machine.table.group(queue.state.where.group_id).totals.acked == 1_000


# --- whose receipts are good ----------------------------------------------------------------------


def outcome(queue: Bench, text: str, *, is_ack: bool = True) -> object:
    """Of an ack, or of another verb."""
    (found,) = queue.ack([text]) if is_ack else queue.release([text])
    return type(found) if isinstance(found, QueueError) else found


def test_a_receipt_is_good_until_another_delivery_follows():
    queue = bench_of(3, backoff_base_ms=0)
    old, acked, held = queue.lease("ann", 3)
    queue.nack([old])
    assert outcome(queue, old) is ReceiptExpired, "it waits for its retry"
    (new,) = queue.lease("bob", 1)
    assert outcome(queue, old) is ReceiptExpired, "bob has it"
    assert outcome(queue, new) == ACKED
    assert outcome(queue, new) == ACKED, "it is said twice"
    assert outcome(queue, old) is ReceiptExpired, "another delivery finished it"
    assert outcome(queue, acked) == outcome(queue, acked) == ACKED
    assert outcome(queue, acked, is_ack=False) is ReceiptExpired
    assert outcome(queue, held, is_ack=False) == Verdict("released", visible_at=queue.now)


def test_a_receipt_of_a_delivery_that_never_was_is_unknown():
    queue = bench_of(1)
    (held,) = queue.lease("ann", 1)
    second_attempt = held.replace(":0:0:1:", ":0:0:2:")
    another_message = held.replace(":0:0:1:", ":0:1:1:")
    assert outcome(queue, second_attempt) is ReceiptUnknown
    assert outcome(queue, another_message) is ReceiptUnknown


def test_receipts_of_before_a_group_was_moved_back_are_over():
    queue = bench_of(2)
    receipts = queue.lease("ann", 2)
    queue.ack(receipts)
    queue.submit(lambda machine: machine.move_ack_floor(GROUP, Offset(0)))
    assert outcome(queue, receipts[0]) is ReceiptExpired
    queue.ack(queue.lease("ann", 2))
    assert outcome(queue, receipts[0]) is ReceiptExpired


def test_a_part_of_a_claim_that_is_good_is_good():
    queue = bench_of(12, backoff_base_ms=0)
    receipts = queue.lease("ann", 12)
    queue.nack(receipts[4:5])
    found = queue.extend(receipts, 5_000)
    assert [type(each) for each in found[4:5]] == [ReceiptExpired]
    assert all(isinstance(each, Verdict) for each in found[:4] + found[5:])


def test_a_claim_of_a_wrong_attempt_is_refused_for_each_message():
    queue = bench_of(12, backoff_base_ms=0)
    queue.nack(queue.lease("ann", 12))
    second = queue.lease("ann", 12)
    first = [text.replace(":2:", ":1:") for text in second if offset_of(text) != 2]
    assert all(isinstance(each, ReceiptUnknown) for each in queue.ack(first))
    assert queue.ack(second) == [ACKED] * 12


def test_an_attempt_that_one_message_had_is_not_that_of_its_neighbours():
    queue = bench_of(12, backoff_base_ms=0)
    queue.nack(queue.lease("ann", 1))
    receipts = queue.lease("ann", 12)
    assert [attempt_of(text) for text in receipts] == [2] + [1] * 11
    forged = [receipts[0], *(text[::-1].replace(":1:", ":2:", 1)[::-1] for text in receipts[1:])]
    assert {attempt_of(text) for text in forged} == {2}
    first, *others = queue.ack(forged)
    assert first == ACKED
    assert all(isinstance(each, ReceiptUnknown) for each in others)


# --- endings --------------------------------------------------------------------------------------


def test_a_failure_waits_as_long_as_is_asked_for_or_as_the_group_says():
    queue = bench_of(3, backoff_base_ms=1_000, backoff_jitter=0)
    first, second, third = queue.lease("ann", 3)
    (now,) = queue.nack([first], delay_ms=0)
    (soon,) = queue.nack([second], delay_ms=70)
    (later,) = queue.nack([third])
    waits = [each.visible_at - queue.now for each in (now, soon, later)]
    assert waits == [0, 70, 1_000]


def test_the_words_of_a_failure_are_bounded():
    queue = bench_of(1)
    (receipt,) = queue.lease("ann", 1)
    claims = {(WHERE, queue.machine.next_lease_id - 1): [claim_of(receipt)]}
    decision = queue.machine.nack(
        queue.now, claims, [NEVER_DELIVERED], delay_ms=None, reason="x" * (ERROR_LENGTH_MAX + 1)
    )
    (returned,) = decision.records
    assert isinstance(returned, Returned)
    assert returned.error == "x" * ERROR_LENGTH_MAX


@given(st.integers(0, 2**62), st.integers(1, 1_000))
def test_jitter_is_the_same_whenever_the_same_is_decided(offset: int, failures: int):
    found = jitter_position(offset, failures)
    assert 0 <= found < 1
    assert found == jitter_position(offset, failures)


def test_jitter_spreads():
    tenths = Counter(int(jitter_position(offset, 1) * 10) for offset in range(1_000))
    assert len(tenths) == 10
    assert min(tenths.values()) > 50
    assert jitter_position(5, 1) != jitter_position(5, 2)


def test_nothing_is_written_of_nothing():
    queue = bench_of(1)
    settings, now = QueueSettings(), Timestamp(0)
    assert settling.ack(queue.state, [], []) == []
    assert settling.fail(queue.state, settings, now, [], "nacked") == ([], {})
    assert settling.reject(queue.state, now, [], "no") == []
    assert settling.release(queue.state, now, []) == ([], frozenset())
    assert settling.extend(queue.state, now, [], 1) == []
