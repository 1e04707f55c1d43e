"""Long polls: waits that end when their client leaves or the server stops.

An ASGI server does not cancel a request whose client has gone; it says so to whoever listens.
So beside every wait a small task listens.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from litestar import Request

from goqueue.broker.messages.publish import WaitDeadline
from goqueue.model.errors import GoQueueError
from goqueue.runtime import Clock

T = TypeVar("T")


class LongPolls:
    def __init__(self, clock: Clock, wait_ms_max: int) -> None:
        self._clock = clock
        self._wait_ms_max = wait_ms_max
        self._waiting: set[WaitDeadline] = set()
        self._attended: set[asyncio.Task[Any]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    def end_all(self) -> None:
        """The server stops: everyone gets their answer now, and nobody waits any more."""
        self._stopping = True
        for deadline in self._waiting:
            deadline.end()
        for task in self._attended:
            task.cancel()

    async def run_attended(
        self,
        client: Callable[[], Awaitable[Any]],
        wait_ms: int,
        work: Callable[[int], Awaitable[T]],
    ) -> tuple[T | None, bool]:
        """What `work` gives with a wait of so many milliseconds, and whether the client has gone.

        None when the work was cancelled: because the client, listened to by `client`, has left,
        or the server stops.
        """
        wait_ms = 0 if self._stopping else min(wait_ms, self._wait_ms_max)
        error: GoQueueError | None = None

        async def caught() -> T | None:
            nonlocal error
            try:
                return await work(wait_ms)
            except GoQueueError as refused:  # a task group would wrap it
                error = refused
                return None

        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(caught())
            self._attended.add(working)
            watch = tasks.create_task(_cancel_when_gone(client, working))
            try:
                await asyncio.wait([working])
            finally:
                self._attended.discard(working)
                is_gone = watch.done()
                watch.cancel()
        if error is not None:
            raise error
        return (None if working.cancelled() else working.result()), is_gone

    async def run(
        self,
        request: Request[Any, Any, Any],
        wait_ms: int,
        work: Callable[[WaitDeadline | None], Awaitable[T]],
    ) -> T:
        """What `work` gives; it may wait as long as was asked for and is allowed."""
        wait_ms = min(wait_ms, self._wait_ms_max)
        if wait_ms <= 0 or self._stopping:
            return await work(None)
        deadline = WaitDeadline(self._clock, wait_ms)
        self._waiting.add(deadline)
        result: T | None = None
        error: GoQueueError | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                watch = tasks.create_task(_end_when_gone(request, deadline))
                try:
                    result = await work(deadline)
                except GoQueueError as caught:  # a task group would wrap it
                    error = caught
                finally:
                    watch.cancel()
        finally:
            self._waiting.discard(deadline)
        if error is not None:
            raise error
        return result  # type: ignore[return-value] # set whenever there was no error


async def _end_when_gone(request: Request[Any, Any, Any], deadline: WaitDeadline) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            deadline.end()
            return


async def _cancel_when_gone(
    client: Callable[[], Awaitable[Any]], working: asyncio.Task[Any]
) -> None:
    while (await client())["type"] != "http.disconnect":
        pass
    working.cancel()
