"""Corners of the ledger and the machine that the random test does not reach."""

from goqueue.model.ids import Timestamp
from goqueue.queue import QueueError, QueueSettings
from goqueue.queue.lanes import NORMAL
from tests.unit.queue.harness import Bench, offset_of, picture


def bench(count: int, **settings: int) -> Bench:
    made = Bench(QueueSettings(**settings))  # type: ignore[arg-type]  # numbers alone
    made.publish([NORMAL] * count)
    return made


def test_a_message_is_not_lost_when_the_clock_is_set_back_after_its_time_came():
    queue = bench(1, backoff_jitter=0)
    (receipt,) = queue.hand("ann", 1)
    queue.nack([receipt])
    came = queue.now + 1_000
    assert queue.ledger.has_ready(NORMAL, came)
    assert not queue.ledger.has_ready(NORMAL, came - 500)
    assert queue.ledger.take_ready(NORMAL, 1, came - 1) == []
    queue.machine.watch(queue.ledger)
    assert queue.machine.next_deadline() == came
    assert queue.ledger.take_ready(NORMAL, 1, came) == [0]


def test_a_hand_out_of_a_thousand_is_one_small_record():
    queue = bench(100_000)
    before = len(queue.log)
    receipts = queue.hand("ann", 1_000)
    queue.ack(receipts)
    assert len(queue.log) == before + 2
    assert sum(map(len, queue.log[before:])) < 300


def test_state_follows_what_is_in_flight_not_the_backlog():
    queue = bench(50_000)
    for _ in range(45):
        queue.ack(queue.hand("ann", 1_000))
    assert queue.ledger.floor == 45_000
    assert not queue.ledger.held
    assert not queue.ledger.leases
    assert len(queue.machine.encode(queue.machine.snapshot()[-1])) < 300


def test_a_wide_gap_below_the_floor_is_passed_in_one_step():
    """Compaction may leave gaps of any width; the floor must not count through them."""
    queue = bench(2)
    first, second = queue.hand("ann", 2)
    take = queue.choose(1)
    take.cursors = [10**15] * 5
    group = queue.machine.group(queue.ledger.where.group_id)
    queue.submit(lambda machine: machine.hand(queue.now, group, "ann", [take]))
    queue.ack([first])
    assert queue.ledger.floor == 1
    queue.ack([second])
    assert queue.ledger.floor == 10**15


def test_after_a_restart_every_consumer_has_its_whole_time_again():
    queue = bench(2, visibility_ms=10_000)
    receipts = queue.hand("ann", 2)
    queue.machine = queue.replay()
    queue.now = Timestamp(queue.now + 60_000)  # the broker was down for a minute
    queue.submit(lambda machine: machine.resume(queue.now))
    queue.pass_time(9_000)
    queue.ack(receipts[:1])
    queue.pass_time(2_000)
    assert queue.ledger.failures(offset_of(receipts[1])) == 1
    assert picture(queue.replay()) == picture(queue.machine)


def test_very_many_leases_that_run_out_together_are_dealt_with_in_portions():
    queue = bench(12_000, visibility_ms=1_000, backoff_base_ms=0)
    for number in range(12):
        queue.hand(f"c{number}", 1_000)
    queue.now = Timestamp(queue.now + 1_000)
    sizes = []
    while (deadline := queue.machine.next_deadline()) is not None and deadline <= queue.now:
        before = len(queue.log)
        queue.submit(lambda machine: machine.on_deadline(queue.now))
        sizes.append(len(queue.log) - before)
    assert len(queue.hand("bob", 20_000)) == 12_000
    assert len(sizes) >= 3


def test_a_thousand_finished_leases_leave_nothing_behind():
    queue = bench(20_000)
    for _ in range(20_000):
        queue.ack(queue.hand("ann", 1))
    assert len(queue.ledger._expiring) < 3_000


def test_acks_in_any_portions_end_a_large_hand_out():
    queue = bench(1_000)
    receipts = queue.hand("ann", 1_000)
    queue.ack(receipts[300:310] + receipts[100:200] + receipts[305:320])
    queue.nack(receipts[500:503])
    queue.ack(receipts[:100])
    assert queue.ledger.floor == 200
    assert picture(queue.replay()) == picture(queue.machine)
    outcomes = queue.ack(receipts)  # among them what is acked already, and what came back
    refused = [place for place, each in enumerate(outcomes) if isinstance(each, QueueError)]
    assert refused == [500, 501, 502]
    assert queue.ledger.floor == 500
    assert picture(queue.replay_snapshot()) == picture(queue.machine)
    queue.pass_time(10_000)
    queue.ack(queue.hand("bob", 3))
    assert not queue.ledger.held
    assert queue.ledger.floor == 1_000
    assert queue.machine.group(queue.ledger.where.group_id).totals.acked == 1_000


def test_a_range_that_was_handed_out_more_than_once_says_so_of_each():
    queue = bench(20)
    receipts = queue.hand("ann", 20)
    queue.nack([receipts[9]], delay_ms=0)
    queue.hand("ann", 1)
    claims = queue.machine.in_flight(queue.ledger.where, 0, 100, "ann")
    found = sorted(claim for some in claims.values() for claim in some)
    assert found == [(0, 8, 1, 0), (9, 9, 2, 9), (10, 19, 1, 10)]
