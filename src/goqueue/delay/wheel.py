"""A hierarchical timer wheel over packed entries: when something is due, and at which offset it is.

    level     0           1            2             3            far
    a slot    10 ms       2.56 s       2.73 min      2.91 h       7.77 days
    holds     this block  this block   this block    this block   every later time, without end
              of 2.56 s   of 2.73 min  of 2.91 h     of 7.77 d

Slots have absolute numbers (ticks of 10 ms since 1970, shifted by the level), and a level holds the
times that share its block with the wheel's position.  So where an entry is follows from when it is
due, and it is found again to be cancelled.  When the position enters a slot of a higher level, its
entries are placed anew (a cascade).  Cascades begin `LEAD_TICKS` early and go in pieces, so a slot
with a million entries is spread before the first of them is due, and nobody waits for it.

An entry is 16 bytes in chunks of arrays.  Full chunks of the levels that are minutes away go to a
`ChunkStore`, a file mostly: the memory that the wheel takes does not grow with what is far away.
What is due is in a heap by the exact millisecond; ties go by offset.

The clock may jump.  Forward: all that is passed is due at once, in the order of due times.  Back:
nothing is delivered twice or early; entries before the former position wait in the heap.
"""

import heapq
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from goqueue.model.ids import Timestamp

TICK_MS: Final = 10
SHIFTS: Final = (0, 8, 14, 20, 26)  # of a tick, to the number of its slot at each level
FAR: Final = 4
LEAD_TICKS: Final = 256
STORED_LEVEL_MIN: Final = 2
CHUNK_ENTRIES: Final = 4096
CASCADE_ENTRIES: Final = 4096  # that are placed anew in one step

Entry = tuple[int, int]  # due, offset
Packed = tuple["array[int]", "array[int]"]  # dues and offsets


class ChunkStore(Protocol):
    """Where chunks wait that are far away; it need not survive a restart."""

    def store(self, data: bytes) -> int | None:
        """Where it is kept; None when there is no room."""

    def load(self, place: int) -> bytes: ...

    def release(self, place: int) -> None: ...


class _Chunk:
    """Some entries of a slot.  A full one is replaced, not changed: a snapshot may hold it."""

    __slots__ = ("dues", "is_sorted", "offsets", "place")

    def __init__(self, dues: "array[int]", offsets: "array[int]", *, is_sorted: bool) -> None:
        self.dues = dues
        self.offsets = offsets
        self.is_sorted = is_sorted  # by offset
        self.place: int | None = None  # in the store; then only the offsets' ends are here

    def add(self, due: int, offset: int) -> None:
        if self.offsets and offset < self.offsets[-1]:
            self.is_sorted = False
        self.dues.append(due)
        self.offsets.append(offset)

    def extend(self, dues: "array[int]", offsets: "array[int]") -> None:
        before = len(self.offsets)
        self.dues.extend(dues)
        self.offsets.extend(offsets)
        if self.is_sorted:
            some = self.offsets[max(0, before - 1) :]
            self.is_sorted = all(map(int.__le__, some, some[1:]))

    @property
    def is_full(self) -> bool:
        return self.place is not None or len(self.offsets) >= CHUNK_ENTRIES

    def may_hold(self, offset: int) -> bool:
        ends = self.offsets
        return not self.is_sorted or ends[0] <= offset <= ends[-1]


