"""A caller that waits for something new: subscribe, try, wait, try again, unsubscribe.

    with LongPoll(clock, wait_ms) as poll:
        poll.subscribe(partitions)
        while not (found := await look()) and await poll.wait():
            pass

Partitions wake it when they have more to read; whoever else has news may do so, too.  It ends at
its deadline, or when its owner says so: the client has gone, the server stops.  The polls of queue
consumers are not subscribed themselves: a queue is for them, and wakes one at a time
(`broker/queues/wait_queue.py`).
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, Protocol

from goqueue.runtime import Clock

_FOREVER: Final = float("inf")


class Subscribable(Protocol):
    """What wakes those who wait for it, such as a partition."""

    def subscribe(self, reader: Any, /) -> None: ...

    def unsubscribe(self, reader: Any, /) -> None: ...


class LongPoll:
    def __init__(self, clock: Clock, wait_ms: int | None) -> None:
        """With None there is no deadline."""
        self._clock = clock
        self._deadline = None if wait_ms is None else clock.instant() + wait_ms * 1_000_000
        self._partitions: dict[Subscribable, None] = {}
        self._woken: asyncio.Future[None] | None = None
        self.has_news = False  # since it was last waited for
        self.is_ended = False  # its owner said so; not merely that the time is over

    def __enter__(self) -> "LongPoll":
        return self

    def __exit__(self, *_: object) -> None:
        self.subscribe(())

    def subscribe(self, partitions: Iterable[Subscribable]) -> None:
        """To these, and to no others any more."""
        wanted = dict.fromkeys(partitions)
        for partition in self._partitions:
            if partition not in wanted:
                partition.unsubscribe(self)
        for partition in wanted:
            if partition not in self._partitions:
                partition.subscribe(self)
        self._partitions = wanted

    def wake(self) -> None:
        self.has_news = True
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def end(self) -> None:
        """Nobody waits any more."""
        self.is_ended = True
        self.wake()

    async def wait(self, seconds_max: float = _FOREVER) -> bool:
        """True when it is time to look: for news, or since `seconds_max` are over; False when the
        poll is over."""
        left = self._seconds_left()
        if self.is_ended or left <= 0:
            return False
        is_woken = self.has_news or await self._sleep(min(left, seconds_max))
        self.has_news = False
        return (is_woken or seconds_max < left) and not self.is_ended

    def _seconds_left(self) -> float:
        if self._deadline is None:
            return _FOREVER
        return (self._deadline - self._clock.instant()) / 1e9

    async def _sleep(self, seconds: float) -> bool:
        """Whether it was woken before the time was over."""
        loop = asyncio.get_running_loop()
        woken = self._woken = loop.create_future()
        timer = None if seconds == _FOREVER else loop.call_later(seconds, _end_sleep, woken)
        try:
            await woken
        finally:
            self._woken = None
            if timer is not None:
                timer.cancel()
        return self.has_news


def _end_sleep(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
