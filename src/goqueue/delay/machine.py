"""The timers of one partition: which messages of its delay log wait, and until when.

                Indexed                take             Delivered
    delay log ──────────> in the wheel ─────> taken ───────────────> forgotten
                             │    ^                │ append to the data, which is committed
                   Cancelled │    └ Rescheduled    │ before `Delivered` is written
                             v                     ├─> a crash: see below
                         forgotten                 └─> `Expired`: its time to live has passed

The messages themselves stay in the delay log, and whatever is in it, committed and of no aborted
transaction, waits: `Indexed` only notes what was found there, so nobody waits for it to be durable.

Between the append to the data and `Delivered` a crash or another leader may come.  What is in the
data and not noted is then told by the data itself (`note_found`).  It must not be noted before
it is committed there: a message would be lost if the note survived and the data did not.

A message is known by its offset in the delay log.  So that the log can be cut, messages that wait
for long are copied to its end: then their place is another one, and they keep their name.
"""

from array import array
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Literal

import msgspec

from goqueue.delay.errors import DelayedMessageFinished
from goqueue.delay.records import (
    Cancelled,
    DelayRecord,
    Delivered,
    Expired,
    Indexed,
    Moved,
    PendingKept,
    Rescheduled,
    ReschedulesKept,
    TimersKept,
    decode,
    encode,
    pack,
    unpack,
)
from goqueue.delay.wheel import CHUNK_ENTRIES, ChunkStore, Entry, Packed, TimerWheel
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.machine import Decision

CANCELLED_KEPT: Final = 10_000  # offsets that are still known as cancelled, or as expired

MessageState = Literal["pending", "delivered", "cancelled", "expired"]


class Copy(msgspec.Struct, frozen=True):
    """A message that waits, found once more in the delay log."""

    offset: int
    """Of the message: its name."""
    place: int
    first: int
    """When it was to be delivered at first."""


