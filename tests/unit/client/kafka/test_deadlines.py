"""How long to go on, with a clock that a test moves."""

import pytest

from goqueue.client.kafka import deadlines
from goqueue.client.kafka.deadlines import DELAY_S_MAX, FIRST_DELAY_S, Backoff, Deadline


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Randomness:
    """The longest wait that the jitter allows, or the shortest."""

    def __init__(self, *, is_short: bool = False) -> None:
        self._is_short = is_short

    def uniform(self, low: float, high: float) -> float:
        return low if self._is_short else high


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(deadlines, "time", clock)
    monkeypatch.setattr(deadlines, "random", Randomness())
    return clock


def test_what_remains_is_never_less_than_nothing(clock: Clock):
    deadline = Deadline(2.0)
    clock.now += 0.5
    assert (deadline.seconds, deadline.remaining_s) == (2.0, 1.5)
    clock.now += 5
    assert deadline.remaining_s == 0.0


def test_waits_double_up_to_a_bound(clock: Clock):
    backoff = Backoff(Deadline(60))
    assert all(backoff.wait() for _ in range(8))
    expected = [min(FIRST_DELAY_S * 2**times, DELAY_S_MAX) for times in range(8)]
    assert clock.slept == pytest.approx(expected)


def test_no_wait_passes_the_deadline(clock: Clock):
    backoff = Backoff(Deadline(2 * FIRST_DELAY_S))
    assert backoff.wait()
    assert not backoff.wait()
    assert clock.slept == [FIRST_DELAY_S]


def test_a_wait_that_would_end_at_the_deadline_is_not_begun(clock: Clock):
    clock.now = 0.0
    assert not Backoff(Deadline(FIRST_DELAY_S)).wait()


def test_jitter_makes_a_wait_shorter_by_half_at_most(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(deadlines, "random", Randomness(is_short=True))
    assert Backoff(Deadline(60)).wait()
    assert clock.slept == [FIRST_DELAY_S / 2]
