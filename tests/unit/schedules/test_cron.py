"""Cron expressions: as Debian's cron has them, when clocks change too."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model.ids import Timestamp
from goqueue.schedules import Timing
from goqueue.schedules.cron import MACROS, find_cron_mistakes, parse_cron
from goqueue.schedules.zones import zone_of
from tests.unit.schedules.moments import at, local

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC")
EXPRESSIONS = (
    *("30 2 * * *", "0 9 * * 1-5", "*/15 * * * *", "0,30 1-3 * * *", "0 */6 * * *", "0 2,3 * * *"),
    *("15 0 1 * *", "0 0 L * *", "30 10 * * MON#1", "5 30 2 * * *", "*/20 * * * * *", "@daily"),
    *("*/15 2 * * *", "45 1 * * *", "0 0 29 2 *"),
)


@pytest.mark.parametrize(
    ("zone", "expression", "day", "expected"),
    [
        # Spring: the hour is skipped, and the run comes right after it, once.
        ("Europe/Berlin", "30 2 * * *", "2026-03-28", "28 02:30+01 29 03:00+02 30 02:30+02"),
        ("America/New_York", "30 2 * * *", "2026-03-07", "07 02:30-05 08 03:00-04 09 02:30-04"),
        ("Australia/Sydney", "15 2 * * *", "2026-10-03", "03 02:15+10 04 03:00+11 05 02:15+11"),
        # Autumn: the hour comes twice, and the run is in the first one.
        ("Europe/Berlin", "30 2 * * *", "2026-10-24", "24 02:30+02 25 02:30+02 26 02:30+01"),
        ("America/New_York", "30 1 * * *", "2026-10-31", "31 01:30-04 01 01:30-04 02 01:30-05"),
        ("Australia/Sydney", "15 2 * * *", "2026-04-04", "04 02:15+11 05 02:15+11 06 02:15+10"),
        # A fixed second changes nothing about that.
        ("Europe/Berlin", "0 30 2 * * *", "2026-03-28", "28 02:30+01 29 03:00+02 30 02:30+02"),
        ("Europe/Berlin", "0 30 2 * * *", "2026-10-24", "24 02:30+02 25 02:30+02 26 02:30+01"),
        # What runs in the hours around is not touched by it.
        ("Europe/Berlin", "0 9 * * *", "2026-03-28", "28 09:00+01 29 09:00+02 30 09:00+02"),
        ("Asia/Karachi", "0 9 * * 1-5", "2026-03-27", "27 09:00+05 30 09:00+05 31 09:00+05"),
    ],
)
def test_a_fixed_time_runs_once_a_day_when_clocks_change(
    zone: str, expression: str, day: str, expected: str
):
    words = expected.split()
    wanted = [f"{words[i]} {words[i + 1]}:00" for i in range(0, len(words), 2)]
    found = local(Timing(expression, timezone=zone), day, 3)
    assert [each[3:] for each in found] == wanted


@pytest.mark.parametrize(
    ("zone", "begin", "expected"),
    [
        ("Europe/Berlin", "2026-03-29T01:00", "01:00 01:30 03:00 03:30"),
        ("America/New_York", "2026-03-08T01:00", "01:00 01:30 03:00 03:30"),
        ("Europe/Berlin", "2026-10-25T01:30", "01:30 02:00 02:30 02:00 02:30 03:00"),
        ("America/New_York", "2026-11-01T00:30", "00:30 01:00 01:30 01:00 01:30 02:00"),
        ("Australia/Sydney", "2026-04-05T01:30", "01:30 02:00 02:30 02:00 02:30 03:00"),
    ],
)
def test_what_runs_all_the_time_follows_real_time(zone: str, begin: str, expected: str):
    timing = Timing("*/30 * * * *", timezone=zone)
    found = local(timing, begin, len(expected.split()))
    assert [each[6:11] for each in found] == expected.split()


def test_a_step_of_minutes_in_the_skipped_hour_is_left_out_that_day():
    found = local(Timing("*/30 2 * * *", timezone="Europe/Berlin"), "2026-03-28", 4)
    assert [each[:11] for each in found] == [
        *("03-28 02:00", "03-28 02:30", "03-30 02:00", "03-30 02:30")
    ]


def test_in_the_second_turn_of_an_hour_the_first_does_not_come_back():
    zone = zone_of("Europe/Berlin")
    second_turn = at("2026-10-25T01:15")  # 02:15 for the second time
    found = parse_cron("30 2 * * *").next_after(second_turn, zone)
    assert found == at("2026-10-26T01:30")


@given(
    expression=st.sampled_from(EXPRESSIONS),
    zone=st.sampled_from(ZONES),
    after=st.integers(at("2026-03-20T00:00"), at("2026-11-10T00:00")),
    part=st.floats(0, 1),
)
@settings(max_examples=150, deadline=None)
def test_the_next_run_is_the_same_from_wherever_one_looks(
    expression: str, zone: str, after: int, part: float
):
    cron, where = parse_cron(expression), zone_of(zone)
    found = cron.next_after(Timestamp(after), where)
    assert found is not None
    assert found > after
    between = Timestamp(after + int((found - after - 1) * part))
    assert cron.next_after(between, where) == found


@given(st.text(alphabet="0123456789*/,-#LWMONJAN @", max_size=30))
@settings(max_examples=300, deadline=None)
def test_an_expression_is_either_wrong_or_runs(text: str):
    if not find_cron_mistakes(text):
        parse_cron(text).next_after(Timestamp(0), zone_of("Europe/Berlin"))
        assert parse_cron(text).describe()


@pytest.mark.parametrize("name", MACROS)
def test_names_stand_for_expressions(name: str):
    assert not find_cron_mistakes(name.upper())
    assert parse_cron(name) == parse_cron(MACROS[name])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("61 25 * * MOX", ["'61' is no minute", "'25' is no hour", "'MOX' is no day of the week"]),
        ("* * 32 13 *", ["'32' is no day of the month", "'13' is no month"]),
        ("* * * *", ["has 4 fields"]),
        ("", ["has 0 fields"]),
        ("0 0 31 2 *", ["no month that it names has such a day"]),
        ("@dayly", ["is none of @yearly"]),
        ("99 * * * * *", ["'99' is no second"]),
        ("* " * 150, ["300 characters, 200 allowed"]),
    ],
)
def test_all_mistakes_are_named(expression: str, expected: list[str]):
    found = [each.message for each in find_cron_mistakes(expression)]
    assert len(found) == len(expected)
    assert all(text in each for each, text in zip(found, expected, strict=True))


def test_a_name_that_is_nearly_right_is_suggested():
    assert [each.suggestion for each in find_cron_mistakes("@dayly")] == ["@daily"]


def test_nothing_runs_after_the_end_of_the_calendar():
    assert parse_cron("0 0 * * *").next_after(at("9950-01-01T00:00"), zone_of("UTC")) is None
