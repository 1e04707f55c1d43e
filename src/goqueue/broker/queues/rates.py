"""How fast each lane fills and empties: measured every second, smoothed over about ten."""

import math
from collections.abc import Sequence
from typing import Final

from goqueue.queue.lanes import LANES

SMOOTH_SECONDS: Final = 10.0


class Rates:
    def __init__(self) -> None:
        self.a_second = [0.0] * LANES
        self._counts: list[int] | None = None
        self._at = 0  # instant

    def observe(self, counts: Sequence[int], now: int) -> None:
        """`counts` have grown to this by now."""
        seconds = (now - self._at) / 1e9
        if self._counts is not None and seconds > 0:
            weight = 1 - math.exp(-seconds / SMOOTH_SECONDS)
            for lane, (count, before) in enumerate(zip(counts, self._counts, strict=True)):
                current = (count - before) / seconds
                self.a_second[lane] += weight * (current - self.a_second[lane])
        self._counts, self._at = list(counts), now

    def begin(self, counts: Sequence[int], now: int) -> None:
        """Count from here on; what was before is not known, or was not now."""
        self._counts, self._at = list(counts), now
