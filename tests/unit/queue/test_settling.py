"""How a delivery ends: whose receipts are good, and which counts end a message."""

from goqueue.queue import QueueError
from tests.unit.queue.harness import GROUP, bench_of, offset_of, picture


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
