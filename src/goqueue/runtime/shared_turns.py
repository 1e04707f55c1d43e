"""Short blocking work, several pieces in one turn of a thread.

To hand a piece to a thread and to hear of its end costs more than a sync takes on a fast disk, and
on a busy machine many times more.  So while pieces are short there is one turn at a time, and what
comes meanwhile is the next turn, all of it.  When they take long, as on a disk that flushes slowly,
each has a turn of its own at once: the disk serves them side by side.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from goqueue.runtime.disk_threads import DiskThreads

LONG_SECONDS: Final = 0.000_5  # a piece of it is not made to wait for others
WEIGHT: Final = 0.1  # of the last piece in what is taken for the time of the next

Piece = tuple[Callable[[], None], "asyncio.Future[None]"]


class SharedTurns:
    """Only the event loop's thread touches it."""

    def __init__(self, threads: DiskThreads) -> None:
        self._threads = threads
        self._waiting: list[Piece] = []
        self._turns = 0  # under way
        self._is_starting = False
        self._seconds = 0.0  # that a piece takes, about

    def run(self, work: Callable[[], None]) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future))
        if not self._is_starting and (not self._turns or self._seconds > LONG_SECONDS):
            self._is_starting = True  # with what else is asked for until the loop's next turn
            future.get_loop().call_soon(self._start)
        return future

    def _start(self) -> None:
        self._is_starting = False
        pieces, self._waiting = self._waiting, []
        if self._seconds > LONG_SECONDS:
            for piece in pieces:
                self._start_turn([piece])
        else:
            self._start_turn(pieces)

    def _start_turn(self, pieces: list[Piece]) -> None:
        turn = self._threads.run(lambda: [_attempt(work) for work, _ in pieces])
        self._turns += 1
        turn.add_done_callback(lambda done: self._end(pieces, done.result()))

    def _end(self, pieces: list[Piece], results: list[tuple[float, Exception | None]]) -> None:
        self._turns -= 1
        for (_, future), (seconds, error) in zip(pieces, results, strict=True):
            self._seconds += WEIGHT * (seconds - self._seconds)
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
        if self._waiting and not self._turns and not self._is_starting:
            self._start()


def _attempt(work: Callable[[], None]) -> tuple[float, Exception | None]:
    started = time.perf_counter()
    try:
        work()
    except Exception as error:
        return time.perf_counter() - started, error
    return time.perf_counter() - started, None
