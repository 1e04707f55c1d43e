"""How many file handles this process may have, and a few that are kept back.

A process without handles is not one whose disk failed: connections took them all.  So the disk
keeps some in reserve, to finish what it has begun, and says `OutOfHandles` when those are used up
too, which is to be tried again.
"""

import os
import resource
import threading
import weakref
from typing import Final

HANDLES_MAX: Final = 1 << 20  # more is not asked for: some systems say "unlimited"
SPARE_HANDLES: Final = 8  # one for each thread of the disk


def raise_handle_limit() -> int:
    """Allow as many handles as the system lets this process have; gives their number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = HANDLES_MAX if hard == resource.RLIM_INFINITY else min(hard, HANDLES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return HANDLES_MAX if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


class SpareHandles:
    """Handles of nothing, that can be given up for a better use."""

    def __init__(self, count: int = SPARE_HANDLES) -> None:
        self._count = count
        self._handles: list[int] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._handles)  # a disk that nobody closed
        self.refill()

    def __len__(self) -> int:
        return len(self._handles)

    def give_up_one(self) -> bool:
        """False when there is none left."""
        with self._lock:
            if not self._handles:
                return False
            os.close(self._handles.pop())
            return True

    def refill(self) -> None:
        """As far as there are handles."""
        if len(self._handles) >= self._count:
            return
        with self._lock:
            while len(self._handles) < self._count:
                try:
                    self._handles.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
                except OSError:
                    return

    def close(self) -> None:
        self._count = 0
        while self.give_up_one():
            pass


def _close_all(handles: list[int]) -> None:
    while handles:
        os.close(handles.pop())
