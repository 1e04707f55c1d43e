"""One grammar of durations, wherever they are written."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.durations import DURATION_MS_MAX, UNIT_MS, parse_duration_ms

UNITS = {**UNIT_MS, **{f"{unit}s": ms for unit, ms in UNIT_MS.items() if len(unit) > 2}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("1m30s", 90_000),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("7d", 604_800_000),
        ("2w", 1_209_600_000),
        ("10 seconds", 10_000),
        ("1 minute", 60_000),
        ("1 hour 30 minutes", 5_400_000),
        (" 15 m ", 900_000),
        ("0s", 0),
        ("30000", 30_000),
        (str(DURATION_MS_MAX), DURATION_MS_MAX),
    ],
)
def test_a_duration_is_milliseconds(text: str, expected: int):
    assert parse_duration_ms(text) == expected


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
    ).filter(bool)
)
def test_the_parts_of_a_duration_add_up(parts: list[tuple[int, str, str]]):
    text = "".join(f"{number}{space}{unit}{space}" for number, unit, space in parts)
    assert parse_duration_ms(text) == sum(number * UNITS[unit] for number, unit, _ in parts)


@given(st.integers(0, 10**9), st.integers(0, 999))
def test_a_fraction_is_rounded_to_milliseconds(seconds: int, milliseconds: int):
    assert parse_duration_ms(f"{seconds}.{milliseconds:03}s") == seconds * 1000 + milliseconds


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_refused(text: str):
    with contextlib.suppress(ValueError):
        assert 0 <= parse_duration_ms(text) <= DURATION_MS_MAX


@pytest.mark.parametrize(
    "text",
    ["", " ", "soon", "s", "10 parsecs", "-5s", "1.5", "1y", "30S", "1 2", "٣s", "1e3s", "5ss"],
)
def test_what_is_no_duration_is_refused_with_examples(text: str):
    with pytest.raises(ValueError, match="write 500ms, 30s, 1m30s, 7d, 10 seconds, or a number of"):
        parse_duration_ms(text)


def test_a_plain_number_has_the_unit_of_its_field():
    assert parse_duration_ms("30") == 30
    assert parse_duration_ms("30", plain="s") == 30_000
    assert parse_duration_ms("30ms", plain="s") == 30
    with pytest.raises(ValueError, match=r"10 seconds$"):
        parse_duration_ms("30", plain=None)


@pytest.mark.parametrize("text", ["9" * 19, "999999999999w", f"{DURATION_MS_MAX}ms"])
def test_a_duration_beyond_64_bits_is_refused(text: str):
    with pytest.raises(ValueError, match=r"is more than|is not a duration"):
        parse_duration_ms(text)
