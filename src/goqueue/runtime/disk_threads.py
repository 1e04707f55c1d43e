"""Threads that do blocking work for an event loop.

As `concurrent.futures.ThreadPoolExecutor`, at two thirds of its cost: a broker hands over several
syncs for every transaction, and a future of its own for each, with a lock and a condition, and the
chain from that one to the loop's, were most of the price.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_Task = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class DiskThreads:
    """A fixed number of threads, started when they are first needed."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._waiting: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def run(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """The result of `work`, in the running loop.  Work that was begun is not cancelled."""
        if self._closed:
            raise RuntimeError("the disk is closed")
        if not self._threads:
            self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.put((work, future, loop))
        return future

    def close(self) -> None:
        """Return when all that was handed over is done.  Blocking."""
        self._closed = True
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _start(self) -> None:
        for number in range(self._count):
            # One that nobody closes must not keep the process alive.
            thread = threading.Thread(target=self._serve, name=f"disk_{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self) -> None:
        while (task := self._waiting.get()) is not None:
            work, future, loop = task
            result, error = None, None
            if not future.cancelled():
                try:
                    result = work()
                except BaseException as caught:
                    error = caught
            try:
                loop.call_soon_threadsafe(_land, future, result, error)
            except RuntimeError:
                continue  # the loop is closed: nobody waits any more
            finally:
                del task, work, future, loop, result, error  # until the next one comes


def _land(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
