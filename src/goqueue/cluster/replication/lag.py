"""Which followers are too far behind, or too slow, to wait for.

A follower *lags* when it has not acknowledged what was there `lag_ms` ago.  It is *slow* when it
keeps up, and everybody waits for it: its acks take much longer than those of the others.  A slow
one comes back after it has been calm for a while, and for a longer one each time.
"""

from collections import deque
from collections.abc import Collection
from typing import Final

import msgspec

from goqueue.model.ids import Instant

MS: Final = 1_000_000  # nanoseconds
SAMPLES_MAX: Final = 256
SAMPLES_MIN: Final = 3  # where little is written, one slow ack would be the median


class LagLimits(msgspec.Struct, frozen=True, kw_only=True):
    lag_ms: int = 3_000  # `replica.lag.max.ms`
    slow_ack_ms: int = 100
    slow_ratio: float = 5.0  # to the median of the others
    calm_ack_ms: int = 50
    calm_ratio: float = 2.0
    window_ms: int = 3_000  # of acks that are looked at
    slow_for_ms: int = 2_000  # at every look for so long: one slow ack says nothing
    hold_ms: int = 30_000  # calm for so long before it may return; doubles
    hold_ms_max: int = 600_000


class AckTimes:
    """How long the last acks took: from bytes sent, or written, to bytes synced."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[tuple[Instant, int]] = deque(maxlen=SAMPLES_MAX)

    def add(self, now: Instant, took_ns: int) -> None:
        self._samples.append((now, took_ns))

    def median_ms(self, now: Instant, window_ms: int) -> float | None:
        """None when there were too few acks in the window to judge by."""
        samples = self._samples
        while samples and now - samples[0][0] > window_ms * MS:
            samples.popleft()
        if len(samples) < SAMPLES_MIN:
            return None
        return median_of([took / MS for _, took in samples])


def median_of(values: Collection[float]) -> float | None:
    """The lower one of two in the middle; None of nothing."""
    return sorted(values)[(len(values) - 1) // 2] if values else None


def upper_median_of(values: Collection[float]) -> float | None:
    """The higher one of two in the middle; None of nothing."""
    return sorted(values)[len(values) // 2] if values else None


def is_slow(median_ms: float | None, others_ms: float | None, limits: LagLimits) -> bool:
    if median_ms is None or others_ms is None:
        return False
    return median_ms > limits.slow_ack_ms and median_ms > limits.slow_ratio * others_ms


def is_calm(median_ms: float | None, others_ms: float | None, limits: LagLimits) -> bool:
    """Without acks to go by it may try again; the next hold is longer."""
    if median_ms is None or others_ms is None:
        return True
    return median_ms < limits.calm_ack_ms or median_ms < limits.calm_ratio * others_ms


class SlowHold:
    """How long a replica that was left out for its slowness stays out."""

    __slots__ = ("_calm_since", "_times", "_until_forgotten")

    def __init__(self) -> None:
        self._times = 0  # it was left out
        self._calm_since: Instant | None = None
        self._until_forgotten: Instant | None = None

    @property
    def is_held(self) -> bool:
        return self._times > 0 and self._until_forgotten is None

    def begin(self, now: Instant, limits: LagLimits) -> None:
        if self._until_forgotten is not None and now >= self._until_forgotten:
            self._times = 0
        self._times += 1
        self._calm_since = None
        self._until_forgotten = None

    def look(self, now: Instant, limits: LagLimits, *, calm: bool) -> bool:
        """Whether it may come back now."""
        if self._times == 0 or self._until_forgotten is not None:
            return True
        if not calm:
            self._calm_since = None
            return False
        if self._calm_since is None:
            self._calm_since = now
        if now - self._calm_since < self._hold_ms(limits) * MS:
            return False
        self._until_forgotten = Instant(now + limits.hold_ms_max * MS)
        return True

    def _hold_ms(self, limits: LagLimits) -> int:
        doublings = min(self._times - 1, 30)
        return min(limits.hold_ms << doublings, limits.hold_ms_max)
