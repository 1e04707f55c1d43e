"""Consumers that wait for messages: woken one at a time, in the order they came.

Whatever may bring a message rings: a partition that has more to read, a message that comes back, a
key that is free.  A ring wakes one consumer; one that got something wakes the next (`pass_on`), for
there may be more.  So a message costs one wake-up, however many consumers wait.
"""

import asyncio
from collections.abc import Iterable

from goqueue.broker.partition import Partition, Waiter


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
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked[future] = seen
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            self._leave(future)
        except BaseException:
            self._leave(future)
            raise
        finally:
            self._parked.pop(future, None)

    def _leave(self, future: asyncio.Future[None]) -> None:
        """Whoever goes away just when it is woken lets the next one know."""
        del self._parked[future]
        if future.done() and not future.cancelled():
            self.pass_on()
