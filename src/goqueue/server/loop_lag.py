"""How long the event loop keeps others waiting: a timer that looks how late it is."""

import asyncio
from typing import Final

from prometheus_client import CollectorRegistry, Histogram

INTERVAL_SECONDS: Final = 0.1
BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class LoopLag:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "goqueue_event_loop_lag_seconds",
            "How late a timer of the event loop was; ten times a second.",
            buckets=BUCKETS,
            registry=registry,
        )

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + INTERVAL_SECONDS
            await asyncio.sleep(INTERVAL_SECONDS)
            self._seconds.observe(max(0.0, loop.time() - due))
