"""What was chosen becomes a decision; what changed since is left out."""

import pytest

from goqueue.model.ids import NO_TIMESTAMP, Timestamp
from goqueue.model.record import Record
from goqueue.queue.dead_letter import ERROR_LENGTH_MAX
from goqueue.queue.delivery import Selection, dead_message, decide_lease
from goqueue.queue.delivery_batch import Run
from goqueue.queue.lanes import HIGH, NORMAL
from goqueue.queue.records import Finished, Leased, MarkedDead, QueueRecord
from tests.unit.queue.harness import WHERE, Bench, bench_of


@pytest.fixture
def bench() -> Bench:
    return bench_of(10, backoff_base_ms=0, max_failures=100)


def record(offset: int) -> Record:
    return Record(offset, 0, None, b"")


def decide(bench: Bench, selection: Selection) -> list[QueueRecord]:
    return decide_lease(selection, 7, "ann", bench.now, Timestamp(bench.now + 30_000))


def test_neighbours_of_a_lane_are_one_range(bench: Bench):
    selection = Selection(bench.state)
    for offset, lane in ((0, NORMAL), (1, NORMAL), (2, HIGH), (3, HIGH), (5, HIGH)):
        selection.add_fresh(record(offset), lane)
    selection.add_run(Run([record(6), record(7), record(9)], HIGH, b""))
    assert selection.fresh == [(0, 1, NORMAL), (2, 3, HIGH), (5, 7, HIGH), (9, 9, HIGH)]
    assert selection.count == 8


def test_a_message_that_comes_again_says_how_often_it_failed(bench: Bench):
    bench.nack(bench.lease("ann", 1))
    bench.nack(bench.lease("ann", 1))
    selection = Selection(bench.state)
    selection.add_again(record(0), NORMAL)
    assert selection.chosen == [(record(0), 3, NORMAL, 2, 0)]
    assert selection.again == [0]


def test_there_is_something_to_write_when_anything_was_found(bench: Bench):
    assert not Selection(bench.state).moves_on
    for name, value in (
        ("passed", [(0, NORMAL)]),
        ("deferred", [(0, NORMAL, 9)]),
        ("outdated", [0]),
        ("unreadable", {0: "?"}),
        ("gone", [0]),
        ("cursors", [1] * 5),
    ):
        selection = Selection(bench.state)
        setattr(selection, name, value)
        assert selection.moves_on, name
    ahead = Selection(bench.state)
    ahead.cursors[NORMAL] = 5
    assert not ahead.moves_on, "the other lanes are not there yet"


def test_a_lease_names_all_that_was_chosen_and_passed_over(bench: Bench):
    selection = Selection(bench.state)
    selection.add_fresh(record(0), NORMAL)
    selection.passed, selection.deferred, selection.keys = [(1, HIGH)], [(2, NORMAL, 9)], {5: 0}
    selection.cursors = [3] * 5
    assert decide(bench, selection) == [
        Leased(
            WHERE,
            7,
            "ann",
            bench.now,
            Timestamp(bench.now + 30_000),
            fresh=((0, 0, NORMAL),),
            again=(),
            cursors=(3,) * 5,
            passed=((1, HIGH),),
            deferred=((2, NORMAL, 9),),
            keys=((0, 5),),
        )
    ]


def test_cursors_that_moved_over_nothing_are_written_alone(bench: Bench):
    selection = Selection(bench.state)
    selection.cursors = [4] * 5
    (written,) = decide(bench, selection)
    assert written == Finished(WHERE, (), is_ack=False, cursors=(4,) * 5)
    assert decide(bench, Selection(bench.state)) == []


def test_what_somebody_else_was_handed_meanwhile_is_left_out(bench: Bench):
    bench.nack(bench.lease("bob", 2))
    selection = Selection(bench.state)
    selection.add_again(record(0), NORMAL)
    selection.add_again(record(1), NORMAL)
    selection.add_run(Run([record(2)], NORMAL, b""))
    (taken,) = bench.lease("bob", 1)
    assert taken.startswith("jobs:0:0:")
    (leased,) = decide(bench, selection)
    assert isinstance(leased, Leased)
    assert (leased.again, leased.fresh) == ((1,), ((2, 2, NORMAL),))
    assert selection.count == 2


def test_outdated_messages_die_or_are_dropped_as_the_group_says(bench: Bench):
    selection = Selection(bench.state)
    selection.outdated, selection.gone = [1, 0], [4]
    died, gone = decide(bench, selection)
    assert isinstance(died, MarkedDead)
    assert [(each.offset, each.reason, each.first_at) for each in died.dead] == [
        (1, "expired", NO_TIMESTAMP),
        (0, "expired", NO_TIMESTAMP),
    ]
    assert died.cause == "outdated"
    assert [(each.attempts, each.failures, each.timeouts) for each in died.dead] == [(0, 0, 0)] * 2
    assert gone == Finished(WHERE, ((4, 4),), is_ack=False)
    selection.drops = True
    assert decide(bench, selection) == [Finished(WHERE, ((0, 1), (4, 4)), is_ack=False, expired=2)]


def test_an_unreadable_message_dies_with_the_problem(bench: Bench):
    selection = Selection(bench.state)
    selection.unreadable = {3: "?" * (ERROR_LENGTH_MAX + 1)}
    (died,) = decide(bench, selection)
    assert isinstance(died, MarkedDead)
    assert (died.cause, died.dead[0].reason) == ("unreadable", "unreadable")
    assert died.dead[0].error == "?" * ERROR_LENGTH_MAX


def test_messages_in_somebodys_hands_neither_die_nor_vanish(bench: Bench):
    bench.lease("bob", 3)
    selection = Selection(bench.state)
    selection.outdated, selection.unreadable, selection.gone = [0], {1: "?"}, [2]
    assert decide(bench, selection) == []


def test_a_message_that_nobody_held_dies_with_its_history(bench: Bench):
    started = bench.now
    bench.nack(bench.lease("bob", 1))
    bench.pass_time(500)
    selection = Selection(bench.state)
    selection.outdated = [0]
    (died,) = decide(bench, selection)
    assert isinstance(died, MarkedDead)
    (letter,) = died.dead
    assert (letter.consumer, letter.error, letter.attempts) == ("bob", "no", 1)
    assert (letter.failures, letter.timeouts) == (1, 0)
    assert (letter.first_at, letter.last_at, letter.died_at) == (started, started, started + 500)


@pytest.mark.parametrize(
    ("cause", "counts"),
    [
        ("nacked", (1, 0)),
        ("timed_out", (0, 1)),
        ("lost", (0, 1)),
        ("released", (0, 0)),
        (None, (0, 0)),
    ],
)
def test_the_delivery_that_ends_a_message_counts_by_its_cause(bench: Bench, cause, counts):
    bench.lease("ann", 1)
    lease = bench.state.lease_of(0)
    assert lease is not None
    letter = dead_message(bench.state, lease, 0, bench.now, "rejected", cause, "why")
    assert (letter.failures, letter.timeouts) == counts
    assert (letter.offset, letter.error, letter.consumer, letter.attempts) == (0, "why", "ann", 1)
    assert letter.first_at == letter.last_at == lease.delivered_at


def test_an_ending_without_words_keeps_the_last_ones(bench: Bench):
    bench.nack(bench.lease("ann", 1))
    bench.lease("bob", 1)
    lease = bench.state.lease_of(0)
    assert lease is not None
    letter = dead_message(bench.state, lease, 0, bench.now, "max_timeouts", "lost", "")
    assert (letter.error, letter.failures, letter.timeouts, letter.attempts) == ("no", 1, 1, 2)
