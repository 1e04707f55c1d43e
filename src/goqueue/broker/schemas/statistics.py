"""How many records were checked, with what result, and how long that took."""

from bisect import bisect_left
from collections import Counter
from typing import Final

VALIDATION_SECONDS: Final = (
    *(0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 1.0),
)
TOPICS_COUNTED_MAX: Final = 500


class ValidationTimes:
    """A histogram: how long batches took, waiting for schemas and for other work left out."""

    def __init__(self) -> None:
        self.counts = [0] * (len(VALIDATION_SECONDS) + 1)
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(VALIDATION_SECONDS, seconds)] += 1
        self.seconds += seconds


class ValidationCounts:
    def __init__(self) -> None:
        self.valid: Counter[str] = Counter()  # records by topic
        self.invalid: Counter[str] = Counter()
        self.times = {"id": ValidationTimes(), "full": ValidationTimes()}

    def note(
        self, topic: str, *, records: int, invalid: int, is_full: bool, seconds: float
    ) -> None:
        """A batch was checked.  Topics beyond a bound are counted under no name."""
        if topic not in self.valid and len(self.valid) >= TOPICS_COUNTED_MAX:
            topic = ""
        self.valid[topic] += records - invalid
        self.invalid[topic] += invalid
        self.times["full" if is_full else "id"].observe(seconds)
