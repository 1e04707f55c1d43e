"""How long to go on: every wait of the client ends at a deadline."""

import random
import time
from typing import Final

FIRST_DELAY_S: Final = 0.05
DELAY_S_MAX: Final = 2.0


class Deadline:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._at - time.monotonic())


class Backoff:
    """Waits between tries, each twice the last, with jitter, and none past the deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._delay_s = FIRST_DELAY_S

    def wait(self) -> bool:
        """False, at once, when no time is left for another try."""
        delay_s = self._delay_s * random.uniform(0.5, 1.0)
        if delay_s >= self._deadline.remaining_s:
            return False
        time.sleep(delay_s)
        self._delay_s = min(self._delay_s * 2, DELAY_S_MAX)
        return True
