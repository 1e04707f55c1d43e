"""Long polls: waits that end when their client leaves or the server stops.

An ASGI server does not cancel a request whose client has gone; it says so to whoever listens.
So beside every wait a small task listens.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from litestar import Request

from goqueue.broker.long_poll import LongPoll
from goqueue.model.errors import GoQueueError
from goqueue.runtime import Clock
from goqueue.runtime.tasks import owned_tasks

T = TypeVar("T")
Receive = Callable[[], Awaitable[Any]]  # what an ASGI server tells of the request's client


class LongPolls:
    def __init__(self, clock: Clock, wait_ms_max: int) -> None:
        self._clock = clock
        self._wait_ms_max = wait_ms_max
        self._ends: dict[Callable[[], object], None] = {}  # of the waits that are under way
        self._stopping = False

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    def end_all(self) -> None:
        """The server stops: everyone gets their answer now, and nobody waits any more."""
        self._stopping = True
        for end in self._ends:
            end()

    async def run(
        self,
        request: Request[Any, Any, Any],
        wait_ms: int,
        work: Callable[[LongPoll | None], Awaitable[T]],
    ) -> T:
        """What `work` gives; it may wait as long as was asked for and is allowed."""
        wait_ms = self._limit_wait(wait_ms)
        if wait_ms <= 0:
            return await work(None)
        poll = LongPoll(self._clock, wait_ms)
        self._ends[poll.end] = None
        try:
            async with owned_tasks() as tasks:
                watch = tasks.create_task(_end_when_gone(request.receive, poll.end))
                try:
                    return await work(poll)
                finally:
                    watch.cancel()
        finally:
            del self._ends[poll.end]

    async def run_until_disconnect(
        self, receive: Receive, wait_ms: int, work: Callable[[int], Coroutine[Any, Any, T]]
    ) -> tuple[T | None, bool]:
        """What `work` gives with a wait of so many milliseconds, and whether the client has gone.

        None when the work was cancelled: because the client has left, or the server stops.
        """
        async with owned_tasks() as tasks:
            working = tasks.create_task(work(self._limit_wait(wait_ms)))
            watch = tasks.create_task(_end_when_gone(receive, working.cancel))
            self._ends[working.cancel] = None
            try:
                await working
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():  # it is not the work alone that ends
                    raise
            except GoQueueError:
                pass  # leaving the block raises it
            finally:
                del self._ends[working.cancel]
                is_gone = watch.done()
                watch.cancel()
        return (None if working.cancelled() else working.result()), is_gone

    def _limit_wait(self, wait_ms: int) -> int:
        return 0 if self._stopping else min(wait_ms, self._wait_ms_max)


async def _end_when_gone(receive: Receive, end: Callable[[], object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    end()
