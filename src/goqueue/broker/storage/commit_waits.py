"""Those who wait until an offset of a partition is committed, some of them for a limited time.

There is no timer a wait: its owner looks several times a second at what is overdue.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset

FIRST: Final = Offset(0)

_Wait = tuple[Offset, asyncio.Future[None], float]  # until when, by the loop's time


class CommitWaits:
    def __init__(self) -> None:
        self._waits: list[_Wait] = []

    def __bool__(self) -> bool:
        return bool(self._waits)

    def add(self, offset: Offset, future: asyncio.Future[None], deadline: float) -> None:
        self._waits.append((offset, future, deadline))

    def release(self, watermark: Offset) -> None:
        """Those who wait for an offset below it have it."""
        waiting, self._waits = self._waits, []
        for wait in waiting:
            wanted, future, _ = wait
            if wanted >= watermark:
                self._waits.append(wait)
            elif not future.done():
                future.set_result(None)

    def refuse(self, error: Callable[[], GoQueueError], start: Offset = FIRST) -> None:
        """Those who wait for an offset from `start` on: it does not come about here."""
        waiting, self._waits = self._waits, []
        for wait in waiting:
            wanted, future, _ = wait
            if wanted < start:
                self._waits.append(wait)
            elif not future.done():
                future.set_exception(error())
                future.exception()  # there may be no waiter

    def keep_until(self, latest: float, error: Callable[[], GoQueueError]) -> None:
        """Let those with a time-out wait, not longer than that; refuse the others."""
        waiting, self._waits = self._waits, []
        kept = [(each[0], each[1], min(each[2], latest)) for each in waiting if each[2] < math.inf]
        self._waits = [each for each in waiting if each[2] == math.inf]
        self.refuse(error)
        self._waits = kept

    def end_overdue(self, now: float, error: Callable[[Offset], GoQueueError]) -> bool:
        """Fail those whose time is over; whether there are others that have a time-out."""
        waiting, self._waits = self._waits, []
        for wait in waiting:
            offset, future, deadline = wait
            if future.done():  # whoever waited is gone
                continue
            if deadline > now:
                self._waits.append(wait)
            else:
                future.set_exception(error(offset))
        return any(deadline < math.inf for _, _, deadline in self._waits)
