"""Corners of the ledger and the machine that the random test does not reach."""

from goqueue.model.ids import Timestamp
from goqueue.queue.lanes import NORMAL
from tests.unit.queue.harness import bench_of


def test_a_message_is_not_lost_when_the_clock_is_set_back_after_its_time_came():
    queue = bench_of(1, backoff_jitter=0)
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
    queue = bench_of(100_000)
    before = len(queue.log)
    receipts = queue.lease("ann", 1_000)
    queue.ack(receipts)
    assert len(queue.log) == before + 2
    assert sum(map(len, queue.log[before:])) < 300


def test_state_follows_what_is_in_flight_not_the_backlog():
    queue = bench_of(50_000)
    for _ in range(45):
        queue.ack(queue.lease("ann", 1_000))
    assert queue.state.ack_floor == 45_000
    assert not queue.state.messages
    assert not queue.state.leases
    assert len(queue.machine.encode(list(queue.machine.snapshot())[-1])) < 300


def test_a_wide_gap_below_the_floor_is_passed_in_one_step():
    """Compaction may leave gaps of any width; the floor must not count through them."""
    queue = bench_of(2)
    first, second = queue.lease("ann", 2)
    take = queue.choose(1)
    take.cursors = [10**15] * 5
    deadline = Timestamp(queue.now + 30_000)
    queue.submit(lambda machine: machine.lease(queue.now, "ann", take, deadline))
    queue.ack([first])
    assert queue.state.ack_floor == 1
    queue.ack([second])
    assert queue.state.ack_floor == 10**15


def test_a_thousand_finished_leases_leave_nothing_behind():
    queue = bench_of(20_000)
    for _ in range(20_000):
        queue.ack(queue.lease("ann", 1))
    assert len(queue.state._expiring) < 3_000
