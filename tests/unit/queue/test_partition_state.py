"""Corners of the ledger and the machine that the random test does not reach."""

import msgspec

from goqueue.model.ids import Timestamp
from goqueue.queue import QueueError, QueueSettings
from goqueue.queue.lanes import NORMAL
from goqueue.queue.records import PartitionSnapshot
from tests.unit.queue.harness import GROUP, WHERE, Bench, offset_of, picture


def bench(count: int, **settings: int) -> Bench:
    made = Bench(QueueSettings(**settings))  # type: ignore[arg-type]  # numbers alone
    made.publish([NORMAL] * count)
    return made


def test_a_message_is_not_lost_when_the_clock_is_set_back_after_its_time_came():
    queue = bench(1, backoff_jitter=0)
    (receipt,) = queue.lease("ann", 1)
    queue.nack([receipt])
    came = queue.now + 1_000
    assert queue.state.has_ready(NORMAL, came)
    assert not queue.state.has_ready(NORMAL, came - 500)
    assert queue.state.take_ready(NORMAL, 1, came - 1) == []
    queue.machine.watch(queue.state)
    assert queue.machine.next_deadline() == came
    assert queue.state.take_ready(NORMAL, 1, came) == [0]


def test_a_hand_out_of_a_thousand_is_one_small_record():
    queue = bench(100_000)
    before = len(queue.log)
    receipts = queue.lease("ann", 1_000)
    queue.ack(receipts)
    assert len(queue.log) == before + 2
    assert sum(map(len, queue.log[before:])) < 300


def test_state_follows_what_is_in_flight_not_the_backlog():
    queue = bench(50_000)
    for _ in range(45):
        queue.ack(queue.lease("ann", 1_000))
    assert queue.state.ack_floor == 45_000
    assert not queue.state.messages
    assert not queue.state.leases
    assert len(queue.machine.encode(list(queue.machine.snapshot())[-1])) < 300


def test_a_wide_gap_below_the_floor_is_passed_in_one_step():
    """Compaction may leave gaps of any width; the floor must not count through them."""
    queue = bench(2)
    first, second = queue.lease("ann", 2)
    take = queue.choose(1)
    take.cursors = [10**15] * 5
    deadline = Timestamp(queue.now + 30_000)
    queue.submit(lambda machine: machine.lease(queue.now, "ann", take, deadline))
    queue.ack([first])
    assert queue.state.ack_floor == 1
    queue.ack([second])
    assert queue.state.ack_floor == 10**15


def test_after_a_restart_every_consumer_has_its_whole_time_again():
    queue = bench(2, visibility_ms=10_000)
    receipts = queue.lease("ann", 2)
    queue.machine = queue.replay()
    queue.now = Timestamp(queue.now + 60_000)  # the broker was down for a minute
    queue.submit(lambda machine: machine.resume(queue.now, skips_leases=False))
    queue.pass_time(9_000)
    queue.ack(receipts[:1])
    queue.pass_time(2_000)
    assert queue.state.timeouts(offset_of(receipts[1])) == 1
    assert picture(queue.replay()) == picture(queue.machine)


def test_a_job_that_was_only_prefetched_outlives_the_deaths_of_its_workers():
    queue = bench(1, max_failures=3, backoff_base_ms=0)
    for _ in range(10):
        queue.lease("ann", 1)
        queue.submit(lambda machine: machine.release_consumer(queue.now, GROUP, "ann", failed=True))
    assert (queue.state.failures(0), queue.state.timeouts(0)) == (0, 10)
    assert not queue.machine.table.has_dead
    assert picture(queue.replay_snapshot()) == picture(queue.machine)
    queue.ack(queue.lease("ann", 1))
    assert queue.state.ack_floor == 1


def test_a_message_that_no_worker_survives_dies_at_the_limit_of_time_outs():
    queue = bench(1, visibility_ms=1_000, max_timeouts=4, backoff_base_ms=0)
    for _ in range(4):
        assert queue.lease("ann", 1)
        queue.pass_time(1_000)
    ((_, (letter,)),) = queue.machine.table.dead()
    assert (letter.reason, letter.attempts) == ("max_timeouts", 4)
    assert (letter.failures, letter.timeouts) == (0, 4)


def test_nacks_and_time_outs_are_counted_apart():
    queue = bench(1, visibility_ms=1_000, max_failures=2, max_timeouts=2, backoff_base_ms=0)
    queue.nack(queue.lease("ann", 1))
    queue.lease("ann", 1)
    queue.pass_time(1_000)
    assert (queue.state.failures(0), queue.state.timeouts(0)) == (1, 1)
    queue.nack(queue.lease("ann", 1))
    ((_, (letter,)),) = queue.machine.table.dead()
    assert (letter.reason, letter.failures, letter.timeouts) == ("max_failures", 2, 1)


def test_every_delivery_counts_for_the_limit_of_deliveries():
    queue = bench(2, visibility_ms=1_000, max_deliveries=3, backoff_base_ms=0)
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


def test_records_that_knew_one_count_are_read():
    """As written before time-outs had a count of their own: failures were both."""
    queue = bench(1, backoff_base_ms=0)
    queue.lease("ann", 1)
    returned = queue.machine.decode(
        b"\1"
        + msgspec.msgpack.encode(
            {
                "type": "returned",
                "where": list(msgspec.structs.astuple(WHERE)),
                "offsets": [0],
                "visible_at": [0],
                "cause": "expired",
                "at": queue.now,
            }
        )
    )
    queue.machine.apply(returned)
    assert (queue.state.failures(0), queue.state.timeouts(0)) == (0, 1)
    kept, part = list(queue.machine.snapshot())[-2:]
    assert isinstance(kept, PartitionSnapshot)
    old = msgspec.to_builtins(part) | msgspec.to_builtins(kept)  # it was one record then
    old |= {"waiting": [[0, 0]], "history": msgspec.to_builtins(part)["history"]}
    old["history"] = [each[:-1] for each in old["history"]]
    old["letters"] = [[7, "rejected", "", "ann", 1, 0, 1, 2, 3]]
    old["topic_id"] = kept.topic_id.bytes
    read = queue.machine.decode(b"\1" + msgspec.msgpack.encode(old))
    assert isinstance(read, PartitionSnapshot)
    assert (read.history[0].deliveries, read.history[0].timeouts) == (1, 0)
    assert (read.dead[0].died_at, read.dead[0].timeouts) == (3, 0)


def test_very_many_leases_that_run_out_together_are_dealt_with_in_portions():
    queue = bench(12_000, visibility_ms=1_000, backoff_base_ms=0)
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


def test_a_thousand_finished_leases_leave_nothing_behind():
    queue = bench(20_000)
    for _ in range(20_000):
        queue.ack(queue.lease("ann", 1))
    assert len(queue.state._expiring) < 3_000


def test_acks_in_any_portions_end_a_large_hand_out():
    queue = bench(1_000)
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


def test_a_range_that_was_handed_out_more_than_once_says_so_of_each():
    queue = bench(20)
    receipts = queue.lease("ann", 20)
    queue.nack([receipts[9]], delay_ms=0)
    queue.lease("ann", 1)
    claims = queue.machine.in_flight(GROUP, 0, 100, "ann")
    found = sorted(claim for some in claims.values() for claim in some)
    assert found == [(0, 8, 1, 0), (9, 9, 2, 9), (10, 19, 1, 10)]
