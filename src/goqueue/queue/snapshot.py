"""A ledger in a snapshot: its groups' states as records and back, while messages come and go.

A partition may hold a million messages, so it is written in pieces: one `PartitionSnapshot` with
all that is small, and as many `MessagesSnapshot` as it needs.  `QueueSnapshot.before` is told of
each record before it is applied: a message that it is about to change, and that is not written, is
written first.  See `goqueue.model.snapshots`; a `PartitionCopy` is the same for messages.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Final

from goqueue.model.ids import GroupId, Timestamp
from goqueue.model.snapshots import Walk
from goqueue.queue.history import History
from goqueue.queue.lease import Lease, LeaseBook
from goqueue.queue.message_states import State, within
from goqueue.queue.partition_state import DEAD, DEFERRED, PartitionState
from goqueue.queue.ranges import Range, Ranges, join_ranges
from goqueue.queue.records import (
    AckFloorMoved,
    DeadLettered,
    DeadLetterSnapshot,
    DeadLettersPlanned,
    DeadLettersRemoved,
    DeadMessage,
    Extended,
    Finished,
    HistorySnapshot,
    Leased,
    LeaseSnapshot,
    LogShortened,
    MarkedDead,
    MessagesSnapshot,
    Numbered,
    Opened,
    PartitionsForgotten,
    PartitionSnapshot,
    QueueRecord,
    RedriveStarted,
    ReservationsEnded,
    Reserved,
    Resumed,
    Returned,
    TransactionCoordinatorSeen,
)

PART_ENTRIES_MAX: Final = 100  # in one record, which takes less than a millisecond
ALL: Final = (0, 2**63 - 1)  # offsets
WORD: Final = 1_024  # bits

LeaseTerms = tuple[int, str, Timestamp, Timestamp, int]


class QueueSnapshot:
    """A ledger as it was when this was made, though `before` says that it changes."""

    def __init__(self, states: dict[GroupId, PartitionState], head: Sequence[QueueRecord]) -> None:
        self._states = states
        self._head = head  # all that is not a group's
        self._queue_walk = Walk(list(states.values()), PartitionCopy)

    def records(self) -> Generator[QueueRecord, None, None]:
        yield from self._head
        for queue in self._queue_walk:
            yield from queue.records()

    # --- changes ----------------------------------------------------------------------------------

    def before(self, record: QueueRecord) -> None:
        """The record is going to be applied."""
        match record:
            case Leased(where=where):
                new = [(first, last) for first, last, _ in record.fresh]
                new += [(each[0], each[0]) for each in (*record.passed, *record.deferred)]
                self._keep(where.group_id, _singles(record.again), new)
            case Finished(where=where, ranges=ranges) | Reserved(where=where, ranges=ranges):
                self._keep(where.group_id, ranges)
            case Returned(where=where, offsets=offsets) | Extended(where=where, offsets=offsets):
                self._keep(where.group_id, _singles(offsets))
            case MarkedDead(where=where, dead=messages):
                dead = _singles(each.offset for each in messages)
                self._keep(where.group_id, dead, dead)
            case DeadLettered(where=where, ranges=ranges):
                self._keep(where.group_id, ranges)
            case ReservationsEnded(where=where, transactional_id=transactional_id):
                for queue in self._of(where.group_id):
                    self._keep(where.group_id, queue.reserved_ranges(transactional_id))
            case AckFloorMoved(where=where, floor=floor):
                for queue in self._of(where.group_id):
                    below = (0, floor - 1)
                    self._keep(where.group_id, (ALL if floor < queue.ack_floor else below,))
            case LogShortened(end=end):
                for group_id in self._states:
                    self._keep(group_id, ((end, ALL[1]),))
            case Resumed():
                for group_id in self._states:
                    self._keep(group_id, (ALL,))
            case (
                Opened(where=where) | PartitionSnapshot(where=where) | MessagesSnapshot(where=where)
            ):
                self._keep(where.group_id, (ALL,))
            case PartitionsForgotten(group_id=group_id):
                for queue in self._of(group_id):  # it leaves to its copy what it had
                    self._queue_walk.keep(queue)
            case RedriveStarted() | DeadLettersRemoved() | DeadLetterSnapshot() | Numbered():
                return  # that is in the head
            case TransactionCoordinatorSeen() | DeadLettersPlanned():
                return

    def _keep(self, group_id: GroupId, ranges: Ranges, new: Iterable[Range] = ()) -> None:
        """Messages of a group are going to change; `new` ones to be held."""
        for queue in self._of(group_id):
            self._queue_walk.keep(queue)
            if queue.copy is not None:
                queue.copy.keep(ranges)
                queue.copy.leave_out(new)

    def _of(self, group_id: GroupId) -> Iterator[PartitionState]:
        """The group's state, if there is one."""
        queue = self._states.get(group_id)
        if queue is not None:
            yield queue


