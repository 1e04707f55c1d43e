"""Where the messages of each lane lie in one partition; shared by all groups.

Only offsets of lanes other than the normal one are kept: the normal lane is the rest.  A batch
that does not hold the text `gq-priority` has none of them, which one search over its bytes tells.

         start                                        end
    ───────|────────────────────────────────────────────|─────────────>
     pruned: below           known: lanes hold it          not looked at
     every group's floor     or it is normal
"""

from array import array
from bisect import bisect_left
from typing import Final

from goqueue.model.record import Record
from goqueue.queue.lanes import LANES, NORMAL, PRIORITY_HEADER, lane_of

PRUNE_ENTRIES_MIN: Final = 4096


class LaneIndex:
    def __init__(self, start: int) -> None:
        self.start = start  # invariant: start <= end
        self.end = start
        self._lanes = [array("q") for _ in range(LANES)]  # the normal one stays empty
        self.noted = [0] * LANES  # how many of each were taken in; never less
        self.size = 0  # offsets that are kept

    def note(self, records: list[Record], next_offset: int) -> None:
        """Take in what lies between `end` and `next_offset`; `records` may hold more than that."""
        lanes, end, noted = self._lanes, self.end, self.noted
        self.end = max(end, next_offset)
        noted[NORMAL] += self.end - end
        for record in records:
            for name, value in record.headers:
                if name == PRIORITY_HEADER:
                    lane = lane_of(value)
                    if lane != NORMAL and record.offset >= end:
                        lanes[lane].append(record.offset)
                        self.size += 1
                        noted[lane] += 1
                        noted[NORMAL] -= 1
                    break

    def next(self, lane: int, offset: int) -> int | None:
        """The lane's first message at or after `offset`, as far as is known."""
        offsets = self._lanes[lane]
        place = bisect_left(offsets, offset)
        return offsets[place] if place < len(offsets) else None

    def next_normal(self, offset: int) -> int:
        """The first offset at or after `offset` that is in no other lane, or `end`."""
        step = 1
        while offset < self.end and not self.count(NORMAL, offset, min(offset + step, self.end)):
            offset += step
            step *= 2
        while step > 1:  # one is in [offset, offset + step)
            step //= 2
            if not self.count(NORMAL, offset, offset + step):
                offset += step
        return min(offset, self.end)

    def between(self, lane: int, first: int, end: int) -> set[int]:
        """The lane's messages in [first, end); not of the normal lane."""
        offsets = self._lanes[lane]
        return set(offsets[bisect_left(offsets, first) : bisect_left(offsets, end)])

    def others(self, first: int, end: int) -> set[int]:
        """What is not normal in [first, end)."""
        return set[int]().union(*(self.between(lane, first, end) for lane in range(LANES)))

    def count(self, lane: int, first: int, end: int) -> int:
        """The lane's messages in [first, end); of the normal lane, all that are in no other."""
        if lane == NORMAL:
            others = sum(self.count(each, first, end) for each in range(LANES) if each != NORMAL)
            return max(0, end - first) - others
        offsets = self._lanes[lane]
        return max(0, bisect_left(offsets, end) - bisect_left(offsets, first))

    def prune(self, floor: int) -> None:
        """Forget what lies below `floor`, once that is worth moving the rest."""
        for offsets in self._lanes:
            gone = bisect_left(offsets, floor)
            if gone >= PRUNE_ENTRIES_MIN and gone * 2 >= len(offsets):
                del offsets[:gone]
                self.size -= gone
        self.start = min(max(self.start, floor), self.end)