class DelayMachine:
    """Only `apply` changes what is written.  `take` moves what is due out of the wheel."""

    def __init__(self, now: Timestamp, store: ChunkStore | None = None) -> None:
        self.indexed_end = Offset(0)  # of the delay log
        self.data_end = Offset(0)  # of the data: what was delivered before it is noted
        self.scheduled_total = 0
        self.delivered_total = 0
        self.cancelled_total = 0
        self.expired_total = 0
        self.delivered_since_snapshot = 0
        self._wheel = TimerWheel(now, store)
        self._taken: dict[int, int] = {}  # offset to due: on the way to the data
        # Offsets that the wheel still has, and which must not be delivered again.
        self._gone: set[int] = set()  # delivered, and noted
        self._found: set[int] = set()  # in the data, and not noted yet
        self._rescheduled: dict[int, int] = {}  # offset to due, of those that wait
        self._cancelled: dict[int, None] = {}  # the newest last
        self._expired: dict[int, None] = {}
        self._places: dict[int, int] = {}  # offset to that of its copy, of those that wait

    # --- asking -----------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """How many messages wait."""
        return self._wheel.count - len(self._gone) - len(self._found)

    def next_time(self) -> Timestamp | None:
        """When to look again: something may be due then."""
        return self._wheel.next_time()

    def upcoming(self, most: int) -> list[int]:
        """The offsets that are due within some seconds, about in order."""
        return self._wheel.upcoming(most)

    def groups(self, after: int) -> Iterable[list[Packed]]:
        """What waits, in groups by time; see `TimerWheel.groups`, and leave out what `is_over`."""
        return self._wheel.groups(after)

    def is_over(self, offset: int) -> bool:
        """Whether an entry of the wheel is one that was delivered."""
        return offset in self._gone or offset in self._found

    def due_of(self, offset: int, first: int) -> int:
        """When the message is due that was to be delivered at `first` when it was published."""
        return self._rescheduled.get(offset, first)

    def state_of(self, offset: int, due: int) -> MessageState:
        """Of a message that is in the delay log, below `indexed_end`."""
        if offset in self._cancelled:
            return "cancelled"
        if offset in self._expired:
            return "expired"
        if self.is_over(offset) or not self._wheel.contains(due, offset):
            return "delivered"
        return "pending"

    def place_of(self, offset: int) -> int:
        """Where the message is in the delay log."""
        return self._places.get(offset, offset)

    @property
    def moved(self) -> int:
        """How many messages that wait are at another place."""
        return len(self._places)

    # --- deciding ---------------------------------------------------------------------------------

    def index(
        self,
        end: Offset,
        dues: Sequence[int],
        offsets: Sequence[int],
        copies: Iterable[Copy] = (),
    ) -> Decision[DelayRecord, None]:
        """The delay log was read up to `end`; copies of what waits no more mean nothing."""
        indexed = Indexed(end, pack(dues), pack(offsets))
        moved = [each for each in copies if self._is_needed(each)]
        if not moved:
            return Decision((indexed,), None)
        places = pack(copy.place for copy in moved)
        return Decision((indexed, Moved(pack(copy.offset for copy in moved), places)), None)

    def _is_needed(self, copy: "Copy") -> bool:
        if copy.offset in self._taken:
            return True
        return self.state_of(copy.offset, self.due_of(copy.offset, copy.first)) == "pending"

    def cancel(self, offset: Offset, first: int) -> Decision[DelayRecord, Timestamp]:
        """Gives when it would have been due; `first` is what the delay log says."""
        due = self._check_pending(offset, first)
        return Decision((Cancelled(offset, due),), due)

    def reschedule(
        self, offset: Offset, first: int, due: Timestamp
    ) -> Decision[DelayRecord, Timestamp]:
        """Gives when it was due before."""
        former = self._check_pending(offset, first)
        return Decision((Rescheduled(offset, former, due),), former)

    def _check_pending(self, offset: Offset, first: int) -> Timestamp:
        due = self.due_of(offset, first)
        state = self.state_of(offset, due)
        if state != "pending":
            raise DelayedMessageFinished(f"the message was {state} already")
        return Timestamp(due)

    def deliver(self, offsets: Sequence[int], data_end: Offset) -> Decision[DelayRecord, None]:
        """They are in the data, committed, before `data_end`."""
        return Decision((Delivered(pack(offsets), data_end),), None)

    def expire(self, offsets: Sequence[int]) -> Decision[DelayRecord, None]:
        """They were taken, and are not delivered."""
        return Decision((Expired(pack(offsets)),), None)

    # --- taking -----------------------------------------------------------------------------------

    def take(self, now: Timestamp, most: int) -> list[Entry]:
        """What is due, the earliest first.  It has to be delivered, or put back."""
        self._wheel.advance(now)
        taken = list[Entry]()
        while len(taken) < most and (some := self._wheel.take(now, most - len(taken))):
            for entry in some:
                due, offset = entry
                if offset in self._gone:
                    self._gone.discard(offset)
                elif offset in self._found:
                    self._found.discard(offset)
                    self._taken[offset] = due
                else:
                    self._taken[offset] = due
                    taken.append(entry)
        return taken

    @property
    def is_moving(self) -> bool:
        """Whether `take` wants to be called again soon: the wheel is not done with its work."""
        return self._wheel.is_cascading

    def put_back(self, entries: Iterable[Entry]) -> None:
        """They could not be delivered."""
        for due, offset in entries:
            if self._taken.pop(offset, None) is not None:
                self._wheel.add(due, offset)

    def note_found(self, offsets: Iterable[int]) -> None:
        """They are in the data, which may not be committed yet, and it was not noted."""
        self._found.update(offset for offset in offsets if offset not in self._gone)

    # --- changing ---------------------------------------------------------------------------------

    def apply(self, record: DelayRecord) -> None:
        match record:
            case Indexed(end=end, dues=dues, offsets=offsets):
                self.indexed_end = end
                found = unpack(dues)
                self.scheduled_total += len(found)
                self._wheel.add_all(found, unpack(offsets))
            case Delivered():
                self.delivered_total += self._finish(unpack(record.offsets))
                self.data_end = record.data_end
            case Expired(offsets=offsets):
                expired = unpack(offsets)
                self.expired_total += self._finish(expired)
                _keep_newest(self._expired, expired)
            case Moved(offsets=offsets, places=places):
                self._places.update(zip(unpack(offsets), unpack(places), strict=True))
            case Cancelled(offset=offset, due=due):
                self._wheel.remove(due, offset)
                self._rescheduled.pop(offset, None)
                self._places.pop(offset, None)
                self.cancelled_total += 1
                _keep_newest(self._cancelled, (offset,))
            case Rescheduled(offset=offset, former=former, due=due):
                self._wheel.remove(former, offset)
                self._wheel.add(due, offset)
                self._rescheduled[offset] = due
            case PendingKept(dues=dues, offsets=offsets):
                self._wheel.add_all(unpack(dues), unpack(offsets))
            case ReschedulesKept(dues=dues, offsets=offsets):
                pairs = zip(unpack(offsets), unpack(dues), strict=True)
                self._rescheduled.update(pairs)
            case TimersKept():
                self._apply_kept(record)

    def _finish(self, offsets: "array[int]") -> int:
        """They wait no more; gives how many they are."""
        for offset in offsets:
            self._rescheduled.pop(offset, None)
            self._places.pop(offset, None)
            if self._taken.pop(offset, None) is None:
                self._found.discard(offset)
                self._gone.add(offset)
        self.delivered_since_snapshot += len(offsets)
        return len(offsets)

    def _apply_kept(self, record: TimersKept) -> None:
        self.indexed_end = record.end
        self.data_end = record.data_end
        self.scheduled_total = record.scheduled_total
        self.delivered_total = record.delivered_total
        self.cancelled_total = record.cancelled_total
        self.expired_total = record.expired_total
        self.delivered_since_snapshot = 0
        _keep_newest(self._cancelled, unpack(record.cancelled))
        _keep_newest(self._expired, unpack(record.expired))

    # --- writing down -----------------------------------------------------------------------------

    encode = staticmethod(encode)
    decode = staticmethod(decode)

    def snapshot(self) -> Generator[DelayRecord, None, None]:
        taken = list(self._taken.items())
        gone = pack(self._gone)
        rescheduled = list(self._rescheduled.items())
        moved = list(self._places.items())
        last = TimersKept(
            self.indexed_end,
            self.data_end,
            pack(self._cancelled),
            self.scheduled_total,
            self.delivered_total,
            self.cancelled_total,
            pack(self._expired),
            self.expired_total,
        )
        self.delivered_since_snapshot = 0
        for dues, offsets in self._wheel.snapshot():
            yield PendingKept(pack(dues), pack(offsets))
        for some in _slices(taken):
            yield PendingKept(pack(due for _, due in some), pack(offset for offset, _ in some))
        for some in _slices(rescheduled):
            yield ReschedulesKept(pack(due for _, due in some), pack(offset for offset, _ in some))
        for some in _slices(moved):
            yield Moved(pack(offset for offset, _ in some), pack(place for _, place in some))
        size = 8 * CHUNK_ENTRIES
        for start in range(0, len(gone), size):
            yield Delivered(gone[start : start + size], last.data_end)
        yield last

    def needed_offsets(self) -> Iterator["array[int]"]:
        """Of what waits or is on its way, by chunk; as it was at the first step."""
        taken = array("q", self._taken)
        for _, offsets in self._wheel.snapshot():
            yield offsets
        yield taken

    def next_deadline(self) -> Timestamp | None:
        """None: `take` is called by who delivers."""
        return None

    def on_deadline(self, now: Timestamp) -> Decision[DelayRecord, None]:
        raise AssertionError("it has no deadlines")


def _keep_newest(known: dict[int, None], offsets: Iterable[int]) -> None:
    for offset in offsets:
        known[offset] = None
    while len(known) > CANCELLED_KEPT:
        del known[next(iter(known))]


def _slices(pairs: "list[tuple[int, int]]") -> Generator[list[tuple[int, int]], None, None]:
    rest = iter(pairs)
    while some := list(islice(rest, CHUNK_ENTRIES)):
        yield some