def _singles(offsets: Iterable[int]) -> Ranges:
    return tuple((offset, offset) for offset in offsets)


class PartitionCopy:
    """A queue as it was when this was made; `keep` what is going to change."""

    def __init__(self, queue: PartitionState) -> None:
        self._queue = queue
        self._messages = queue.messages  # a queue that is dropped takes another
        self._singles, self._runs = queue.messages.copy_states()
        self._written = _Bits()  # or not to be
        self._part = _Part(queue)
        self._head = PartitionSnapshot(
            where=queue.where,
            topic_id=queue.topic_id,
            floor=queue.ack_floor,
            fence=queue.fence,
            adopted_at=queue.adopted_at,
            cursors=tuple(queue.cursors),
            settled=tuple(queue.settled.items()),
        )
        queue.copy = self

    def keep(self, ranges: Ranges) -> None:
        for first, last in ranges:
            for low, high, state in self._messages.pieces(first, last):
                if state == DEFERRED:
                    self._keep_deferred(low)
                else:
                    self._write(low, high, state)

    def leave_out(self, ranges: Iterable[Range]) -> None:
        for first, last in ranges:
            self._written.add(first, last)

    def _keep_deferred(self, offset: int) -> None:
        """With those that wait before it, for they are written in their order."""
        for each in self._queue.busy[self._queue.keys[offset]] or ():
            self._write(each, each, DEFERRED)
            if each == offset:
                return

    def _write(self, first: int, last: int, state: State) -> None:
        for low, high in self._unwritten(first, last):
            self._part.add(low, high, state)
            self._written.add(low, high)

    def _unwritten(self, first: int, last: int) -> Iterable[Range]:
        written = self._written
        if not written.has_any(first, last):
            return ((first, last),)
        return join_ranges(_singles(each for each in range(first, last + 1) if each not in written))

    def records(self) -> Iterator[QueueRecord]:
        """To be read only once."""
        yield self._head
        for offset in self._singles:
            if offset not in self._written:
                self._write(offset, offset, self._messages[offset])
            if self._part.entries >= PART_ENTRIES_MAX:
                yield self._take_part()
        for first, last, lease in self._runs:
            self._write(first, last, lease)
            if self._part.entries >= PART_ENTRIES_MAX:
                yield self._take_part()
        if self._part.entries:
            yield self._take_part()
        self._queue.copy = None

    def _take_part(self) -> MessagesSnapshot:
        part, self._part = self._part, _Part(self._queue)
        return part.record()


