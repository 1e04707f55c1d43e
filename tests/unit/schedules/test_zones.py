"""Time zones, and what is suggested for a name that is none."""

import pytest

from goqueue.schedules.zones import find_zone_mistakes, suggest_zone


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Asia/Lahore", "Asia/Karachi"),
        ("Lahore", "Asia/Karachi"),
        ("Asia/Lahor", "Asia/Karachi"),
        ("europe/berlin", "Europe/Berlin"),
        ("Europe/Berln", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("Asia/Mumbai", "Asia/Kolkata"),
        ("US/San Francisco", "America/Los_Angeles"),
        ("new york", "America/New_York"),
        ("UTC+5", "Etc/GMT-5"),
        ("GMT-03:00", "Etc/GMT+3"),
        ("nowhere at all", ""),
    ],
)
def test_what_was_meant_is_suggested(written: str, meant: str):
    (mistake,) = find_zone_mistakes(written)
    assert mistake.suggestion == meant
    assert not meant or not find_zone_mistakes(meant)


@pytest.mark.parametrize("name", ["UTC", "Asia/Karachi", "Etc/GMT-5", "America/Argentina/Ushuaia"])
def test_names_of_the_database_are_right(name: str):
    assert find_zone_mistakes(name) == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/localtime", "", "Asia", "x" * 5_000])
def test_a_path_is_no_zone(name: str):
    (mistake,) = find_zone_mistakes(name)
    assert len(str(mistake)) < 200
    suggest_zone(name)
