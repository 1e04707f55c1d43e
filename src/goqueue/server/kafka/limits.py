"""Limits for all connections together, and the time that one request may take to arrive.

A connection holds bytes: of requests that are not whole or not handled yet, and of replies that its
peer has not read.  A bound for each of them is no bound for thousands.  So the bytes of all are
counted, and beyond the bound the connection goes that has held the most for the longest: bytes
times seconds.  A request that arrives at a good pace is young; one that trickles in is not.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, Generic, TypeVar

Holder = TypeVar("Holder")
T = TypeVar("T")

ENTRIES_AT_ONCE: Final = 100  # of one request that are handled before others have their turn
BYTES_AT_ONCE: Final = 256 * 1024  # the same: about half a millisecond of work

LOG_LINES_MAX: Final = 20  # about connections that are closed, in `LOG_SECONDS`; more are counted
LOG_SECONDS: Final = 10.0

_SECONDS_MIN: Final = 0.001  # so that among the youngest the largest goes


async def in_turns(entries: Iterable[T]) -> AsyncIterator[T]:
    """The entries of a request; others have their turn after every `ENTRIES_AT_ONCE`."""
    for number, entry in enumerate(entries, 1):
        yield entry
        if number % ENTRIES_AT_ONCE == 0:
            await asyncio.sleep(0)


class Turn:
    """How much of one request is handled before others have their turn."""

    __slots__ = ("_bytes", "_entries")

    def __init__(self) -> None:
        self._entries = self._bytes = 0

    def is_over(self, size: int) -> bool:
        """Before an entry of so many bytes: whether it has to wait for the next turn."""
        self._entries += 1
        self._bytes += size
        if self._entries <= ENTRIES_AT_ONCE and (
            self._bytes <= BYTES_AT_ONCE or self._entries == 1
        ):
            return False
        self._entries, self._bytes = 1, size
        return True


class HeldBytes(Generic[Holder]):
    """Who holds how many bytes, and since when."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.total = 0  # invariant: the sum over `_held`
        self._held: dict[Holder, tuple[int, float]] = {}

    def note(self, holder: Holder, size: int, now: float, *, made_progress: bool = False) -> None:
        """It holds `size` bytes now; progress makes it as young as one that just began."""
        held, since = self._held.get(holder, (0, now))
        self.total += size - held
        if size:
            self._held[holder] = size, (now if made_progress else since)
        elif held:
            del self._held[holder]

    def to_close(self, now: float) -> Holder | None:
        """Who must go, when all of them hold too much."""
        if self.total <= self.bytes_max:
            return None
        return max(self._held, key=lambda holder: self._weight(holder, now))

    def _weight(self, holder: Holder, now: float) -> float:
        size, since = self._held[holder]
        return size * max(now - since, _SECONDS_MIN)


class LogLimit:
    """At most `LOG_LINES_MAX` lines in `LOG_SECONDS`: bad requests must not fill the disk."""

    def __init__(self) -> None:
        self._began = float("-inf")
        self._lines = 0
        self._left_out = 0

    def allows(self, now: float) -> bool:
        """Whether a line may be written now; if not, it is counted."""
        if now - self._began >= LOG_SECONDS:
            self._began, self._lines = now, 0
        self._lines += 1
        if self._lines <= LOG_LINES_MAX:
            return True
        self._left_out += 1
        return False

    def take_left_out(self, now: float) -> int:
        """How many were left out, once the time is over in which they were."""
        if now - self._began < LOG_SECONDS:
            return 0
        left_out, self._left_out = self._left_out, 0
        return left_out