class _Bits:
    """A set of offsets; a large `set` takes long whenever it grows."""

    def __init__(self) -> None:
        self._words: dict[int, int] = {}  # of WORD bits

    def __contains__(self, offset: int) -> bool:
        return bool(self._words.get(offset // WORD, 0) >> offset % WORD & 1)

    def has_any(self, first: int, last: int) -> bool:
        words = self._words
        return any(words.get(word, 0) & mask for word, mask in _masks(first, last))

    def add(self, first: int, last: int) -> None:
        words = self._words
        for word, mask in _masks(first, last):
            words[word] = words.get(word, 0) | mask


def _masks(first: int, last: int) -> Iterator[tuple[int, int]]:
    while first <= last:
        word, low = divmod(first, WORD)
        count = min(last - first + 1, WORD - low)
        yield word, ((1 << count) - 1) << low
        first += count


class _Part:
    """Some messages of a queue, as they are when they are added."""

    def __init__(self, queue: PartitionState) -> None:
        self._queue = queue
        self._count = 0
        self._leases: dict[tuple[LeaseTerms, str], list[Range]] = {}
        self._waiting: list[tuple[int, int]] = []
        self._lanes: list[tuple[int, int]] = []
        self._keys: list[tuple[int, int]] = []
        self._deferred: dict[int, list[int]] = {}
        self._history: list[HistorySnapshot] = []
        self._dead: list[DeadMessage] = []

    @property
    def entries(self) -> int:
        return self._count + len(self._lanes) + len(self._keys) + len(self._history)

    def add(self, first: int, last: int, state: State) -> None:
        queue = self._queue
        if isinstance(state, Lease):
            self._leases.setdefault((_terms(state), state.transactional_id), []).append(
                (first, last)
            )
        elif state == DEAD:
            self._dead.append(queue.dead[first])
        elif state == DEFERRED:
            self._deferred.setdefault(queue.keys[first], []).append(first)
        else:
            self._waiting.append((first, state))
        lanes, keys = queue.lanes, queue.keys
        self._lanes += [(each, lanes[each]) for each in within(lanes, first, last)]
        if state != DEFERRED:
            self._keys += [(each, keys[each]) for each in within(keys, first, last)]
        for each in within(queue.history, first, last):
            self._history.append(queue.history[each].snapshot(each))
        self._count += 1

    def record(self) -> MessagesSnapshot:
        return MessagesSnapshot(
            where=self._queue.where,
            leases=tuple(
                LeaseSnapshot(*terms, join_ranges(ranges), owner)
                for (terms, owner), ranges in self._leases.items()
            ),
            waiting=tuple(self._waiting),
            lanes=tuple(self._lanes),
            keys=tuple(self._keys),
            deferred=tuple((key, tuple(offsets)) for key, offsets in self._deferred.items()),
            history=tuple(self._history),
            dead=tuple(self._dead),
        )


def _terms(lease: Lease) -> LeaseTerms:
    return (
        lease.lease_id,
        lease.consumer,
        lease.delivered_at,
        lease.deadline,
        lease.visibility_ms,
    )


# --- and back -------------------------------------------------------------------------------------


def restore(record: PartitionSnapshot, book: LeaseBook) -> PartitionState:
    queue = PartitionState(record.where, record.topic_id, record.floor, book)
    queue.fence = record.fence
    queue.adopted_at = record.adopted_at
    queue.cursors = list(record.cursors)
    queue.settled = dict(record.settled)
    restore_messages(queue, record)
    return queue


def restore_messages(queue: PartitionState, record: PartitionSnapshot | MessagesSnapshot) -> None:
    """Snapshots of before have all of it in the one record."""
    queue.lanes.update(record.lanes)
    for each in record.history:
        queue.history[each.offset] = _history(each)
    for message in record.dead:
        queue.dead[message.offset] = message
        queue.messages[message.offset] = DEAD
    for lease in record.leases:
        queue.restore_lease(lease)
    for offset, visible_at in record.waiting:
        queue.restore_waiting(offset, visible_at)
    for offset, key in record.keys:
        queue.keys[offset] = key
        queue.busy.setdefault(key)
    for key, offsets in record.deferred:
        _restore_deferred(queue, key, offsets)


def _restore_deferred(queue: PartitionState, key: int, offsets: tuple[int, ...]) -> None:
    deferred = queue.busy.get(key)
    if deferred is None:
        deferred = queue.busy[key] = deque()
    deferred.extend(offsets)
    queue.deferred_count += len(offsets)
    for offset in offsets:
        queue.keys[offset] = key
        queue.messages[offset] = DEFERRED


def _history(record: HistorySnapshot) -> History:
    history = History(record.first_at)
    history.deliveries = record.deliveries
    history.failures = record.failures
    history.timeouts = record.timeouts
    history.last_at = record.last_at
    history.consumer = record.consumer
    history.error = record.error
    history.lease_id = record.lease_id
    return history
