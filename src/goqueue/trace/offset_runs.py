"""When ranges of offsets were published, or delivered: kept in bounded memory.

A run is a range of offsets with two moments: when it began and when it was done.  Runs are in the
order of their offsets.  When there are too many, neighbours of the older half become one run, with
the moments of the first of them: what is near is exact, what is far is coarse, and a backlog of any
length has a time for each of its messages.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

RUNS_MAX: Final = 512
LOOK_BACK_MAX: Final = 16  # runs that overlap, as those of redeliveries do


class Run(NamedTuple):
    first: int
    last: int
    begun_us: int
    done_us: int


class OffsetRuns:
    __slots__ = ("_begun", "_done", "_first", "_last", "_runs_max")

    def __init__(self, runs_max: int = RUNS_MAX) -> None:
        self._runs_max = runs_max
        self._first = array("q")
        self._last = array("q")
        self._begun = array("q")
        self._done = array("q")

    def __len__(self) -> int:
        return len(self._first)

    @property
    def next_offset(self) -> int:
        """After the run that begins last; 0 without any."""
        return self._last[-1] + 1 if self._last else 0

    def add(self, run: Run) -> None:
        """One that begins where another does replaces it."""
        at = bisect_left(self._first, run.first)
        if at < len(self._first) and self._first[at] == run.first:
            self._remove(at)
        for column, value in zip(self._columns(), run, strict=True):
            column.insert(at, value)
        if len(self._first) > self._runs_max:
            self._thin()

    def find(self, first: int, last: int) -> Iterator[Run]:
        """What is known of these offsets: parts of runs."""
        at = bisect_right(self._first, first) - 1
        start = max(0, at - LOOK_BACK_MAX)
        while at > start and self._last[at] < first:
            at -= 1
        for place in range(max(0, at), bisect_right(self._first, last)):
            low, high = max(first, self._first[place]), min(last, self._last[place])
            if low <= high:
                yield Run(low, high, self._begun[place], self._done[place])

    def cut(self, first: int, last: int) -> None:
        """Forget these offsets; one in the middle of a run stays a part of it."""
        at = max(0, bisect_right(self._first, first) - 1)
        while at < len(self._first) and self._first[at] <= last:
            if first <= self._first[at] and self._last[at] <= last:
                self._remove(at)
                continue
            if first <= self._first[at]:
                self._first[at] = last + 1
            elif first <= self._last[at] <= last:
                self._last[at] = first - 1
            at += 1

    def _columns(self) -> tuple["array[int]", ...]:
        return self._first, self._last, self._begun, self._done

    def _remove(self, at: int) -> None:
        for column in self._columns():
            del column[at]

    def _thin(self) -> None:
        half = len(self._first) // 4 * 2
        for at in range(0, half, 2):
            self._last[at] = max(self._last[at], self._last[at + 1])
        for column in self._columns():
            del column[1:half:2]
