"""Long polls: waits that end when their client leaves or the server stops.

An ASGI server does not cancel a request whose client has gone; it says so to whoever listens.
So beside every wait a small task listens.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from litestar import Request

from goqueue.broker.messages import Patience
from goqueue.model.errors import GoQueueError
from goqueue.runtime import Clock

T = TypeVar("T")


class LongPolls:
    def __init__(self, clock: Clock, wait_ms_max: int) -> None:
        self._clock = clock
        self._wait_ms_max = wait_ms_max
        self._waiting: set[Patience] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._waiting)

    def end_all(self) -> None:
        """The server stops: everyone gets their answer now, and nobody waits any more."""
        self._stopping = True
        for patience in self._waiting:
            patience.end()

    async def run(
        self,
        request: Request[Any, Any, Any],
        wait_ms: int,
        work: Callable[[Patience | None], Awaitable[T]],
    ) -> T:
        """What `work` gives, with as much patience as was asked for and is allowed."""
        wait_ms = min(wait_ms, self._wait_ms_max)
        if wait_ms <= 0 or self._stopping:
            return await work(None)
        patience = Patience(self._clock, wait_ms)
        self._waiting.add(patience)
        result: T | None = None
        error: GoQueueError | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                watch = tasks.create_task(_end_when_gone(request, patience))
                try:
                    result = await work(patience)
                except GoQueueError as caught:  # a task group would wrap it
                    error = caught
                finally:
                    watch.cancel()
        finally:
            self._waiting.discard(patience)
        if error is not None:
            raise error
        return result  # type: ignore[return-value] # set whenever there was no error


async def _end_when_gone(request: Request[Any, Any, Any], patience: Patience) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            patience.end()
            return
