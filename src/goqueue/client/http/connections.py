"""The connections of a client: how many calls may be under way at once, and who gets a free one.

Each connection is an httpx client of its own.  httpx's own pool looks at all its connections
whenever a request begins or ends; with 450 long polls in one pool that was 85 % of a program's
processor time, and a publish took half a minute.

A long poll holds its connection for seconds.  Long polls have a limit of their own, so that no
number of them keeps a publish waiting.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, Generic, TypeVar

import httpx

from goqueue.client.errors import NoFreeConnection
from goqueue.client.http.calls.call import Call

CONNECTIONS_MAX: Final = 100
LONG_POLLS_MAX: Final = 1000
IDLE_MAX: Final = 20  # connections that are kept open for later calls

HttpT = TypeVar("HttpT", bound=httpx.Client | httpx.AsyncClient)


class _Connections(Generic[HttpT]):
    """Those that are free.  The one that was used last is given first: it is the least likely to
    have been closed by the server meanwhile.
    """

    def __init__(self, make: Callable[[], HttpT], *, is_shared: bool) -> None:
        self._make = make
        self._idle: list[HttpT] = [make()]  # a bad address is told at once
        self._shared = self._idle[0] if is_shared else None

    def take(self) -> HttpT:
        if self._shared is not None:
            return self._shared
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()

    def put_back(self, http: HttpT) -> bool:
        """False: there are enough, close this one."""
        if self._shared is not None:
            return True
        if len(self._idle) >= IDLE_MAX:
            return False
        self._idle.append(http)
        return True

    def take_all(self) -> list[HttpT]:
        """To close them."""
        idle, self._idle = self._idle, []
        return idle


class ConnectionPool:
    """For threads that wait."""

    def __init__(
        self,
        transport: httpx.BaseTransport | None,
        options: dict[str, Any],
        *,
        connections_max: int,
        long_polls_max: int,
    ) -> None:
        self._connections = _Connections(
            lambda: httpx.Client(transport=transport, **options), is_shared=transport is not None
        )
        self._limits = {False: connections_max, True: long_polls_max}
        self._free = {
            kind: threading.BoundedSemaphore(count) for kind, count in self._limits.items()
        }

    @contextlib.contextmanager
    def connection(self, call: Call[Any], timeout: float) -> Iterator[httpx.Client]:
        """A free connection; raises `NoFreeConnection` when there is none in time."""
        free = self._free[call.is_long_poll]
        if not free.acquire(timeout=timeout):
            raise no_free_connection(call, self._limits[call.is_long_poll], timeout)
        try:
            http = self._connections.take()
            try:
                yield http
            finally:
                if not self._connections.put_back(http):
                    http.close()
        finally:
            free.release()

    def close(self) -> None:
        for http in self._connections.take_all():
            http.close()


class AsyncConnectionPool:
    """For tasks of an event loop."""

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None,
        options: dict[str, Any],
        *,
        connections_max: int,
        long_polls_max: int,
    ) -> None:
        self._connections = _Connections(
            lambda: httpx.AsyncClient(transport=transport, **options),
            is_shared=transport is not None,
        )
        self._limits = {False: connections_max, True: long_polls_max}
        self._free = {kind: asyncio.Semaphore(count) for kind, count in self._limits.items()}

    @contextlib.asynccontextmanager
    async def connection(self, call: Call[Any], timeout: float) -> AsyncIterator[httpx.AsyncClient]:
        """A free connection; raises `NoFreeConnection` when there is none in time."""
        free = self._free[call.is_long_poll]
        try:
            async with asyncio.timeout(timeout):
                await free.acquire()
        except TimeoutError:
            raise no_free_connection(call, self._limits[call.is_long_poll], timeout) from None
        try:
            http = self._connections.take()
            try:
                yield http
            finally:
                if not self._connections.put_back(http):
                    await http.aclose()
        finally:
            free.release()

    async def close(self) -> None:
        for http in self._connections.take_all():
            await http.aclose()


def no_free_connection(call: Call[Any], limit: int, timeout: float) -> NoFreeConnection:
    kind, option = (
        ("long polls", "long_polls_max") if call.is_long_poll else ("calls", "connections_max")
    )
    return NoFreeConnection(
        f"no connection became free within {timeout:.3g} s: this client has {limit} {kind} under"
        f" way; raise its {option}, or its timeout"
    )