class TimerWheel:
    def __init__(self, now: Timestamp, store: ChunkStore | None = None) -> None:
        self.count = 0
        self._tick = now // TICK_MS  # invariant: level 0 has no slot up to it
        self._position = self._tick + LEAD_TICKS  # invariant: no higher level has its slot
        self._levels: tuple[dict[int, list[_Chunk]], ...] = tuple({} for _ in SHIFTS)
        self._cascading: deque[_Chunk] = deque()
        self._due: list[Entry] = []  # a heap: entries up to the current tick
        self._store = store
        self._holds = 0  # snapshots that are being read
        self._released: list[int] = []  # places in the store, once nobody reads a snapshot

    # --- adding and removing ----------------------------------------------------------------------

    def add(self, due: int, offset: int) -> None:
        self.count += 1
        self._place(due, offset)

    def add_all(self, dues: Sequence[int], offsets: Sequence[int]) -> None:
        """Many at once; faster than one by one, if all of them belong into one higher level."""
        if not dues:
            return
        self.count += len(dues)
        level, first = self._locate(min(dues) // TICK_MS)
        last_level, last = self._locate(max(dues) // TICK_MS)
        if not level or level != last_level:
            for due, offset in zip(dues, offsets, strict=True):
                self._place(due, offset)
        elif first == last:
            self._extend(level, first, array("q", dues), array("q", offsets))
        else:
            shift, slots = SHIFTS[level], dict[int, Packed]()
            for due, offset in zip(dues, offsets, strict=True):
                slot = due // TICK_MS >> shift
                packed = slots.get(slot)
                if packed is None:
                    packed = slots[slot] = array("q"), array("q")
                packed[0].append(due)
                packed[1].append(offset)
            for slot, (some, places) in slots.items():
                self._extend(level, slot, some, places)

    def _extend(self, level: int, slot: int, dues: "array[int]", offsets: "array[int]") -> None:
        """Put entries that belong there into chunks, the last of which may have room."""
        chunks = self._levels[level].setdefault(slot, [])
        start = 0
        while start < len(dues):
            if not chunks or chunks[-1].is_full:
                chunks.append(_Chunk(array("q"), array("q"), is_sorted=True))
            chunk = chunks[-1]
            end = start + CHUNK_ENTRIES - len(chunk.offsets)
            chunk.extend(dues[start:end], offsets[start:end])
            self._store_if_full(level, chunk)
            start = end

    def remove(self, due: int, offset: int) -> bool:
        """Whether it was there."""
        is_removed = self._find(due, offset, removes=True)
        self.count -= is_removed
        return is_removed

    def contains(self, due: int, offset: int) -> bool:
        return self._find(due, offset, removes=False)

    def _place(self, due: int, offset: int) -> None:
        tick = due // TICK_MS
        if tick <= self._tick:
            heapq.heappush(self._due, (due, offset))
            return
        level, slot = self._locate(tick)
        chunks = self._levels[level].setdefault(slot, [])
        if not chunks or chunks[-1].is_full:
            chunks.append(_Chunk(array("q"), array("q"), is_sorted=True))
        chunk = chunks[-1]
        chunk.add(due, offset)
        if len(chunk.offsets) >= CHUNK_ENTRIES:
            self._store_if_full(level, chunk)

    def _locate(self, tick: int) -> tuple[int, int]:
        """The level and the number of the slot in which an entry belongs that is not due."""
        position = self._position
        if tick >> 8 <= position >> 8:
            return 0, tick
        for level in range(1, FAR):
            if tick >> SHIFTS[level + 1] == position >> SHIFTS[level + 1]:
                return level, tick >> SHIFTS[level]
        return FAR, tick >> SHIFTS[FAR]

    def _find(self, due: int, offset: int, *, removes: bool) -> bool:
        tick = due // TICK_MS
        if tick <= self._tick:
            if (due, offset) in self._due:
                if removes:
                    self._due.remove((due, offset))
                    heapq.heapify(self._due)
                return True
        else:
            level, slot = self._locate(tick)
            chunks = self._levels[level].get(slot)
            if chunks is not None and self._find_in(chunks, due, offset, removes=removes):
                if not chunks:
                    del self._levels[level][slot]
                return True
        return self._find_in(self._cascading, due, offset, removes=removes)

    def _find_in(
        self, chunks: "list[_Chunk] | deque[_Chunk]", due: int, offset: int, *, removes: bool
    ) -> bool:
        for number, chunk in enumerate(chunks):
            if not chunk.may_hold(offset):
                continue
            dues, offsets = self._load(chunk)
            index = _index(offsets, offset, is_sorted=chunk.is_sorted)
            if index is None or dues[index] != due:
                continue
            if removes:
                self._take_out(chunks, number, index, dues, offsets)
            return True
        return False

    def _take_out(
        self,
        chunks: "list[_Chunk] | deque[_Chunk]",
        number: int,
        index: int,
        dues: "array[int]",
        offsets: "array[int]",
    ) -> None:
        chunk = chunks[number]
        self._release(chunk)
        if len(offsets) == 1:
            del chunks[number]
            return
        rest = _Chunk(dues[:], offsets[:], is_sorted=chunk.is_sorted)
        del rest.dues[index]
        del rest.offsets[index]
        chunks[number] = rest

    # --- time -------------------------------------------------------------------------------------

    def advance(self, now: Timestamp, *, cascades_all: bool = False) -> None:
        """The clock says this: move entries nearer, a bounded number of them in one step."""
        tick = now // TICK_MS
        if tick > self._tick:
            self._tick = tick
            self._enter(max(self._position, tick + LEAD_TICKS))
            slots = self._levels[0]
            passed = [chunk for slot in sorted(slots) if slot <= tick for chunk in slots.pop(slot)]
            if passed:
                for chunk in passed:
                    self._due.extend(zip(chunk.dues, chunk.offsets, strict=True))
                heapq.heapify(self._due)
        left = self.count if cascades_all else CASCADE_ENTRIES
        while self._cascading and left > 0:
            chunk = self._cascading.popleft()
            dues, offsets = self._load(chunk)
            self._release(chunk)
            left -= len(dues)
            for due, offset in zip(dues, offsets, strict=True):
                self._place(due, offset)

    def _enter(self, position: int) -> None:
        self._position = position
        for level in range(FAR, 0, -1):
            slots, reached = self._levels[level], position >> SHIFTS[level]
            for slot in sorted(each for each in slots if each <= reached):
                self._cascading.extend(slots.pop(slot))

    def take(self, now: Timestamp, most: int) -> list[Entry]:
        """What is due, the earliest first; it is not in the wheel any more."""
        due, taken = self._due, list[Entry]()
        while due and due[0][0] <= now and len(taken) < most:
            taken.append(heapq.heappop(due))
        self.count -= len(taken)
        return taken

    @property
    def is_cascading(self) -> bool:
        """Whether `advance` wants to be called again at once."""
        return bool(self._cascading)

    def next_time(self) -> Timestamp | None:
        """When to look again: something may be due then, or comes nearer."""
        times = [self._due[0][0]] if self._due else []
        for level, slots in enumerate(self._levels):
            if slots:
                tick = min(slots) << SHIFTS[level]
                times.append((tick - LEAD_TICKS if level else tick) * TICK_MS)
        return Timestamp(min(times)) if times else None

    def upcoming(self, most: int) -> list[int]:
        """The offsets that are due within some seconds, in the order of their slots."""
        found = [offset for _, offset in self._due[:most]]
        for slot in sorted(self._levels[0]):
            for chunk in self._levels[0][slot]:
                if len(found) >= most:
                    return found[:most]
                found.extend(chunk.offsets)
        return found[:most]

    # --- looking at all ---------------------------------------------------------------------------

    def groups(self, after: int) -> Iterator[list[Packed]]:
        """Entries in groups, each of a later time than the one before, not in order within.

        Those that end before `after` are left out.  What changes meanwhile may be seen or not.
        """
        self.advance(Timestamp(self._tick * TICK_MS), cascades_all=True)
        yield [_pack(self._due)]
        for level, slots in enumerate(self._levels):
            for slot in sorted(slots):
                end = ((slot + 1) << SHIFTS[level]) * TICK_MS
                if end > after and slot in slots:
                    yield [self._load(chunk) for chunk in slots[slot]]

    def snapshot(self) -> Iterator[Packed]:
        """All entries as they are now, a chunk at a time, whatever is done meanwhile."""
        due = list(self._due)
        chunks = [chunk for slots in self._levels for each in slots.values() for chunk in each]
        frozen = [_freeze(chunk) for chunk in (*self._cascading, *chunks)]
        self._holds += 1
        return self._read_out(due, frozen)

    def _read_out(self, due: list[Entry], chunks: list[_Chunk]) -> Iterator[Packed]:
        try:
            for start in range(0, len(due), CHUNK_ENTRIES):
                yield _pack(due[start : start + CHUNK_ENTRIES])
            for chunk in chunks:
                yield self._load(chunk)
        finally:
            self._holds -= 1
            if not self._holds and self._store is not None:
                for place in self._released:
                    self._store.release(place)
                self._released.clear()

    # --- the store --------------------------------------------------------------------------------

    def _store_if_full(self, level: int, chunk: _Chunk) -> None:
        if self._store is None or level < STORED_LEVEL_MIN or len(chunk.offsets) < CHUNK_ENTRIES:
            return
        chunk.place = self._store.store(chunk.dues.tobytes() + chunk.offsets.tobytes())
        if chunk.place is not None:
            chunk.dues = array("q")
            chunk.offsets = array("q", (chunk.offsets[0], chunk.offsets[-1]))

    def _load(self, chunk: _Chunk) -> Packed:
        if chunk.place is None:
            return chunk.dues, chunk.offsets
        assert self._store is not None
        return unpack(self._store.load(chunk.place))

    def _release(self, chunk: _Chunk) -> None:
        if chunk.place is None or self._store is None:
            return
        if self._holds:
            self._released.append(chunk.place)
        else:
            self._store.release(chunk.place)


def unpack(data: bytes) -> Packed:
    """Dues and offsets, one behind the other, as bytes of this machine."""
    packed = array("q")
    packed.frombytes(data)
    half = len(packed) // 2
    return packed[:half], packed[half:]


def _pack(entries: Sequence[Entry]) -> Packed:
    return array("q", [due for due, _ in entries]), array("q", [offset for _, offset in entries])


def _freeze(chunk: _Chunk) -> _Chunk:
    if chunk.place is not None or len(chunk.offsets) >= CHUNK_ENTRIES:
        return chunk
    return _Chunk(chunk.dues[:], chunk.offsets[:], is_sorted=chunk.is_sorted)


def _index(offsets: "array[int]", offset: int, *, is_sorted: bool) -> int | None:
    if is_sorted:
        index = bisect_left(offsets, offset)
        return index if index < len(offsets) and offsets[index] == offset else None
    try:
        return offsets.index(offset)
    except ValueError:
        return None
