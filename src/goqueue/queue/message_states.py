"""Messages that are not finished: offsets to their lease, or to what they wait for.

A thousand messages that were delivered together are one run: two offsets and the lease.  Ending a
part of a run cuts it.  What is too short for a run, and all that is not in flight, is an entry of a
dictionary each.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from typing import Final

from goqueue.queue.lease import Lease

RUN_MIN: Final = 8  # messages; three list entries of a run weigh as much as about two of these
STEPS_MAX: Final = 1_000  # before looking for the lowest of all

State = Lease | int
Piece = tuple[int, int, State]  # first, last, what all from first to last are


class MessageStates:
    """A mapping of offsets that costs by its runs, not by its size."""

    def __init__(self) -> None:
        self._singles: dict[int, State] = {}
        self._firsts: list[int] = []  # of the runs, ascending; runs do not overlap
        self._lasts: list[int] = []
        self._leases: list[Lease] = []
        self._in_runs = 0  # messages

    # --- asking -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._singles) + self._in_runs

    def __contains__(self, offset: int) -> bool:
        return offset in self._singles or self._run_at(offset) is not None

    def __getitem__(self, offset: int) -> State:
        found = self.get(offset)
        if found is None:
            raise KeyError(offset)
        return found

    def get(self, offset: int) -> State | None:
        found = self._singles.get(offset)
        if found is not None or not self._in_runs:
            return found
        place = self._run_at(offset)
        return None if place is None else self._leases[place]

    def items(self) -> Iterator[tuple[int, State]]:
        yield from self._singles.items()
        for first, last, lease in zip(self._firsts, self._lasts, self._leases, strict=True):
            yield from ((offset, lease) for offset in range(first, last + 1))

    def iterate_waiting(self) -> Iterator[tuple[int, int]]:
        """What is in nobody's hands."""
        return (
            (offset, state) for offset, state in self._singles.items() if isinstance(state, int)
        )

    def copy_states(self) -> tuple[list[int], Iterator[tuple[int, int, Lease]]]:
        """Offsets that stand alone, and the runs, as they are now; there may be a million."""
        runs = zip(self._firsts[:], self._lasts[:], self._leases[:], strict=True)
        return list(self._singles), runs

    def pieces(self, first: int, last: int) -> list[Piece]:
        """What is here from `first` to `last`, ascending."""
        found: list[Piece] = []
        low, high = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
        for place in range(low, high):
            start, end = max(self._firsts[place], first), min(self._lasts[place], last)
            found.append((start, end, self._leases[place]))
        if not self._singles:
            return found
        singles = self._singles
        alone = [(offset, offset, singles[offset]) for offset in within(singles, first, last)]
        return sorted([*found, *alone], key=_first) if found else alone

    def lowest(self, floor: int, limit: int) -> int:
        """The first offset that is here from `floor` on; `limit` when there is none below that."""
        place = bisect_left(self._lasts, floor)
        if place < len(self._firsts):
            limit = min(limit, max(floor, self._firsts[place]))
        singles = self._singles
        if not singles:
            return limit
        for offset in range(floor, min(limit, floor + STEPS_MAX)):
            if offset in singles:
                return offset
        if floor + STEPS_MAX >= limit:
            return limit
        return min(limit, min((each for each in singles if each >= floor), default=limit))

    # --- changing ---------------------------------------------------------------------------------

    def __setitem__(self, offset: int, state: State) -> None:
        if self._in_runs:
            self._cut(offset, offset)
        self._singles[offset] = state

    def put(self, first: int, last: int, lease: Lease) -> None:
        """A lease takes offsets of which none is here."""
        if last - first + 1 < RUN_MIN:
            for offset in range(first, last + 1):
                self._singles[offset] = lease
            return
        place = bisect_left(self._firsts, first)
        self._firsts.insert(place, first)
        self._lasts.insert(place, last)
        self._leases.insert(place, lease)
        self._in_runs += last - first + 1

    def remove(self, first: int, last: int) -> list[Piece]:
        """Let go of what is not finished from `first` to `last`; gives what that was."""
        if first == last and (state := self._singles.pop(first, None)) is not None:
            return [(first, last, state)]
        found = self._cut(first, last) if self._in_runs else []
        singles = self._singles
        if singles:
            found += [(each, each, singles.pop(each)) for each in within(singles, first, last)]
        return found

    # --- runs -------------------------------------------------------------------------------------

    def _run_at(self, offset: int) -> int | None:
        place = bisect_left(self._lasts, offset)
        return place if place < len(self._firsts) and self._firsts[place] <= offset else None

    def _cut(self, first: int, last: int) -> list[Piece]:
        """Take a range out of the runs; what is left of one at either end stays."""
        low, high = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
        if low >= high:
            return []
        runs = list(
            zip(self._firsts[low:high], self._lasts[low:high], self._leases[low:high], strict=True)
        )
        del self._firsts[low:high], self._lasts[low:high], self._leases[low:high]
        self._in_runs -= sum(end - start + 1 for start, end, _ in runs)
        start, _, lease = runs[0]
        if start < first:
            self.put(start, first - 1, lease)
        _, end, lease = runs[-1]
        if end > last:
            self.put(last + 1, end, lease)
        return [(max(start, first), min(end, last), lease) for start, end, lease in runs]


def within(offsets: Collection[int], first: int, last: int) -> list[int]:
    """Those of a set or dictionary that lie from `first` to `last`, ascending."""
    if not offsets:
        return []
    if last - first < len(offsets):
        return [offset for offset in range(first, last + 1) if offset in offsets]
    return sorted(offset for offset in offsets if first <= offset <= last)


def _first(piece: Piece) -> int:
    return piece[0]
