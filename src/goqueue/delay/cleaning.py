"""Which messages to copy to the end of a delay log, so that it can be cut.

A delay log begins with the first message that still waits: one that waits for a year would keep
all that was published behind it.  So when few of the oldest places are needed, those messages are
moved:

    place    0 1 2 3 4 5 6 7 8 9 …          0 and 6 wait, the others are over
             x . . . . . x . . .            copy both to the end, and cut up to 10

What is freed is at least `FREED_PER_COPY` times what is copied, so the work stays in proportion to
what is published.
"""

import heapq
from array import array
from collections.abc import Callable, Sequence
from typing import Final

FREED_PER_COPY: Final = 4
COPIED_AT_ONCE_MAX: Final = 20_000

Needed = tuple[int, int]  # place, offset


class LowestPlaces:
    """The lowest places that are needed, of any number that are shown a chunk at a time."""

    def __init__(self, place_of: Callable[[int], int], most: int = COPIED_AT_ONCE_MAX) -> None:
        self._place_of = place_of
        self._most = most
        self._found: list[Needed] = []
        self._bound: int | None = None  # all above it are left out
        self.left_out = False

    def note(self, offsets: "array[int]", *, are_moved: bool) -> None:
        """`are_moved`: some of them may be at another place."""
        if not offsets:
            return
        if not are_moved and self._bound is not None and min(offsets) > self._bound:
            self.left_out = True
            return
        place_of, bound = self._place_of, self._bound
        some = [(place_of(each), each) for each in offsets]
        self._found += some if bound is None else [each for each in some if each[0] <= bound]
        if len(self._found) > 4 * self._most:
            self._shrink()

    def _shrink(self) -> None:
        self.left_out |= len(self._found) > self._most
        self._found = heapq.nsmallest(self._most, self._found)
        if len(self._found) == self._most:
            self._bound = self._found[-1][0]

    def find(self) -> list[Needed]:
        self._shrink()
        return self._found


def choose_copies(needed: Sequence[Needed], *, start: int, ends: Sequence[int]) -> int:
    """How many of the lowest messages to move; 0 when it does not pay.

    `start` is where the log begins, and `ends` are places up to which it could be cut, ascending.
    Messages at the last of them and behind it are not looked at.
    """
    best = 0
    position = 0
    for end in ends:
        while position < len(needed) and needed[position][0] < end:
            position += 1
        if position and end - start >= FREED_PER_COPY * position:
            best = position
    return best
