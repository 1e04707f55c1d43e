"""Deadlines of many things, kept so that moving one later costs a dictionary write.

A heap holds at most about one entry a key.  `set` to a later time touches only the dictionary;
when the heap's old entry comes up, it is put back at its true time.  So ten thousand members that
heartbeat every three seconds cost ten thousand dictionary writes, and one heap step each per
session time-out.  Nothing here is durable: a restart gives every member a whole new session.
"""

import enum
import heapq
from typing import NamedTuple

from goqueue.model.ids import GroupId, Timestamp


class TimerKind(enum.IntEnum):
    SESSION = 0  # a member was silent
    PENDING = 1  # a member id was given and not used
    REVOCATION = 2  # a member does not give partitions up
    JOIN = 3  # a classic group's join phase
    SYNC = 4  # members that joined and do not sync
    OFFSETS = 5  # look for offsets to expire
    TARGET = 6  # a consumer group's new target was put off
    SHARE_SESSION = 7  # a member of a share group was silent


class Timer(NamedTuple):
    kind: TimerKind
    group_id: GroupId
    member_id: str = ""


class Timers:
    def __init__(self) -> None:
        self._due: dict[Timer, Timestamp] = {}
        # invariant: each timer in _due has an entry here that is at or before its due time
        self._heap: list[tuple[Timestamp, Timer]] = []

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, timer: Timer) -> bool:
        return timer in self._due

    def set(self, timer: Timer, due: Timestamp) -> None:
        """Set or move; earlier moves cost a heap push, later ones do not."""
        before = self._due.get(timer)
        self._due[timer] = due
        if before is None or due < before:
            heapq.heappush(self._heap, (due, timer))

    def clear(self, timer: Timer) -> None:
        self._due.pop(timer, None)

    def next_due(self) -> Timestamp | None:
        self._settle()
        return self._heap[0][0] if self._heap else None

    def take_due(self, now: Timestamp) -> list[Timer]:
        """Remove and return all that are due, in order of time."""
        taken = []
        while (due := self.next_due()) is not None and due <= now:
            timer = heapq.heappop(self._heap)[1]
            del self._due[timer]
            taken.append(timer)
        return taken

    def _settle(self) -> None:
        """Make the heap's top true: drop what was cleared, put back what was moved later."""
        while self._heap:
            noted, timer = self._heap[0]
            due = self._due.get(timer)
            if due == noted:
                return
            if due is None or due < noted:  # cleared, or an earlier entry stands elsewhere
                heapq.heappop(self._heap)
            else:
                heapq.heapreplace(self._heap, (due, timer))
