"""Which schedules are due, by the time: a heap, so that nobody looks at those that are not.

Each has one time at most.  What is set anew stays in the heap until it comes up; when most of the
heap is such, it is built again.
"""

import heapq
from collections.abc import Iterator
from typing import Final

from goqueue.model.ids import Timestamp

STALE_MIN: Final = 1_000  # that are worth building it again


class DueQueue:
    def __init__(self) -> None:
        self._times: dict[str, Timestamp] = {}
        self._heap: list[tuple[Timestamp, str]] = []

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[str]:
        return iter(self._times)

    def set(self, name: str, at: Timestamp | None) -> None:
        """Due then, and not at another time; None: never."""
        if at is None:
            self._times.pop(name, None)
        elif self._times.get(name) != at:
            self._times[name] = at
            heapq.heappush(self._heap, (at, name))
        if len(self._heap) > 2 * len(self._times) + STALE_MIN:
            self._heap = [(at, name) for name, at in self._times.items()]
            heapq.heapify(self._heap)

    @property
    def next_at(self) -> Timestamp | None:
        heap, times = self._heap, self._times
        while heap and times.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def take(self, now: Timestamp, count: int) -> list[str]:
        """So many that are due, the longest due first; they are not in it any more."""
        found: list[str] = []
        while len(found) < count and (at := self.next_at) is not None and at <= now:
            name = heapq.heappop(self._heap)[1]
            del self._times[name]
            found.append(name)
        return found
