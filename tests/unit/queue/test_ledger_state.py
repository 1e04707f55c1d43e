"""A ledger's state: what a restart leaves, whose deadline is next."""

import pytest

from goqueue.model.ids import GroupId, Offset, Timestamp
from goqueue.queue import QueueSettings, Where
from goqueue.queue.records import Opened
from goqueue.queue.settling import ACKED
from tests.unit.queue.harness import (
    GROUP,
    TOPIC,
    TOPIC_ID,
    Bench,
    bench_of,
    offset_of,
    picture,
)

LATER = 100_000


@pytest.fixture
def bench() -> Bench:
    bench = Bench(QueueSettings(visibility_ms=1000))
    bench.publish([2] * 20)
    return bench


def test_reservations_survive_a_restart_and_a_snapshot(bench):
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


def test_a_ledger_that_closes_takes_its_reservations_along(bench):
    bench.reserve_for_transaction(bench.lease("ann", 3), "1:0:tx")
    bench.machine.close()
    assert bench.machine.table.reservations == {}
    bench.end_reservations("1:0:tx", commits=True)


def test_an_ack_floor_that_an_operator_moves_ends_the_reservations_below(bench):
    bench.reserve_for_transaction(bench.lease("ann", 3), "1:0:tx")
    bench.submit(lambda machine: machine.move_ack_floor(GROUP, 2))
    assert bench.state.reserved_ranges("1:0:tx") == ((2, 2),)
    bench.submit(lambda machine: machine.move_ack_floor(GROUP, 0))
    assert bench.state.reserved == {}
    bench.end_reservations("1:0:tx", commits=True)
    assert bench.state.ack_floor == 0
    assert bench.machine.table.reservations == {}


def test_after_a_restart_every_consumer_has_its_whole_time_again():
    queue = bench_of(2, visibility_ms=10_000)
    receipts = queue.lease("ann", 2)
    queue.machine = queue.replay()
    queue.now = Timestamp(queue.now + 60_000)  # the broker was down for a minute
    queue.submit(lambda machine: machine.resume(queue.now, skips_leases=False))
    queue.pass_time(9_000)
    assert queue.ack(receipts[:1]) == [ACKED]
    queue.pass_time(2_000)
    assert queue.state.timeouts(offset_of(receipts[1])) == 1
    assert picture(queue.replay()) == picture(queue.machine)


def test_the_time_of_a_commit_by_others_is_remembered(bench):
    later = Timestamp(bench.now + 5)
    bench.submit(lambda machine: machine.move_ack_floor(GROUP, Offset(2), later))
    assert (bench.state.ack_floor, bench.state.adopted_at) == (2, later)
    bench.submit(lambda machine: machine.move_ack_floor(GROUP, Offset(3)))
    assert (bench.state.ack_floor, bench.state.adopted_at) == (3, later), "it names no commit"
    opened = bench.machine.open(bench.now, GroupId("others"), TOPIC_ID, Offset(0), later).records
    assert opened == (Opened(Where(GroupId("others"), TOPIC, 0), TOPIC_ID, Offset(0), later),)


# --- deadlines ------------------------------------------------------------------------------------


def test_a_state_is_due_once_its_first_lease_expires(bench):
    machine = bench.machine
    assert machine.take_due(Timestamp(bench.now + LATER)) is None, "nothing is in flight"
    bench.lease("ann", 1)
    deadline = machine.next_deadline()
    assert deadline == bench.now + 1000
    assert machine.take_due(Timestamp(deadline - 1)) is None
    assert machine.take_due(deadline) is bench.state
    assert machine.next_deadline() is None, "it was taken"
    assert machine.watch(bench.state), "and put in line again"
    assert not machine.watch(bench.state), "which it is already"
    assert machine.next_deadline() == deadline


def test_a_deadline_that_was_brought_forward_counts_once(bench):
    (receipt, _) = bench.lease("ann", 2)
    bench.extend([receipt], 10)
    sooner = Timestamp(bench.now + 10)
    assert bench.machine.next_deadline() == sooner
    assert bench.machine.take_due(sooner) is bench.state
    assert bench.machine.take_due(Timestamp(bench.now + LATER)) is None
