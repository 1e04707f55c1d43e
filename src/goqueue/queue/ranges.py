"""Offsets as ranges: first and last, both included, ascending and apart."""

import bisect
from collections.abc import Iterable, Iterator

Range = tuple[int, int]
Ranges = tuple[Range, ...]


def ranges_of(offsets: Iterable[int]) -> Ranges:
    """Ascending offsets as ranges."""
    found: list[Range] = []
    first = last = -2
    for offset in offsets:
        if offset == last + 1:
            last = offset
            continue
        if last >= 0:
            found.append((first, last))
        first = last = offset
    if last >= 0:
        found.append((first, last))
    return tuple(found)


def join_ranges(ranges: Iterable[Range]) -> Ranges:
    """Ranges in any order, which may overlap, as one set of them."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return tuple(found)


def without_ranges(ranges: Iterable[Range], others: Iterable[Range]) -> Ranges:
    """What is in `ranges` and not in `others`; both ascending and apart."""
    found: list[Range] = []
    taken = list(others)
    for start, last in ranges:
        first = start
        for low, high in taken:
            if high < first or low > last:
                continue
            if first < low:
                found.append((first, low - 1))
            first = high + 1
        if first <= last:
            found.append((first, last))
    return tuple(found)


def each_offset(ranges: Iterable[Range]) -> Iterator[int]:
    for first, last in ranges:
        yield from range(first, last + 1)


class RangeSet:
    """A set of offsets that costs memory by its gaps, not by its size."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def add(self, first: int, last: int) -> None:
        assert first <= last
        low = bisect.bisect_left(self._lasts, first - 1)  # the first range that could be joined
        high = bisect.bisect_right(self._firsts, last + 1)
        if low < high:
            first = min(first, self._firsts[low])
            last = max(last, self._lasts[high - 1])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]

    def forget_below(self, offset: int) -> None:
        gone = bisect.bisect_left(self._lasts, offset)
        del self._firsts[:gone], self._lasts[:gone]
        if self._firsts and self._firsts[0] < offset:
            self._firsts[0] = offset

    def forget_from(self, offset: int) -> None:
        kept = bisect.bisect_left(self._firsts, offset)
        del self._firsts[kept:], self._lasts[kept:]
        if self._lasts and self._lasts[-1] >= offset:
            self._lasts[-1] = offset - 1

    def __contains__(self, offset: int) -> bool:
        place = bisect.bisect_left(self._lasts, offset)
        return place < len(self._firsts) and self._firsts[place] <= offset

    def after(self, offset: int) -> int:
        """The first offset at or after `offset` that is not in the set."""
        place = bisect.bisect_left(self._lasts, offset)
        if place < len(self._firsts) and self._firsts[place] <= offset:
            return self._lasts[place] + 1
        return offset

    def count(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are in the set."""
        pairs = zip(self._firsts, self._lasts, strict=True)
        return sum(max(0, min(last + 1, end) - max(low, first)) for low, last in pairs)

    @property
    def ranges(self) -> Ranges:
        return tuple(zip(self._firsts, self._lasts, strict=True))
