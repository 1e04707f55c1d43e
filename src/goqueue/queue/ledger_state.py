"""The state of one partition's queue ledger; only `apply` changes it, live and in a replay.

`machine` decides which records to write.  This file has what follows from them: the state of every
group in the partition, what became of its dead letters, the deadlines, and the snapshot.

What is a group's and not a partition's is in the `GroupTable` that a ledger is handed: a decision
reads settings there, and what is applied is counted there.
"""

import heapq
from collections.abc import Generator, Iterator

import msgspec

from goqueue.model.ids import NO_TIMESTAMP, GroupId, Offset, Timestamp, TopicName
from goqueue.queue import snapshot
from goqueue.queue.dead_letter import DeadLetterIndex
from goqueue.queue.group_table import GroupTable
from goqueue.queue.partition_state import DEAD, PartitionState
from goqueue.queue.ranges import each_offset, ranges_of
from goqueue.queue.records import (
    AckFloorMoved,
    DeadLettered,
    DeadLetterSnapshot,
    DeadLettersPlanned,
    DeadLettersRemoved,
    Extended,
    Finished,
    Leased,
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
    decode,
    encode,
)
from goqueue.queue.replies import Totals
from goqueue.queue.snapshot import QueueSnapshot
from goqueue.queue.totals import count_dead, count_finished, count_returned


