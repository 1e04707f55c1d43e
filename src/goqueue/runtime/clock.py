"""The real clock."""

import asyncio
import time

from goqueue.model.ids import Instant, Timestamp
from goqueue.runtime.steady import SteadyTime


class RealClock:
    def __init__(self) -> None:
        self._steady = SteadyTime(self.now(), self.instant())

    def now(self) -> Timestamp:
        return Timestamp(time.time_ns() // 1_000_000)

    def instant(self) -> Instant:
        return Instant(time.monotonic_ns())

    def steady(self) -> Timestamp:
        now, instant = time.time_ns() // 1_000_000, time.monotonic_ns()
        return self._steady.read(Timestamp(now), Instant(instant))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
