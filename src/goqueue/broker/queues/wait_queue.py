"""Consumers that wait for messages: woken one at a time, in the order they came.

Whatever may bring a message notifies: a partition that has more to read, a message that comes back,
a key that is free.  A notification wakes one consumer; a consumer that leaves something, or cannot
take it, wakes the next (`notify_next`).  So a message costs one wake-up, however many wait.
"""

import asyncio
from collections.abc import Iterable

from goqueue.broker.storage.partition import Partition


class WaitQueue:
    """For the consumers of one group that wait for the same topics."""

    def __init__(self) -> None:
        self.notifications = 0
        self.users = 0
        self._waiters: dict[asyncio.Future[None], int] = {}  # to the last notification it knows of
        self._partitions: set[Partition] = set()

    # --- notifying -------------------------------------------------------------------------------

    def attach(self, partitions: Iterable[Partition]) -> None:
        """Notify when one of these has more to read."""
        for partition in partitions:
            if partition not in self._partitions:
                self._partitions.add(partition)
                partition.subscribe(self)  # asks for a sync too, if one is missing

    def detach(self) -> None:
        for partition in self._partitions:
            partition.unsubscribe(self)
        self._partitions.clear()

    def wake(self) -> None:
        """A partition has more to read."""
        self.notify_one()

    def notify_one(self) -> None:
        self.notifications += 1
        self.notify_next()

    def notify_all(self) -> None:
        self.notifications += 1
        for future in self._waiters:
            if not future.done():
                future.set_result(None)

    def notify_next(self) -> None:
        """Wake the next consumer that has not looked since the last notification."""
        for future, seen in self._waiters.items():
            if seen < self.notifications and not future.done():
                future.set_result(None)
                return

    # --- waiting ----------------------------------------------------------------------------------

    async def wait_after(self, seen: int, seconds: float) -> None:
        """Return after a notification later than number `seen`, or when the time is over."""
        if self.notifications != seen or seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiters[future] = seen
        time_is_up = loop.call_later(seconds, _end_wait, future)
        try:
            await future
        except BaseException:
            del self._waiters[future]
            if future.done() and not future.cancelled():
                self.notify_next()  # who goes away just when it is woken lets the next one know
            raise
        finally:
            time_is_up.cancel()
            self._waiters.pop(future, None)


def _end_wait(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