class LedgerState:
    def __init__(self, topic: TopicName, partition: int, table: GroupTable) -> None:
        self.topic = topic
        self.partition = partition
        self.table = table
        self.states: dict[GroupId, PartitionState] = {}
        self.dead_letters = DeadLetterIndex()  # of the partition itself, if it holds dead letters
        self.dead_letters_end = Offset(0)  # all that was written to its dead letters below is noted
        self.dead_letter_plan: DeadLettersPlanned | None = None  # the last one, written or not
        self.dead_letter_sequence = 0  # of the next dead letter, with the producer of that plan
        self.next_lease_id = 1
        # The newest epoch of each transaction coordinator, by its markers.
        self.coordinator_epochs: dict[int, int] = {}
        self._alarms: list[tuple[int, int, PartitionState]] = []  # heap of (when, number, whose)
        self._serial = 0
        self._snapshot: QueueSnapshot | None = None  # that is being read
        self.counts = True  # what is applied; not in a replay, of what was counted when it was done

    def close(self) -> None:
        """The partition is gone, and with it what the table knows of it."""
        for group_id in list(self.states):
            self._drop(group_id)

    # --- deadlines --------------------------------------------------------------------------------

    def next_deadline(self) -> Timestamp | None:
        alarms = self._alarms
        while alarms and alarms[0][2].alarm != alarms[0][0]:
            heapq.heappop(alarms)
        return Timestamp(alarms[0][0]) if alarms else None

    def take_due(self, now: Timestamp) -> PartitionState | None:
        """The state whose deadline has passed for longest; whoever takes it calls `watch` later."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        state = heapq.heappop(self._alarms)[2]
        state.alarm = None
        return state

    def watch(self, state: PartitionState) -> bool:
        """Put the deadline of the state in line; whether it is a new one.

        A search for ready messages may bring one forward, so whoever searched calls this too.
        """
        alarm = state.next_alarm()
        if alarm is None or (state.alarm is not None and alarm >= state.alarm):
            return False
        state.alarm = alarm
        self._serial += 1
        heapq.heappush(self._alarms, (alarm, self._serial, state))
        return True

    # --- applying ---------------------------------------------------------------------------------

    def apply(self, record: QueueRecord) -> None:
        if self._snapshot is not None:
            self._snapshot.before(record)
        match record:
            case (
                Leased()
                | Finished()
                | Returned()
                | Extended()
                | MarkedDead()
                | DeadLettered()
                | AckFloorMoved()
            ):
                self._apply_to_state(record)
            case Reserved() | ReservationsEnded():
                self._apply_reservation(record)
            case Opened(where=where, topic_id=topic_id, floor=floor, adopted_at=adopted_at):
                group = self.table.group_of(where.group_id)
                state = PartitionState(where, topic_id, floor, group.book)
                state.adopted_at = adopted_at
                state.fence = self.next_lease_id  # earlier deliveries are not its own
                self._put(state)
            case PartitionSnapshot(where=where):
                self._put(snapshot.restore(record, self.table.group_of(where.group_id).book))
            case MessagesSnapshot(where=where):
                state = self.states[where.group_id]
                snapshot.restore_messages(state, record)
                self.table.note_restored(state)
                self.watch(state)
            case PartitionsForgotten(group_id=group_id):
                self._drop(group_id)
            case Resumed(at=at):
                for state in self.states.values():
                    state.resume(at)
                    self.watch(state)
            case LogShortened():
                self._shorten(record)
            case Numbered(next_lease_id=next_lease_id):
                self.next_lease_id = next_lease_id
            case DeadLettersPlanned(sequence=sequence):
                self.dead_letter_plan = record
                self.dead_letter_sequence = sequence
            case TransactionCoordinatorSeen(epoch=epoch, coordinator=coordinator):
                self.coordinator_epochs[coordinator] = epoch
            case RedriveStarted(moves=moves):
                self.dead_letters.moves.extend(moves)
            case DeadLettersRemoved(ranges=ranges, floor=floor, kept=kept):
                self.dead_letters.remove(ranges, floor, kept)
            case DeadLetterSnapshot(taken=taken, floor=floor, end=end, moves=moves):
                self.dead_letters.remove(taken, floor)
                self.dead_letters.moves.extend(moves)
                self.dead_letters_end = end

    def _apply_to_state(
        self,
        record: Leased | Finished | Returned | Extended | MarkedDead | DeadLettered | AckFloorMoved,
    ) -> None:
        group_id = record.where.group_id
        state = self.states[group_id]
        totals = self._totals_of(group_id)
        match record:
            case Leased():
                state.lease(record)
                self.next_lease_id = max(self.next_lease_id, record.lease_id + 1)
                fresh = sum(last - first + 1 for first, last, _ in record.fresh)
                totals.delivered += fresh + len(record.again)
                totals.retried += sum(state.attempt(offset) > 1 for offset in record.again)
            case Finished(ranges=ranges, cursors=cursors):
                state.finish(ranges)
                if cursors:
                    state.advance_to(cursors)
                count_finished(totals, record)
            case Returned():
                state.give_back(record)
                count_returned(totals, record)
            case Extended():
                state.extend(record)
                totals.extended += len(record.offsets)
            case MarkedDead():
                state.mark_dead(record)
                self.table.note_dead(state)
                count_dead(totals, record)
            case DeadLettered(ranges=ranges, dead_letters_end=end):
                dead = [each for each in each_offset(ranges) if state.messages.get(each) == DEAD]
                state.finish(ranges_of(dead))
                self.dead_letters_end = end or self.dead_letters_end
                self._note_written(record)
                self.table.note_dead(state)
            case AckFloorMoved(floor=floor, fence=fence, adopted_at=adopted_at):
                state.move_ack_floor(floor, fence)
                if adopted_at != NO_TIMESTAMP:
                    state.adopted_at = adopted_at
                self.table.note_dead(state)
        self.watch(state)

    def _totals_of(self, group_id: GroupId) -> Totals:
        return self.table.groups[group_id].totals_in(self.topic) if self.counts else Totals()

    def _note_written(self, record: DeadLettered) -> None:
        plan = self.dead_letter_plan
        if plan is not None and (plan.where, plan.ranges) == (record.where, record.ranges):
            self.dead_letter_sequence += sum(last - first + 1 for first, last in plan.ranges)
            self.dead_letter_plan = msgspec.structs.replace(plan, ranges=())

    def _apply_reservation(self, record: Reserved | ReservationsEnded) -> None:
        where, transactional_id = record.where, record.transactional_id
        state = self.states[where.group_id]
        match record:
            case Reserved():
                state.reserve_for_transaction(record)
                self.table.note_reserved(transactional_id, state)
            case ReservationsEnded(commits=True):
                done = Finished(where, state.reserved_ranges(transactional_id))
                state.finish(done.ranges)
                count_finished(self._totals_of(where.group_id), done)
                self.table.note_reservation_ended(transactional_id, state)
            case ReservationsEnded(at=at):
                state.cancel_reservation(transactional_id, at)
                self.table.note_reservation_ended(transactional_id, state)
        self.watch(state)

    def _shorten(self, record: LogShortened) -> None:
        for state in self.states.values():
            if state.topic_id == record.topic_id and state.reaches(record.end):
                state.shorten(record.end, record.fence)
                self.table.note_dead(state)
                self.watch(state)
        self.dead_letters.shorten(record.end)

    def _put(self, state: PartitionState) -> None:
        self._drop(state.where.group_id)
        self.states[state.where.group_id] = state
        self.table.put(state)
        self.watch(state)

    def _drop(self, group_id: GroupId) -> None:
        state = self.states.pop(group_id, None)
        if state is not None:
            self.table.drop(state)

    # --- keeping ----------------------------------------------------------------------------------

    def snapshot(self) -> Generator[QueueRecord, None, None]:
        dead_letters = self.dead_letters
        taken = QueueSnapshot(
            self.states,
            (
                *self._outside_facts(),
                Numbered(self.next_lease_id),
                DeadLetterSnapshot(
                    self.topic,
                    self.partition,
                    dead_letters.floor,
                    dead_letters.taken.ranges,
                    self.dead_letters_end,
                    tuple(dead_letters.moves),
                ),
            ),
        )
        self._snapshot = taken
        return self._read(taken)

    def _outside_facts(self) -> Iterator[QueueRecord]:
        """Of the coordinator of transactions, and the producer of dead letters."""
        for coordinator, epoch in self.coordinator_epochs.items():
            yield TransactionCoordinatorSeen(epoch, coordinator)
        if self.dead_letter_plan is not None:
            sequence = self.dead_letter_sequence
            yield msgspec.structs.replace(self.dead_letter_plan, sequence=sequence)

    def _read(self, taken: QueueSnapshot) -> Generator[QueueRecord, None, None]:
        try:
            yield from taken.records()
        finally:
            if taken is self._snapshot:
                self._snapshot = None
                for state in self.states.values():
                    state.copy = None

    def encode(self, record: QueueRecord) -> bytes:
        return encode(record)

    def decode(self, data: bytes) -> QueueRecord:
        return decode(data)
