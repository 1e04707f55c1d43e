"""When schedules run: intervals, bounds, and the newest runs before a time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model.ids import Timestamp
from goqueue.schedules import Timing, find_timing_mistakes
from tests.unit.schedules.moments import at

HOUR = 3_600_000
ANCHOR = at("2026-01-01T00:00")


def test_an_interval_counts_from_when_it_was_set():
    timing = Timing(every_ms=HOUR)
    assert timing.runs_after(ANCHOR, ANCHOR, 2) == [ANCHOR + HOUR, ANCHOR + 2 * HOUR]
    assert timing.next_after(Timestamp(ANCHOR + HOUR), ANCHOR) == ANCHOR + 2 * HOUR


def test_an_interval_with_a_start_begins_there():
    timing = Timing(every_ms=HOUR, start=ANCHOR)
    assert timing.next_after(Timestamp(0), ANCHOR) == ANCHOR
    assert timing.next_after(ANCHOR, ANCHOR) == ANCHOR + HOUR


def test_start_and_end_are_inside():
    timing = Timing("0 * * * *", start=at("2026-01-01T01:00"), end=at("2026-01-01T03:00"))
    assert timing.runs_after(Timestamp(0), ANCHOR, 10) == [
        at(f"2026-01-01T0{hour}:00") for hour in (1, 2, 3)
    ]


@given(
    timing=st.sampled_from(
        [
            Timing(every_ms=7_000),
            Timing(every_ms=HOUR, start=ANCHOR),
            Timing("*/7 * * * *"),
            Timing("30 2 * * *", timezone="Europe/Berlin"),
            Timing("0 9 * * 1-5", timezone="America/New_York", end=at("2026-03-20T00:00")),
        ]
    ),
    after=st.integers(ANCHOR, at("2026-04-02T00:00")),
    length=st.integers(0, 20 * 86_400_000).map(lambda ms: ms // 40),
    count=st.integers(1, 30),
)
@settings(max_examples=80, deadline=None)
def test_the_newest_runs_are_the_last_of_all(timing: Timing, after: int, length: int, count: int):
    until, all_of_them = Timestamp(after + length), list[Timestamp]()
    following = timing.next_after(Timestamp(after), ANCHOR)
    while following is not None and following <= until:
        all_of_them.append(following)
        following = timing.next_after(following, ANCHOR)
    assert timing.newest_runs(Timestamp(after), until, ANCHOR, count) == all_of_them[-count:]


def test_the_newest_run_is_found_behind_years():
    timing = Timing("0 0 1 1 *")
    assert timing.newest_runs(at("2001-01-01T00:00"), at("2026-07-01T00:00"), ANCHOR, 1) == [ANCHOR]


@pytest.mark.parametrize(
    ("timing", "fields"),
    [
        (Timing(), ["cron"]),
        (Timing("* * * * *", every_ms=5_000), ["cron"]),
        (Timing(every_ms=10), ["every"]),
        (Timing(every_ms=5_000, timezone="Asia/Karachi"), ["timezone"]),
        (Timing("61 * * * *", timezone="Asia/Lahore", start=at("2027-01-01"), end=ANCHOR), 3),
        (Timing("0 0 * * *", end=ANCHOR), ["end"]),
        (Timing("* * */20 * 1L"), ["cron"]),
    ],
)
def test_all_mistakes_are_named(timing: Timing, fields: list[str] | int):
    found = [each.field for each in find_timing_mistakes(timing, at("2026-06-01T00:00"))]
    assert found == fields or len(found) == fields


def test_it_is_told_in_english():
    assert Timing("0 9 * * 1-5", timezone="Asia/Karachi").describe() == (
        "At 09:00 on Monday through Friday (Asia/Karachi)"
    )
    assert Timing(every_ms=90_000).describe() == "Every 1m30s"
