"""One group's state in one partition: which messages are finished, and which are not yet.

              ack floor                                cursors (one a lane)
    ──────────────|──────────────────────────────────────|──────────────────────>
      finished      finished, except those in              never delivered:
                    `messages`: in flight, waiting,        costs no memory
                    ready, deferred, dead

Nothing is kept of a finished message, nor of one that was never delivered: an offset between the
ack floor and its lane's cursor that is not in `messages` is finished.  So memory follows what is in
flight: a run and a `Lease` for a delivery, and an entry of a dictionary (about 100 bytes) for each
message that has a state of its own.

The state of a message is one of

    a Lease       in flight; the lease says whose, and until when
    a time        waits for its retry, and is ready from then on (READY: at once)
    DEFERRED      passed over because another message of its key is not finished
    DEAD          to be written to the dead letters

Only `apply` in `machine.py` calls what is under "changing".  The heaps are derived from `messages`,
and an entry of theirs that `messages` does not confirm any more is skipped.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from goqueue.model.ids import NO_TIMESTAMP, Offset, Timestamp, TopicId
from goqueue.queue.history import History
from goqueue.queue.lanes import LANES, NORMAL
from goqueue.queue.lease import Lease, LeaseBook
from goqueue.queue.message_states import MessageStates, State, within
from goqueue.queue.ranges import Range, Ranges, each_offset, join_ranges, ranges_of
from goqueue.queue.records import (
    DeadMessage,
    Extended,
    Leased,
    LeaseSnapshot,
    MarkedDead,
    Reserved,
    Returned,
    Where,
)

READY: Final = 0
DEFERRED: Final = -1
DEAD: Final = -2

NEVER: Final = Timestamp(2**63 - 1)
NO_LEASE: Final = -1  # not the last delivery ended it: no receipt is good for it
SETTLED_MAX: Final = 1_000  # finished messages whose last lease is remembered, to refuse older ones
STALE_MAX: Final = 1_000  # entries of leases that are over, before they are swept out


class CopyUnderWay(Protocol):
    """See `snapshot`."""

    def keep(self, ranges: Ranges) -> None:
        """These are going to change."""

    def leave_out(self, ranges: Iterable[Range]) -> None:
        """These are going to be held, and were not when the snapshot began."""


class PartitionState:
    def __init__(self, where: Where, topic_id: TopicId, floor: int, book: LeaseBook) -> None:
        self.where = where
        self.topic_id = topic_id
        self.ack_floor = Offset(floor)  # invariant: everything below is finished
        self.fence = 0  # leases with lower numbers are void
        self.adopted_at = (
            NO_TIMESTAMP  # the newest offset commit by others that moved the ack floor
        )
        self.moves = 0  # how often an operator moved the ack floor: selections from before are void
        self.cursors = [floor] * LANES  # invariant: all of a lane below its cursor was delivered
        self.messages = MessageStates()
        self.lanes: dict[int, int] = {}  # of what is not finished, unless normal
        self.history: dict[int, History] = {}
        self.dead: dict[int, DeadMessage] = {}  # of those that are DEAD
        self.keys: dict[int, int] = {}  # of what is not finished, when keys have order
        self.busy: dict[int, deque[int] | None] = {}  # key in flight (or waiting) to those deferred
        self.deferred_count = 0
        self.settled: dict[int, int] = {}  # finished offset to its last lease, oldest first
        self.leases: dict[Lease, None] = {}
        self.reserved: dict[str, dict[Lease, None]] = {}  # those that wait for a transaction's end
        self.in_flight = [0] * LANES
        self.delivered = [0] * LANES  # since the broker started
        self.copy: CopyUnderWay | None = None  # of a snapshot that is being written
        self.alarm: int | None = None  # when the machine is going to look at this state
        self._book = book
        self._ready: list[list[int]] = [[] for _ in range(LANES)]  # heaps of offsets
        self._waiting: list[tuple[int, int]] = []  # heap of (visible at, offset)
        self._expiring: list[tuple[int, int, Lease]] = []  # heap of (deadline, number, lease)
        self._stale = 0  # entries there whose lease is over
        self._serial = 0

    # --- asking -----------------------------------------------------------------------------------

    def attempt(self, offset: int) -> int:
        """How often the message was delivered, counting the delivery at hand."""
        history = self.history.get(offset)
        return history.deliveries if history is not None else 1

    def attempts(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """As `attempt`, of a range: first, last and attempt of each part that is alike."""
        for offset in within(self.history, first, last):
            if first < offset:
                yield first, offset - 1, 1
            yield offset, offset, self.history[offset].deliveries
            first = offset + 1
        if first <= last:
            yield first, last, 1

    def attempts_so_far(self, offset: int) -> int:
        """How often a message that is in nobody's hands was delivered."""
        history = self.history.get(offset)
        return history.deliveries if history is not None else 0

    def failures(self, offset: int) -> int:
        history = self.history.get(offset)
        return history.failures if history is not None else 0

    def timeouts(self, offset: int) -> int:
        history = self.history.get(offset)
        return history.timeouts if history is not None else 0

    def lease_of(self, offset: int) -> Lease | None:
        state = self.messages.get(offset)
        return state if isinstance(state, Lease) else None

    def lane(self, offset: int) -> int:
        return self.lanes.get(offset, NORMAL)

    def is_ready(self, offset: int, now: int) -> bool:
        state = self.messages.get(offset)
        return isinstance(state, int) and READY <= state <= now

    def has_ready(self, lane: int, now: int) -> bool:
        self.ripen(now)
        heap = self._ready[lane]
        while heap and not self.is_ready(heap[0], now):
            self._not_ready(heapq.heappop(heap))
        return bool(heap)

    def ready_lanes(self, now: int) -> set[int]:
        self.ripen(now)
        return {lane for lane, heap in enumerate(self._ready) if heap and self.has_ready(lane, now)}

    def first_ready(self, lane: int, now: int) -> int | None:
        return self._ready[lane][0] if self.has_ready(lane, now) else None

    def next_alarm(self) -> int | None:
        """When the next lease runs out or the next waiting message is ready."""
        expiring, waiting = self._expiring, self._waiting
        while expiring and not _is_current(expiring[0]):
            heapq.heappop(expiring)
            self._stale -= 1
        while waiting and self.messages.get(waiting[0][1]) != waiting[0][0]:
            heapq.heappop(waiting)
        if expiring and waiting:
            return min(expiring[0][0], waiting[0][0])
        return expiring[0][0] if expiring else waiting[0][0] if waiting else None

    @property
    def has_deadlines(self) -> bool:
        return bool(self.leases) or any(
            state > READY for _, state in self.messages.iterate_waiting()
        )

    def find_expired(self, now: int, count: int) -> list[tuple[Lease, list[int]]]:
        """Leases that ran out by `now`, with what is still in flight, of about `count` messages."""
        found: dict[Lease, list[int]] = {}
        due: list[tuple[int, int, Lease]] = []
        while count > 0 and self._expiring and self._expiring[0][0] <= now:
            entry = heapq.heappop(self._expiring)
            lease = entry[2]
            if _is_current(entry) and lease not in found:
                due.append(entry)
                found[lease] = list(self.in_lease(lease))[:count]
                count -= len(found[lease])
        for entry in due:  # it stays due until the decision about it is applied
            heapq.heappush(self._expiring, entry)
        return list(found.items())

    def in_lease(self, lease: Lease) -> Iterator[int]:
        return each_offset(self.ranges_in_lease(lease))

    def ranges_in_lease(self, lease: Lease) -> Iterator[Range]:
        """What is left of it, as it was delivered."""
        for first, last in lease.ranges:
            for low, high, state in self.messages.pieces(first, last):
                if state is lease:
                    yield low, high

    def waiting_by_lane(self, now: int) -> list[int]:
        """Messages that wait for their retry or their key; for figures, so it takes its time."""
        counts = [0] * LANES
        for offset, state in self.messages.iterate_waiting():
            if state == DEFERRED or state > now:
                counts[self.lane(offset)] += 1
        return counts

    def ready_by_lane(self, now: int) -> list[int]:
        """Messages that came back or were passed over, and may go now; takes its time too."""
        counts = [0] * LANES
        for offset, state in self.messages.iterate_waiting():
            if READY <= state <= now:
                counts[self.lane(offset)] += 1
        return counts

    # --- choosing: `messages` stays as it is ------------------------------------------------------

    def ripen(self, now: int) -> bool:
        """Let waiting messages whose time has come be found by `take_ready`."""
        waiting = self._waiting
        has_any = False
        while waiting and waiting[0][0] <= now:
            visible_at, offset = heapq.heappop(waiting)
            if self.messages.get(offset) == visible_at:
                self._note_ready(offset)
                has_any = True
        return has_any

    def take_ready(self, lane: int, count: int, now: int) -> list[int]:
        """Up to `count` ready offsets, lowest first; who does not use them puts them back."""
        self.ripen(now)
        heap, found = self._ready[lane], list[int]()
        while heap and len(found) < count:
            offset = heapq.heappop(heap)
            while heap and heap[0] == offset:  # noted twice: it came back twice
                heapq.heappop(heap)
            if self.is_ready(offset, now):
                found.append(offset)
            else:
                self._not_ready(offset)
        return found

    def _not_ready(self, offset: int) -> None:
        """It left the heap of the ready ones; when it only waits again, it must be found again.

        That happens to a caller whose `now` is older than the one that let it ripen.
        """
        state = self.messages.get(offset)
        if isinstance(state, int) and state > READY:
            heapq.heappush(self._waiting, (state, offset))

    def put_back(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            state = self.messages.get(offset)
            if isinstance(state, int) and state >= READY:
                self._note_ready(offset)

    # --- changing ---------------------------------------------------------------------------------

    def lease(self, record: Leased) -> None:
        lease = Lease(record.lease_id, record.consumer, record.at, record.deadline)
        ranges = list[Range]()
        for first, last, lane in record.fresh:
            self.messages.put(first, last, lease)
            ranges.append((first, last))
            if lane != NORMAL:
                self.lanes.update(dict.fromkeys(range(first, last + 1), lane))
            self._count_delivered(lane, last - first + 1)
        for offset in record.again:
            self._lease_again(lease, offset)
        self._take_lease(lease, (*ranges, *((offset, offset) for offset in record.again)))
        for offset, key in record.keys:
            self.keys[offset] = key
            self.busy.setdefault(key)
        self._pass_over(record)
        self.cursors = list(record.cursors)
        self._advance()

    def _lease_again(self, lease: Lease, offset: int) -> None:
        self.messages[offset] = lease
        self._count_delivered(self.lane(offset), 1)
        history = self.history.get(offset)
        if history is not None:
            history.deliveries += 1
            history.last_at = lease.delivered_at
            history.consumer = lease.consumer

    def _count_delivered(self, lane: int, count: int) -> None:
        self.in_flight[lane] += count
        self.delivered[lane] += count

    def _take_lease(self, lease: Lease, ranges: Ranges) -> None:
        lease.ranges = ranges
        lease.remaining = sum(last - first + 1 for first, last in ranges)
        if not lease.remaining:
            return
        self.leases[lease] = None
        self._book.add(lease.consumer, lease.remaining)
        if lease.transactional_id:
            self.reserved.setdefault(lease.transactional_id, {})[lease] = None
        else:
            self._watch(lease)

    def _pass_over(self, record: Leased) -> None:
        for offset, lane in record.passed:
            self._note_lane(offset, lane)
            self._make_ready(offset)
        for offset, lane, key in record.deferred:
            self._note_lane(offset, lane)
            self.keys[offset] = key
            if key not in self.busy:  # freed since that was planned
                self.busy[key] = None
                self._make_ready(offset)
                continue
            deferred = self.busy[key]
            if deferred is None:
                deferred = self.busy[key] = deque()
            deferred.append(offset)
            self.messages[offset] = DEFERRED
            self.deferred_count += 1

    def finish(self, ranges: Ranges) -> None:
        """These are done with, whatever they were."""
        self._drop(ranges)
        self._advance()

    def give_back(self, record: Returned) -> None:
        for offset, visible_at in zip(record.offsets, record.visible_at, strict=True):
            lease = self.lease_of(offset)
            assert lease is not None, "only what is in flight can come back"
            self._leave(lease, 1, self.lane(offset))
            history = self._note_history(offset, lease)
            history.failures += record.is_failure
            history.timeouts += record.is_timeout
            history.last_at = record.at
            history.error = record.error or history.error
            if visible_at > record.at:
                self.messages[offset] = visible_at
                heapq.heappush(self._waiting, (visible_at, offset))
            else:
                self._make_ready(offset)

    def _note_history(self, offset: int, lease: Lease) -> History:
        history = self.history.get(offset)
        if history is None:
            history = self.history[offset] = History(lease.delivered_at)
        history.consumer = lease.consumer
        history.lease_id = lease.lease_id
        return history

    def extend(self, record: Extended) -> None:
        """Give some messages, which have the same lease or not, another deadline."""
        by_lease: dict[Lease, list[int]] = {}
        for offset in record.offsets:
            lease = self.lease_of(offset)
            assert lease is not None, "only what is in flight can be extended"
            by_lease.setdefault(lease, []).append(offset)
        for lease, offsets in by_lease.items():
            part = lease if len(offsets) == lease.remaining else self._split(lease, offsets)
            part.visibility_ms = record.deadline - record.at
            self._postpone(part, record.deadline)

    def _postpone(self, lease: Lease, deadline: Timestamp) -> None:
        if lease.deadline != deadline:
            lease.deadline = deadline
            self._stale += 1  # its entry in the heap
            self._watch(lease)

    def _split(self, lease: Lease, offsets: list[int]) -> Lease:
        part = Lease(lease.lease_id, lease.consumer, lease.delivered_at, lease.deadline)
        part.ranges = tuple((offset, offset) for offset in offsets)
        part.remaining = len(offsets)
        lease.remaining -= len(offsets)
        for offset in offsets:
            self.messages[offset] = part
        self.leases[part] = None
        self._watch(part)
        return part

    def reserve_for_transaction(self, record: Reserved) -> None:
        """Let these wait for a transaction; those that do so already stay as they are."""
        by_lease: dict[Lease, list[Range]] = {}
        for first, last in record.ranges:
            for low, high, state in self.messages.pieces(first, last):
                assert isinstance(state, Lease), "only what is in flight can be reserved"
                if not state.transactional_id:
                    by_lease.setdefault(state, []).append((low, high))
        for lease, ranges in by_lease.items():
            count = sum(last - first + 1 for first, last in ranges)
            part = lease if count == lease.remaining else self._cut(lease, ranges, count)
            part.transactional_id = record.transactional_id
            part.deadline = NEVER
            self._stale += part is lease  # its entry in the heap
            self.reserved.setdefault(record.transactional_id, {})[part] = None

    def _cut(self, lease: Lease, ranges: list[Range], count: int) -> Lease:
        """A part of the lease, with a life of its own; nobody watches it yet."""
        part = Lease(lease.lease_id, lease.consumer, lease.delivered_at, lease.deadline)
        part.visibility_ms = lease.visibility_ms
        part.ranges, part.remaining = tuple(ranges), count
        lease.remaining -= count
        for first, last in ranges:
            self.messages.remove(first, last)
            self.messages.put(first, last, part)
        self.leases[part] = None
        return part

    def cancel_reservation(self, transactional_id: str, at: Timestamp) -> None:
        """The transaction did not ack them: they are as they were, with their whole time."""
        for lease in self.reserved.pop(transactional_id, {}):
            lease.transactional_id = ""
            lease.deadline = Timestamp(at + lease.visibility_ms)
            self._watch(lease)

    def reserved_ranges(self, transactional_id: str) -> Ranges:
        leases = self.reserved.get(transactional_id, {})
        return join_ranges(each for lease in leases for each in self.ranges_in_lease(lease))

    def mark_dead(self, record: MarkedDead) -> None:
        for message in record.dead:
            offset = message.offset
            lease = self.lease_of(offset)
            if lease is not None:
                self._leave(lease, 1, self.lane(offset))
                self._note_history(offset, lease).deliveries = message.attempts
            was, self.messages[offset] = self.messages.get(offset), DEAD
            self.dead[offset] = message
            self._free_key(offset, was)

    def move_ack_floor(self, floor: int, fence: int) -> None:
        """Everything below is finished; when it moves back, everything from there on is not."""
        self.moves += 1
        is_back = floor < self.ack_floor
        over = [
            offset
            for offset, state in self.messages.items()
            if (offset < floor and state != DEAD) or (offset >= floor and is_back)
        ]
        self._drop_all(over)  # not the dead below: they are still to be written
        if is_back:
            self.fence = fence
            self.settled.clear()
            self.cursors = [floor] * LANES
        self.cursors = [max(cursor, floor) for cursor in self.cursors]
        self.ack_floor = Offset(floor)
        self._advance()

    def reaches(self, end: int) -> bool:
        """Whether anything at or behind `end` was finished or delivered."""
        return max(self.ack_floor, *self.cursors) > end

    def shorten(self, end: int, fence: int) -> None:
        """The log lost what was from `end` on: nothing that was done there counts any more."""
        self.moves += 1
        self._drop_all([offset for offset, _ in self.messages.items() if offset >= end])
        self.settled = {each: lease for each, lease in self.settled.items() if each < end}
        self.fence = fence
        self.cursors = [min(cursor, end) for cursor in self.cursors]
        self.ack_floor = Offset(min(self.ack_floor, end))

    def resume(self, now: Timestamp) -> None:
        """Nobody could ack or extend for a while: each lease lasts its whole time from now on.

        No longer, though, and no retry waits longer than its delay: the clock may have been set
        back meanwhile, and all deadlines lie far ahead then.
        """
        for lease in self.leases:
            if not lease.transactional_id:
                self._postpone(lease, Timestamp(now + lease.visibility_ms))
        for offset, visible_at in list(self.messages.iterate_waiting()):
            history = self.history.get(offset)
            if visible_at <= now or history is None:
                continue
            latest = now + max(0, visible_at - history.last_at)
            if latest < visible_at:
                self.restore_waiting(offset, latest)

    def advance_to(self, cursors: tuple[int, ...]) -> None:
        """The lanes have nothing below these that is to be delivered."""
        self.cursors = [max(pair) for pair in zip(self.cursors, cursors, strict=True)]
        self._advance()

    def clear(self) -> None:
        """Nobody holds anything of it any more."""
        for lease in self.leases:
            self._book.remove(lease.consumer, lease.remaining)
        self.leases.clear()
        self.reserved.clear()
        self.messages = MessageStates()  # a snapshot may still read the other one

    # --- from a snapshot --------------------------------------------------------------------------

    def restore_lease(self, kept: LeaseSnapshot) -> None:
        lease = Lease(kept.lease_id, kept.consumer, kept.delivered_at, kept.deadline)
        lease.visibility_ms = kept.visibility_ms
        lease.transactional_id = kept.transactional_id
        for first, last in kept.ranges:
            self.messages.put(first, last, lease)
            self.in_flight[NORMAL] += last - first + 1
            for offset in within(self.lanes, first, last):
                self.in_flight[NORMAL] -= 1
                self.in_flight[self.lanes[offset]] += 1
        self._take_lease(lease, kept.ranges)

    def restore_waiting(self, offset: int, visible_at: int) -> None:
        self.messages[offset] = visible_at
        if visible_at == READY:
            self._note_ready(offset)
        else:
            heapq.heappush(self._waiting, (visible_at, offset))

    # --- helpers ----------------------------------------------------------------------------------

    def _watch(self, lease: Lease) -> None:
        self._serial += 1
        heapq.heappush(self._expiring, (lease.deadline, self._serial, lease))
        if self._stale > STALE_MAX and self._stale * 2 > len(self._expiring):
            self._expiring = [entry for entry in self._expiring if _is_current(entry)]
            heapq.heapify(self._expiring)
            self._stale = 0

    def _note_lane(self, offset: int, lane: int) -> None:
        if lane != NORMAL:
            self.lanes[offset] = lane

    def _make_ready(self, offset: int) -> None:
        self.messages[offset] = READY
        self._note_ready(offset)

    def _note_ready(self, offset: int) -> None:
        heapq.heappush(self._ready[self.lane(offset)], offset)

    def _leave(self, lease: Lease | int | None, count: int, lane: int) -> None:
        """Some messages are no longer in flight; nothing happens if they never were."""
        if not count or not isinstance(lease, Lease):
            return
        self.in_flight[lane] -= count
        lease.remaining -= count
        self._book.remove(lease.consumer, count)
        if not lease.remaining:
            del self.leases[lease]
            if lease.transactional_id:
                self._drop_reservation(lease)
            else:
                self._stale += 1

    def _drop_reservation(self, lease: Lease) -> None:
        leases = self.reserved[lease.transactional_id]
        del leases[lease]
        if not leases:
            del self.reserved[lease.transactional_id]

    def _drop(self, ranges: Ranges) -> None:
        """Forget all there is to know of these; most often that is a lease and nothing more."""
        for first, last in ranges:
            for low, high, was in self.messages.remove(first, last):
                self._forget(low, high, was)

    def _drop_all(self, offsets: Iterable[int]) -> None:
        """As `_drop`; those first that wait for a key, so that none of them is its next."""
        deferred: list[int] = []
        others: list[int] = []
        for offset in sorted(offsets):
            (deferred if self.messages.get(offset) == DEFERRED else others).append(offset)
        self._drop(ranges_of(deferred))
        self._drop(ranges_of(others))

    def _forget(self, first: int, last: int, was: State) -> None:
        if first == last:
            self._forget_one(first, was)
            return
        normal = last - first + 1
        for offset in within(self.lanes, first, last):
            self._leave(was, 1, self.lanes.pop(offset))
            normal -= 1
        self._leave(was, normal, NORMAL)
        for offset in within(self.history, first, last):
            del self.history[offset]
            self._remember(offset, was.lease_id if isinstance(was, Lease) else NO_LEASE)
        for offset in within(self.dead, first, last):
            del self.dead[offset]
        for offset in within(self.keys, first, last):
            self._free_key(offset, was)

    def _forget_one(self, offset: int, was: State) -> None:
        """As `_forget`, which takes its time for one."""
        self._leave(was, 1, self.lanes.pop(offset, NORMAL))
        if self.history.pop(offset, None) is not None:
            self._remember(offset, was.lease_id if isinstance(was, Lease) else NO_LEASE)
        self.dead.pop(offset, None)
        if self.keys:
            self._free_key(offset, was)

    def _remember(self, offset: int, lease_id: int) -> None:
        self.settled.pop(offset, None)
        self.settled[offset] = lease_id
        if len(self.settled) > SETTLED_MAX:
            del self.settled[next(iter(self.settled))]

    def _free_key(self, offset: int, was: Lease | int | None) -> None:
        """The next message of the key may go, unless this one was only waiting for it itself."""
        key = self.keys.pop(offset, None)
        if key is None:
            return
        deferred = self.busy[key]
        if not deferred:
            del self.busy[key]
            return
        self.deferred_count -= 1
        if was == DEFERRED:
            deferred.remove(offset)
        else:
            if self.copy is not None:
                self.copy.keep(((deferred[0], deferred[0]),))
            self._make_ready(deferred.popleft())
        if not deferred:
            self.busy[key] = None

    def _advance(self) -> None:
        """Raise the ack floor over what is finished."""
        self.ack_floor = Offset(
            max(self.ack_floor, self.messages.lowest(self.ack_floor, min(self.cursors)))
        )


def _is_current(entry: tuple[int, int, Lease]) -> bool:
    deadline, _, lease = entry
    return lease.remaining > 0 and lease.deadline == deadline
