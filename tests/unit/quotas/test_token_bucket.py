"""No more than the rate passes over time, and a batch of any size passes."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.ids import Instant
from goqueue.quotas import TokenBucket

SECOND = 1_000_000_000
START = Instant(7 * SECOND)


def test_a_batch_larger_than_a_second_passes_and_is_paid_for():
    bucket = TokenBucket(100, START)
    assert bucket.wait_ns(START) == 0
    wait = bucket.take(1_000, START)
    assert round(wait / SECOND, 3) == 9.0
    assert bucket.wait_ns(Instant(START + 8 * SECOND)) > 0
    assert bucket.wait_ns(Instant(START + wait)) == 0


def test_at_most_a_second_gathers():
    bucket = TokenBucket(100, START)
    later = Instant(START + 3600 * SECOND)
    assert bucket.take(100, later) == 0
    assert bucket.take(1, later) > 0


def test_another_rate_keeps_the_debt():
    bucket = TokenBucket(10, START)
    bucket.take(30, START)
    bucket.change_rate(20, START)
    assert round(bucket.wait_ns(START) / SECOND, 3) == 1.0
    rich = TokenBucket(1000, START)
    rich.change_rate(1, START)
    assert rich.take(2, START) > 0


def test_a_clock_that_goes_back_gives_nothing():
    bucket = TokenBucket(10, START)
    bucket.take(20, START)
    before = bucket.wait_ns(START)
    assert bucket.wait_ns(Instant(START - SECOND)) == before


@given(
    rate=st.floats(0.01, 1e6),
    asked=st.lists(st.tuples(st.integers(0, 5 * SECOND), st.floats(0, 1e6)), max_size=60),
)
def test_what_passes_is_bounded_by_the_rate(rate: float, asked: list[tuple[int, float]]):
    """A second's worth at first, the rate from then on, and one more that may be of any size."""
    bucket, now, passed, largest = TokenBucket(rate, START), START, 0.0, 0.0
    for pause, amount in asked:
        now = Instant(now + pause)
        if bucket.wait_ns(now):
            continue
        bucket.take(amount, now)
        passed, largest = passed + amount, max(largest, amount)
        seconds = (now - START) / SECOND
        assert passed <= rate * (seconds + 1) + largest + 1e-3 * max(1.0, passed)


@given(
    rate=st.floats(0.1, 1e6),
    amounts=st.lists(st.floats(0.1, 1e6), min_size=1, max_size=30),
)
def test_who_waits_as_told_always_gets_on(rate: float, amounts: list[float]):
    bucket, now = TokenBucket(rate, START), START
    for amount in amounts:
        assert bucket.wait_ns(now) == 0
        now = Instant(now + bucket.take(amount, now))
    least = (sum(amounts) - rate) / rate
    assert (now - START) / SECOND >= least * 0.999 - 0.001
