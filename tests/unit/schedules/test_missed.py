"""Which run is due, and what becomes of those that were missed."""

import msgspec
import pytest

from goqueue.model.ids import Timestamp, TopicName
from goqueue.schedules import Definition, Message, Missed, Schedule, Timing, find_due
from goqueue.schedules.missed import COUNTED_MAX
from tests.unit.schedules.moments import at

BEGIN = at("2026-01-01T00:00")
MINUTE = 60_000


def minutes(count: float) -> Timestamp:
    return Timestamp(BEGIN + int(count * MINUTE))


def hourly(missed: Missed, **changes: object) -> Schedule:
    """At every full hour; the next run is at 01:00."""
    definition = Definition("s", TopicName("t"), Timing("0 * * * *"), Message(b""), missed=missed)
    definition = msgspec.structs.replace(definition, **changes)
    return Schedule(definition, 1, BEGIN, BEGIN, BEGIN, BEGIN, minutes(60))


def runs_by(schedule: Schedule, now: Timestamp) -> tuple[list[int], int]:
    """The hours that are published when it is looked at until nothing is due; how many are not."""
    hours, skipped = list[int](), 0
    while (due := find_due(schedule, now)) is not None:
        skipped += due.skipped
        if due.scheduled_at is not None:
            hours.append((due.scheduled_at - BEGIN) // (60 * MINUTE))
        schedule = msgspec.structs.replace(
            schedule,
            handled=due.handled,
            next_at=due.next_at,
            accepted=due.accepted,
            run_count=schedule.run_count + (due.scheduled_at is not None),
        )
        assert len(hours) < 10_000
    return hours, skipped


def test_before_its_time_nothing_is_due():
    assert find_due(hourly(Missed.ONE), minutes(59.9)) is None


@pytest.mark.parametrize("missed", Missed)
def test_a_run_that_is_a_little_late_is_published(missed: Missed):
    assert runs_by(hourly(missed), minutes(60.5)) == ([1], 0)


@pytest.mark.parametrize(
    ("missed", "now", "expected"),
    [
        # One run, an outage of 20 minutes: it is later than the grace period.
        (Missed.SKIP, 80, ([], 1)),
        (Missed.ONE, 80, ([1], 0)),
        (Missed.ALL, 80, ([1], 0)),
        # Five runs; the newest is 10 minutes late.
        (Missed.SKIP, 310, ([], 5)),
        (Missed.ONE, 310, ([5], 4)),
        (Missed.ALL, 310, ([1, 2, 3, 4, 5], 0)),
        # Five runs; the newest is half a minute late.
        (Missed.SKIP, 300.5, ([5], 4)),
        (Missed.ONE, 300.5, ([5], 4)),
        (Missed.ALL, 300.5, ([1, 2, 3, 4, 5], 0)),
    ],
)
def test_missed_runs_are_made_up_for_as_the_policy_says(
    missed: Missed, now: float, expected: tuple[list[int], int]
):
    assert runs_by(hourly(missed), minutes(now)) == expected


def test_of_too_many_missed_runs_the_newest_are_published():
    found = runs_by(hourly(Missed.ALL, missed_max=3), minutes(10 * 60))
    assert found == ([8, 9, 10], 7)


def test_a_long_outage_is_counted_to_a_bound():
    (hours, skipped) = runs_by(hourly(Missed.ONE), minutes(60 * 5_000))
    assert hours == [5_000]
    assert skipped == COUNTED_MAX


def test_the_last_run_is_the_last():
    assert runs_by(hourly(Missed.ALL, max_runs=2), minutes(600)) == ([1, 2], 0)


def test_nothing_runs_after_the_end():
    timing = Timing("0 * * * *", end=minutes(125))
    assert runs_by(hourly(Missed.ALL, timing=timing), minutes(600)) == ([1, 2], 0)


def test_a_paused_one_is_due_only_for_who_asks():
    paused = msgspec.structs.replace(hourly(Missed.ALL), paused_at=BEGIN)
    assert find_due(paused, minutes(600)) is None
    asked = msgspec.structs.replace(paused, requests=(minutes(7),))
    due = find_due(asked, minutes(8))
    assert due is not None
    assert (due.scheduled_at, due.is_manual) == (minutes(7), True)
    assert (due.handled, due.next_at) == (paused.handled, paused.next_at)
