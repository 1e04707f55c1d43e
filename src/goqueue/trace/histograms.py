"""Histograms of what takes time, for many messages at once, with an example for each bucket."""

from bisect import bisect_left
from typing import Final, NamedTuple

from goqueue.trace.events import Place

BOUNDS_SECONDS: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0),
)
_BOUNDS_US: Final = tuple(round(bound * 1e6) for bound in BOUNDS_SECONDS)

Key = tuple[str, ...]


class Example(NamedTuple):
    """A message of a bucket: its journey tells why it took that long."""

    trace_id: str  # its own; empty: that which its place gives
    place: Place
    seconds: float
    at_us: int


class Histogram:
    __slots__ = ("counts", "examples", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_SECONDS) + 1)  # of each bucket, not of all below
        self.examples: list[Example | None] = [None] * len(self.counts)
        self.seconds = 0.0

    def observe(self, took_us: int, count: int, at_us: int, place: Place, trace_id: str) -> None:
        """`count` messages took that long, one of them is at `place`."""
        took_us = max(0, took_us)  # clocks of nodes differ
        bucket = bisect_left(_BOUNDS_US, took_us)
        self.counts[bucket] += count
        self.seconds += took_us * count / 1e6
        self.examples[bucket] = Example(trace_id, place, took_us / 1e6, at_us)


class HistogramTable:
    """A histogram for each of a bounded number of keys; all others share one."""

    def __init__(self, others: Key, size_max: int) -> None:
        self._others = others
        self._size_max = size_max
        self.table: dict[Key, Histogram] = {}

    def of(self, key: Key) -> Histogram:
        found = self.table.get(key)
        if found is None:
            if len(self.table) >= self._size_max:
                key = self._others
            found = self.table.setdefault(key, Histogram())
        return found

    def forget_topics(self, topics: set[str]) -> None:
        """Those that are deleted: a key begins with the topic."""
        for key in [each for each in self.table if each[0] in topics]:
            del self.table[key]
