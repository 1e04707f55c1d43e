"""A clock in simulated time, as wrong as real ones are.

Both of its hands follow the loop's time at the clock's own `rate`.  The wall clock can also be
set, forwards or back, which is what a time service does to a real one.
"""

import asyncio
from typing import Final

from goqueue.model.ids import Instant, Timestamp
from goqueue.runtime import SteadyTime
from goqueue.testing.sim.loop import SimLoop

EPOCH_MS: Final = 1_750_000_000_000  # the wall clock when the loop's time is 0


class SimClock:
    def __init__(
        self, loop: SimLoop, *, epoch_ms: int = EPOCH_MS, origin_ns: int = 0, drift_ppm: float = 0.0
    ) -> None:
        """`origin_ns` is what `instant` says at the loop's time 0: on no two hosts the same."""
        self._loop = loop
        self._epoch_ms = epoch_ms
        self._origin_ns = origin_ns
        self._rate = 1.0 + drift_ppm / 1e6
        self._elapsed = 0.0  # seconds on this clock when its rate was last set
        self._elapsed_at = 0.0  # the loop's time then
        self._steady: SteadyTime | None = None  # begins when it is first asked for

    def now(self) -> Timestamp:
        return Timestamp(self._epoch_ms + round(self._seconds() * 1e3))

    def instant(self) -> Instant:
        return Instant(self._origin_ns + round(self._seconds() * 1e9))

    def steady(self) -> Timestamp:
        if self._steady is None:
            self._steady = SteadyTime(self.now(), self.instant())
        return self._steady.read(self.now(), self.instant())

    def restart(self) -> None:
        """Another process begins: its steady time begins with the wall clock's."""
        self._steady = None

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._rate)

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock forwards, or back.  `instant` does not notice."""
        self._epoch_ms += milliseconds

    def drift(self, parts_per_million: float) -> None:
        """Run fast (positive) or slow from now on."""
        self._elapsed = self._seconds()
        self._elapsed_at = self._loop.time()
        self._rate = 1.0 + parts_per_million / 1e6

    def _seconds(self) -> float:
        return self._elapsed + (self._loop.time() - self._elapsed_at) * self._rate
