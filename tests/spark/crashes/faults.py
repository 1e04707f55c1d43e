"""Where things go wrong: named points that a request passes, and what happens there.

    attempt            a task asks for its producer
    write              a task sends its rows: a Produce request
    read               a task asks for rows: a Fetch request
    look               a source looks how far its topics go: a ListOffsets request
    decision:before    the driver's decision is on its way, and does not arrive
    decision:middle    it has been handed to the broker, and nobody waits for the answer
    decision:after     the broker has answered, and the driver never hears of it

A fault is armed for one passage of one point.  It fires once.
"""

import threading
from collections import Counter
from collections.abc import Callable

import msgspec


class Fault(msgspec.Struct, frozen=True):
    point: str
    passage: int
    """The first time that the point is passed is number 1, counted from the arming."""
    strike: Callable[[], None]


class Faults:
    """Shared by all proxies; any of their threads may come by."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: Fault | None = None
        self._passages: Counter[str] = Counter()
        self.fired = threading.Event()

    def arm(self, point: str, strike: Callable[[], None], *, passage: int = 1) -> None:
        with self._lock:
            self._armed = Fault(point, passage, strike)
            self._passages.clear()
            self.fired.clear()

    def disarm(self) -> None:
        with self._lock:
            self._armed = None

    def passed(self, point: str) -> bool:
        """Strike if it is time for it; True when it was, and the request must go no further."""
        with self._lock:
            self._passages[point] += 1
            fault = self._armed
            if fault is None or (fault.point, fault.passage) != (point, self._passages[point]):
                return False
            self._armed = None
        fault.strike()
        self.fired.set()
        return True
