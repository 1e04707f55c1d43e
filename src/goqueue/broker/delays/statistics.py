"""How many delayed messages wait, were delivered, and how late."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.delay import Entry

LATENESS_SECONDS: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    5.0,
    60.0,
)


class Lateness:
    """A histogram: how long after its time a message was committed."""

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENESS_SECONDS) + 1)
        self.seconds = 0.0

    def observe(self, entries: Sequence[Entry], now: int) -> None:
        for due, _ in entries:
            late = max(0, now - due) / 1000
            self.counts[bisect_left(LATENESS_SECONDS, late)] += 1
            self.seconds += late

    @property
    def count(self) -> int:
        return sum(self.counts)


class DelayCounts(msgspec.Struct, frozen=True):
    """Of a topic, or of all; what each node knows of the partitions that it leads."""

    pending: int = 0
    scheduled: int = 0
    delivered: int = 0
    cancelled: int = 0
    expired: int = 0

    def plus(self, other: "DelayCounts") -> "DelayCounts":
        return DelayCounts(
            self.pending + other.pending,
            self.scheduled + other.scheduled,
            self.delivered + other.delivered,
            self.cancelled + other.cancelled,
            self.expired + other.expired,
        )
