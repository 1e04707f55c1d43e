"""Consumers that wait for messages: woken one at a time, in the order they came.

Whatever may bring a message rings: a partition that has more to read, a message that comes back, a
key that is free.  A ring wakes one consumer; one that leaves something, or cannot take it, wakes
the next (`pass_on`).  So a message costs one wake-up, however many consumers wait.
"""

import asyncio
from collections.abc import Iterable

from goqueue.broker.storage.partition import Partition, Waiter


class Bell(Waiter):
    """For the consumers of one group that wait for the same topics."""

    def __init__(self) -> None:
        super().__init__()
        self.rings = 0
        self.users = 0
        self._parked: dict[asyncio.Future[None], int] = {}  # to the last ring it knows of
        self._partitions: set[Partition] = set()

    # --- who may ring -----------------------------------------------------------------------------

    def hang(self, partitions: Iterable[Partition]) -> None:
        """Ring when one of these has more to read."""
        for partition in partitions:
            if partition not in self._partitions:
                self._partitions.add(partition)
                partition.subscribe(self)  # asks for a sync too, if one is missing

    def take_down(self) -> None:
        for partition in self._partitions:
            partition.unsubscribe(self)
        self._partitions.clear()

    def wake(self) -> None:
        """A partition rings."""
        self.ring()

    def ring(self) -> None:
        self.rings += 1
        self.pass_on()

    def ring_all(self) -> None:
        self.rings += 1
        for future in self._parked:
            if not future.done():
                future.set_result(None)

    def pass_on(self) -> None:
        """Wake the next one that has not looked since the last ring."""
        for future, seen in self._parked.items():
            if seen < self.rings and not future.done():
                future.set_result(None)
                return

    # --- who waits --------------------------------------------------------------------------------

    async def wait_for_ring(self, seen: int, seconds: float) -> None:
        """Return when it rings after the ring numbered `seen`, or the time is over."""
        if self.rings != seen or seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._parked[future] = seen
        time_is_up = loop.call_later(seconds, _end_wait, future)
        try:
            await future
        except BaseException:
            del self._parked[future]
            if future.done() and not future.cancelled():
                self.pass_on()  # who goes away just when it is woken lets the next one know
            raise
        finally:
            time_is_up.cancel()
            self._parked.pop(future, None)


def _end_wait(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
