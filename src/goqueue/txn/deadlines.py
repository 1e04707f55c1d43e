"""When open transactions run out of time."""

import heapq
from collections.abc import Callable
from typing import Final

from goqueue.model.ids import Timestamp

ENTRIES_MIN: Final = 1000  # below that it is not worth looking for those that are out of date

IsCurrent = Callable[[int, str], bool]  # whether (deadline, transactional id) still stands


class Deadlines:
    """A heap whose entries may be out of date.

    Those are dropped when they come to the top, or when they may be half of it.
    """

    def __init__(self, is_current: IsCurrent) -> None:
        self._is_current = is_current
        self._heap: list[tuple[int, str]] = []
        self._entries_max = ENTRIES_MIN

    def add(self, deadline: Timestamp, transactional_id: str) -> None:
        heapq.heappush(self._heap, (deadline, transactional_id))
        if len(self._heap) > self._entries_max:
            self._heap = [entry for entry in self._heap if self._is_current(*entry)]
            heapq.heapify(self._heap)
            self._entries_max = max(ENTRIES_MIN, 2 * len(self._heap))

    def soonest(self) -> Timestamp | None:
        while self._heap and not self._is_current(*self._heap[0]):
            heapq.heappop(self._heap)
        return Timestamp(self._heap[0][0]) if self._heap else None

    def find_due(self, now: Timestamp) -> list[str]:
        """Whose time is up.  They stay: what is decided about them may not get written."""
        found: list[tuple[int, str]] = []
        while (soonest := self.soonest()) is not None and soonest <= now:
            found.append(heapq.heappop(self._heap))
        for entry in found:
            heapq.heappush(self._heap, entry)
        return list(dict.fromkeys(transactional_id for _, transactional_id in found))
