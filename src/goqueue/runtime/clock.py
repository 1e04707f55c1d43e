"""The real clock."""

import asyncio
import time

from goqueue.model.ids import Instant, Timestamp


class RealClock:
    def now(self) -> Timestamp:
        return Timestamp(time.time_ns() // 1_000_000)

    def instant(self) -> Instant:
        return Instant(time.monotonic_ns())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
