"""A wall clock that nobody can set."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.ids import Instant, Timestamp
from goqueue.runtime import RealClock
from goqueue.runtime.steady import SLEW, SteadyTime

WALL = Timestamp(1_750_000_000_000)
SECOND = 1_000_000_000
STEPS = st.lists(
    st.tuples(
        st.integers(1, 600 * SECOND),  # monotonic nanoseconds that pass
        st.one_of(st.just(0), st.integers(-(10**12), 10**12)),  # the wall clock is set by that
    ),
    min_size=1,
    max_size=20,
)


@given(STEPS)
def test_it_runs_as_the_monotonic_clock_does_whatever_the_wall_clock_says(steps):
    steady = SteadyTime(WALL, Instant(7))
    wall_ns, instant, before = WALL * 10**6, 7, int(WALL)
    for elapsed, jump in steps:
        instant += elapsed
        wall_ns += elapsed + jump * 10**6
        now = steady.read(Timestamp(wall_ns // 10**6), Instant(instant))
        passed = (now - before) * 10**6
        slack = elapsed / SLEW + 3 * 10**6  # and what rounding to milliseconds makes
        assert abs(passed - elapsed) <= slack
        assert now >= before
        before = now


def test_it_is_the_wall_clock_as_long_as_nobody_sets_that():
    steady = SteadyTime(WALL, Instant(0))
    for milliseconds in range(0, 10_000, 37):
        now = Timestamp(WALL + milliseconds)
        assert steady.read(now, Instant(milliseconds * 10**6 + 499_999)) == now


def test_it_catches_up_in_the_end():
    steady = SteadyTime(WALL, Instant(0))
    wall = now = WALL
    for second in range(1, 1_001):
        wall = Timestamp(WALL + 10_000 + second * 1_000)  # ten seconds were slept through
        now = steady.read(wall, Instant(second * SECOND))
    assert now == wall


def test_the_real_one_begins_with_the_wall_clock():
    clock = RealClock()
    assert abs(clock.steady() - clock.now()) < 1_000
    assert clock.steady() <= clock.steady()
