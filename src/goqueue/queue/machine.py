"""The queue machine: every group's state in every partition, every deadline, one log.

    verb(now, …) ──> Decision(records, reply)       reads state
    apply(record)                                   changes it
    next_deadline() / on_deadline(now)              leases run out, waiting messages become ready

Messages themselves stay in their topics, and what is set for a group in the metadata: the machine
is handed a function that knows.  The host of the machine reads them, chooses
(`Selection`), and has the choice decided by `lease`.  It also writes each message of `dead` to the
dead letters, and reports that by `dead_letter`; both may be repeated, before and after a crash.
"""

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from goqueue.model.ids import (
    NO_TIMESTAMP,
    GroupId,
    Offset,
    Timestamp,
    TopicId,
    TopicName,
    TopicPartition,
)
from goqueue.model.machine import Decision
from goqueue.queue import settling, snapshot
from goqueue.queue.dead_letter import DeadLetterIndex
from goqueue.queue.delivery import Delivery, Selection, decide_lease
from goqueue.queue.errors import QueueError, QueueGroupNotFound, ReceiptUnknown
from goqueue.queue.group import QueueGroup, SettingsOf
from goqueue.queue.lease import Lease
from goqueue.queue.partition_state import DEAD, PartitionState
from goqueue.queue.ranges import Ranges, each_offset, joined, ranges_of
from goqueue.queue.receipts import Claim, Claims
from goqueue.queue.records import (
    AckFloorMoved,
    DeadLettered,
    DeadLetterSnapshot,
    DeadLettersRemoved,
    DeadMessage,
    Extended,
    Finished,
    Forgotten,
    GroupCreated,
    GroupForgotten,
    Leased,
    LogShortened,
    MarkedDead,
    MemberJoined,
    MemberLeft,
    MessagesSnapshot,
    Move,
    Numbered,
    Opened,
    PartitionsForgotten,
    PartitionSnapshot,
    QueueMember,
    QueueRecord,
    RedriveStarted,
    ReservationsEnded,
    Reserved,
    Resumed,
    Returned,
    Where,
    decode,
    encode,
)
from goqueue.queue.settings import QueueSettings
from goqueue.queue.settling import Outcomes
from goqueue.queue.snapshot import QueueSnapshot
from goqueue.queue.totals import count_dead, count_finished, count_returned

EXPIRED_MAX: Final = 5_000  # messages whose time ran out that are dealt with in one decision
DEFAULTS: Final = QueueSettings()
LEASES_SKIPPED: Final = 1_000_000  # more than are made between two syncs

Records = Sequence[QueueRecord]
Ending = Callable[[QueueGroup, PartitionState, list[Claim], Outcomes], Records]


class Due(msgspec.Struct, frozen=True):
    """What a deadline brought."""

    groups: frozenset[GroupId]  # that have something to hand out now
    has_dead: bool


class QueueMachine:
    """All queue groups of a broker.  Verbs raise `QueueError` to refuse; then nothing changes."""

    def __init__(self, settings_of: SettingsOf = lambda _: DEFAULTS) -> None:
        self._settings_of = settings_of
        self.groups: dict[GroupId, QueueGroup] = {}
        self.dead_letter_indexes: dict[TopicPartition, DeadLetterIndex] = {}
        self.next_lease_id = 1
        self.reservations: dict[
            str, dict[PartitionState, None]
        ] = {}  # transaction to where it may have messages
        self._with_dead: dict[PartitionState, None] = {}  # those that have dead messages
        self._alarms: list[tuple[int, int, PartitionState]] = []  # heap of (when, number, whose)
        self._serial = 0
        self._snapshot: QueueSnapshot | None = None  # that is being read

    # --- asking -----------------------------------------------------------------------------------

    def group(self, group_id: GroupId) -> QueueGroup:
        found = self.groups.get(group_id)
        if found is None:
            raise QueueGroupNotFound(f"there is no queue group {group_id!r}")
        return found

    def state(self, where: Where) -> PartitionState | None:
        group = self.groups.get(where.group_id)
        if group is None:
            return None
        return group.states.get(TopicPartition(where.topic, where.partition))

    def states(self) -> Iterator[PartitionState]:
        return (state for group in self.groups.values() for state in group.states.values())

    def dead(self) -> list[tuple[PartitionState, list[DeadMessage]]]:
        """Messages that are to become dead letters, and are not yet."""
        return [(state, list(state.dead.values())) for state in self._with_dead]

    @property
    def has_dead(self) -> bool:
        return bool(self._with_dead)

    def dead_letter_index(self, topic: TopicName, partition: int) -> DeadLetterIndex:
        return self.dead_letter_indexes.get(TopicPartition(topic, partition)) or DeadLetterIndex()

    def in_flight(self, where: Where, first: int, last: int, consumer: str | None = None) -> Claims:
        """Receipts, as it were, for what is in flight in a range of offsets, in no transaction."""
        state = self.state(where)
        if state is None:
            return {}
        claims: Claims = {}
        place = 0
        for low, high, holder in state.messages.pieces(first, last):
            if not isinstance(holder, Lease) or consumer not in (None, holder.consumer):
                continue
            if holder.transactional_id:
                continue  # the end of its transaction decides
            some = claims.setdefault((where, holder.lease_id), [])
            for start, end, attempt in state.attempts(low, high):
                some.append(Claim(start, end, attempt, place))
                place += end - start + 1
        return claims

    # --- groups and states -----------------------------------------------------------------------

    def take_former_settings(self) -> dict[GroupId, QueueSettings]:
        """What the log said of settings, when it kept them; a snapshot has them up to this call."""
        taken: dict[GroupId, QueueSettings] = {}
        for group in self.groups.values():
            if group.former_settings is not None:
                taken[group.group_id] = group.former_settings
                group.former_settings = None
        return taken

    def take_former_members(
        self,
    ) -> tuple[dict[GroupId, int], list[tuple[GroupId, QueueMember]]]:
        """As `take_former_settings`: how often members came or went in each group, and who is."""
        epochs: dict[GroupId, int] = {}
        members: list[tuple[GroupId, QueueMember]] = []
        for group in self.groups.values():
            if group.generation:
                epochs[group.group_id] = group.generation
                members += [(group.group_id, each) for each in group.members.values()]
                group.generation, group.members = 0, {}
        return epochs, members

    def open(
        self,
        where: Where,
        topic_id: TopicId,
        floor: Offset,
        adopted_at: Timestamp = NO_TIMESTAMP,
    ) -> Decision[QueueRecord, None]:
        """Begin in a partition, or anew in a topic that was deleted and made again."""
        state = self.state(where)
        if state is not None and state.topic_id == topic_id:
            return Decision((), None)
        records: list[QueueRecord] = []
        if where.group_id not in self.groups:
            records.append(GroupCreated(where.group_id))
        return Decision((*records, Opened(where, topic_id, floor, adopted_at)), None)

    def move_ack_floor(
        self, where: Where, floor: Offset, adopted_at: Timestamp = NO_TIMESTAMP
    ) -> Decision[QueueRecord, None]:
        """By decree; `adopted_at` is the time of the offset commit that asks for it."""
        state = self.state(where)
        if state is None:
            return Decision((), None)
        return Decision((AckFloorMoved(where, floor, self.next_lease_id, adopted_at),), None)

    def shorten_log(
        self, topic: TopicName, partition: int, topic_id: TopicId, end: Offset
    ) -> Decision[QueueRecord, list[tuple[Where, Offset]]]:
        """A log ends at `end`, whatever was known of it; gives the floors of who knew more.

        To be durable before anything is written to that log.
        """
        found = (
            group.states.get(TopicPartition(topic, partition)) for group in self.groups.values()
        )
        over = [each for each in found if each is not None and each.topic_id == topic_id]
        floors = [(each.where, each.ack_floor) for each in over if each.reaches(end)]
        if not floors and not self.dead_letter_index(topic, partition).reaches(end):
            return Decision((), [])
        record = LogShortened(topic, partition, topic_id, end, self.next_lease_id)
        return Decision((record,), floors)

    def forget_group(self, group_id: GroupId) -> Decision[QueueRecord, None]:
        self.group(group_id)
        return Decision((GroupForgotten(group_id),), None)

    def forget_partitions(
        self, group_id: GroupId, topic: TopicName
    ) -> Decision[QueueRecord, list[int]]:
        """Of one group in one topic; gives the partitions that it had begun in."""
        found = sorted(place[1] for place in self.group(group_id).states if place[0] == topic)
        return Decision((PartitionsForgotten(group_id, topic),) if found else (), found)

    def forget_topic(self, topic: TopicName) -> Decision[QueueRecord, None]:
        is_known = any(name == topic for name, _ in self.dead_letter_indexes) or any(
            name == topic for group in self.groups.values() for name, _ in group.states
        )
        return Decision((Forgotten(topic),) if is_known else (), None)

    def resume(self, now: Timestamp, *, skips_leases: bool) -> Decision[QueueRecord, None]:
        """After a restart: what ran out while nobody could ack it has not failed.

        Deliveries that were not synced may be forgotten: their receipts must not become another's.
        So a new number is given to leases when there may have been such deliveries.
        """
        records: list[QueueRecord] = []
        if any(state.has_deadlines for state in self.states()):
            records.append(Resumed(now))
        if skips_leases:
            records.append(Numbered(self.next_lease_id + LEASES_SKIPPED))
        return Decision(records, None)

    def remove_consumer(
        self,
        now: Timestamp,
        group_id: GroupId,
        consumer: str,
        *,
        failed: bool,
        deliveries_max: int | None = None,
    ) -> Decision[QueueRecord, int]:
        """What it holds comes back; gives how many messages that are.

        Not what a transaction of it acks: that comes back when the transaction has failed.
        `deliveries_max` is as in `release`.
        """
        group = self.group(group_id)
        records: list[QueueRecord] = []
        count = 0
        for state in group.states.values():
            mine = [
                lease
                for lease in state.leases
                if lease.consumer == consumer and not lease.transactional_id
            ]
            offsets = [offset for lease in mine for offset in state.in_lease(lease)]
            count += len(offsets)
            if failed:
                error = "its consumer was lost"
                records += settling.fail(state, group.settings, now, offsets, "lost", error=error)[
                    0
                ]
            else:
                records += settling.release(
                    state, now, offsets, deliveries_max=_deliveries_max(group, deliveries_max)
                )[0]
        return Decision(records, count)

    # --- handing out ------------------------------------------------------------------------------

    def lease(
        self,
        now: Timestamp,
        group: QueueGroup,
        consumer: str,
        selections: Sequence[Selection],
        visibility_ms: int | None = None,
    ) -> Decision[QueueRecord, Delivery | None]:
        """Give the consumer what was chosen; None when the choice is void: choose again."""
        if any(selection.moves != selection.state.moves for selection in selections):
            return Decision((), None)
        lease_id = self.next_lease_id
        deadline = Timestamp(now + (visibility_ms or group.settings.visibility_ms))
        records: list[QueueRecord] = []
        for selection in selections:
            records += decide_lease(selection, lease_id, consumer, now, deadline)
        return Decision(records, Delivery(lease_id, deadline))

    # --- endings: one outcome a receipt -----------------------------------------------------------

    def ack(self, claims: Claims, count: int) -> Decision[QueueRecord, Outcomes]:
        return self._settle(
            claims, count, lambda _, state, some, out: settling.ack(state, some, out), is_ack=True
        )

    def nack(
        self, now: Timestamp, claims: Claims, count: int, *, delay_ms: int | None, reason: str
    ) -> Decision[QueueRecord, Outcomes]:
        def ending(
            group: QueueGroup, state: PartitionState, some: list[Claim], outcomes: Outcomes
        ) -> Records:
            records, verdicts = settling.fail(
                state,
                group.settings,
                now,
                _offsets(some),
                "nacked",
                delay_ms=delay_ms,
                error=reason,
            )
            for claim in some:
                offsets = range(claim.first, claim.last + 1)
                outcomes[claim.places] = [verdicts[offset] for offset in offsets]
            return records

        return self._settle(claims, count, ending)

    def reject(
        self, now: Timestamp, claims: Claims, count: int, *, reason: str
    ) -> Decision[QueueRecord, Outcomes]:
        return self._settle(
            claims,
            count,
            lambda _, state, some, out: _same(
                settling.reject(state, now, _offsets(some), reason), some, out, settling.REJECTED
            ),
        )

    def extend(
        self, now: Timestamp, claims: Claims, count: int, *, visibility_ms: int
    ) -> Decision[QueueRecord, Outcomes]:
        verdict = settling.Verdict("extended", deadline=Timestamp(now + visibility_ms))
        return self._settle(
            claims,
            count,
            lambda _, state, some, out: _same(
                settling.extend(state, now, _offsets(some), visibility_ms), some, out, verdict
            ),
        )

    def release(
        self,
        now: Timestamp,
        claims: Claims,
        count: int,
        *,
        delay_ms: int = 0,
        deliveries_max: int | None = None,
    ) -> Decision[QueueRecord, Outcomes]:
        """Give messages back; those that were delivered `deliveries_max` times die.

        None: the group's `max_deliveries`; 0: no limit.
        """
        released = settling.Verdict("released", visible_at=Timestamp(now + delay_ms))

        def ending(
            group: QueueGroup, state: PartitionState, some: list[Claim], outcomes: Outcomes
        ) -> Records:
            records, dead = settling.release(
                state,
                now,
                _offsets(some),
                delay_ms=delay_ms,
                deliveries_max=_deliveries_max(group, deliveries_max),
            )
            for claim in some:
                offsets = range(claim.first, claim.last + 1)
                outcomes[claim.places] = [
                    settling.DEAD if offset in dead else released for offset in offsets
                ]
            return records

        return self._settle(claims, count, ending)

    def _settle(
        self, claims: Claims, count: int, ending: Ending, *, is_ack: bool = False
    ) -> Decision[QueueRecord, Outcomes]:
        outcomes: Outcomes = [UNKNOWN] * count
        records: list[QueueRecord] = []
        for (where, lease_id), some in claims.items():
            state = self.state(where)
            if state is None or not 0 < lease_id < self.next_lease_id:
                continue
            good = list(settling.good_claims(state, lease_id, some, outcomes, is_ack=is_ack))
            if good:
                records += ending(self.groups[where.group_id], state, good, outcomes)
        return Decision(records, outcomes)

    # --- transactions -----------------------------------------------------------------------------

    def reserve_for_transaction(
        self, claims: Claims, count: int, transactional_id: str
    ) -> Decision[QueueRecord, Outcomes]:
        """Let messages in flight be acked by the end of a transaction; all of them or none."""
        outcomes: Outcomes = [UNKNOWN] * count
        records: list[QueueRecord] = []
        for (where, lease_id), some in claims.items():
            state = self.state(where)
            if state is None or not 0 < lease_id < self.next_lease_id:
                continue
            good = list(
                settling.good_claims(
                    state, lease_id, some, outcomes, transactional_id=transactional_id
                )
            )
            for claim in good:
                outcomes[claim.places] = [settling.ACKED] * claim.size
            if good:
                ranges = joined((claim.first, claim.last) for claim in good)
                records.append(Reserved(where, ranges, transactional_id))
        if any(isinstance(outcome, QueueError) for outcome in outcomes):
            return Decision((), outcomes)
        return Decision(records, outcomes)

    def end_reservations(
        self, now: Timestamp, transactional_id: str, *, commits: bool
    ) -> Decision[QueueRecord, frozenset[GroupId]]:
        """The transaction is over; gives whose messages it had."""
        states = self.reservations.get(transactional_id, {})
        records = [
            ReservationsEnded(state.where, transactional_id, commits, now) for state in states
        ]
        return Decision(records, frozenset(state.where.group_id for state in states))

    # --- dead letters -----------------------------------------------------------------------------

    def dead_letter(
        self, where: Where, offsets: Iterable[int], topic: TopicName, end: Offset
    ) -> Decision[QueueRecord, None]:
        """Dead messages are written to `topic`, in the same partition, durably and below `end`."""
        return Decision((DeadLettered(where, ranges_of(sorted(offsets)), topic, end),), None)

    def start_redrive(
        self, topic: TopicName, partition: int, moves: Iterable[Move]
    ) -> Decision[QueueRecord, tuple[Move, ...]]:
        """Dead letters are to go elsewhere; gives the moves without what is no longer there."""
        box = self.dead_letter_index(topic, partition)
        possible = []
        for move in moves:
            free = ranges_of(offset for offset in each_offset(move.ranges) if box.is_free(offset))
            if free:
                possible.append(msgspec.structs.replace(move, ranges=free))
        moving = tuple(possible)
        return Decision((RedriveStarted(topic, partition, moving),) if moving else (), moving)

    def remove_dead_letters(
        self, topic: TopicName, partition: int, ranges: Ranges, floor: Offset, kept: Ranges = ()
    ) -> Decision[QueueRecord, None]:
        """Dead letters leave: those in `ranges`, and all below `floor`; `kept` stay."""
        return Decision((DeadLettersRemoved(topic, partition, ranges, floor, kept),), None)

    # --- deadlines --------------------------------------------------------------------------------

    def next_deadline(self) -> Timestamp | None:
        alarms = self._alarms
        while alarms and alarms[0][2].alarm != alarms[0][0]:
            heapq.heappop(alarms)
        return Timestamp(alarms[0][0]) if alarms else None

    def on_deadline(self, now: Timestamp) -> Decision[QueueRecord, Due]:
        records: list[QueueRecord] = []
        woken: set[GroupId] = set()
        due: list[PartitionState] = []
        room = EXPIRED_MAX
        while (deadline := self.next_deadline()) is not None and deadline <= now and room > 0:
            state = heapq.heappop(self._alarms)[2]
            state.alarm = None
            due.append(state)
            ripened = state.ripen(now)
            expired = self._expire(state, now, room)
            room -= sum(len(r.offsets) for r in expired if isinstance(r, Returned))
            room -= sum(len(r.dead) for r in expired if isinstance(r, MarkedDead))
            records += expired
            if ripened or expired:
                woken.add(state.where.group_id)
        for state in due:
            self.watch(state)
        has_dead = any(isinstance(record, MarkedDead) for record in records)
        return Decision(records, Due(frozenset(woken), has_dead))

    def _expire(self, state: PartitionState, now: Timestamp, count: int) -> list[QueueRecord]:
        settings = self.groups[state.where.group_id].settings
        offsets = [offset for _, some in state.expired(now, count) for offset in some]
        error = "not acknowledged in time"
        return settling.fail(state, settings, now, offsets, "timed_out", error=error)[0]

    def watch(self, state: PartitionState) -> None:
        """Have the next deadline regard the state; also for who looked for ready messages."""
        alarm = state.next_alarm()
        if alarm is not None and (state.alarm is None or alarm < state.alarm):
            state.alarm = alarm
            self._serial += 1
            heapq.heappush(self._alarms, (alarm, self._serial, state))

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
            case GroupCreated(group_id=group_id):
                group = self.groups.setdefault(group_id, QueueGroup(group_id, self._settings_of))
                group.former_settings = record.settings
                group.generation = max(group.generation, record.generation)
                group.has_begun = group.has_begun or record.has_begun
            case MemberJoined(group_id=group_id, member=member):
                group = self.groups[group_id]
                group.members[member.member_id] = member
                group.generation = max(group.generation, member.generation)
            case MemberLeft(group_id=group_id, member_id=member_id):
                group = self.groups[group_id]
                group.members.pop(member_id, None)
                group.generation += 1
            case GroupForgotten(group_id=group_id):
                group = self.groups.pop(group_id)
                for place in list(group.states):
                    self._drop(group, place)
            case Opened(where=where, topic_id=topic_id, floor=floor, adopted_at=adopted_at):
                state = PartitionState(where, topic_id, floor, self.groups[where.group_id].book)
                state.adopted_at = adopted_at
                self._put(state)
            case PartitionSnapshot():
                self._put(snapshot.restore(record, self.groups[record.where.group_id].book))
            case MessagesSnapshot(where=where):
                state = self.groups[where.group_id].states[
                    TopicPartition(where.topic, where.partition)
                ]
                snapshot.restore_messages(state, record)
                self._note_restored(state)
            case PartitionsForgotten(group_id=group_id, topic=topic):
                group = self.groups[group_id]
                for place in [place for place in group.states if place[0] == topic]:
                    self._drop(group, place)
            case Forgotten(topic=topic):
                self._forget_topic(topic)
            case Resumed(at=at):
                for state in self.states():
                    state.resume(at)
                    self.watch(state)
            case LogShortened():
                self._shorten(record)
            case RedriveStarted(topic=topic, partition=partition, moves=moves):
                self._dead_letter_index(topic, partition).moves.extend(moves)
            case DeadLettersRemoved(topic=topic, partition=partition, ranges=ranges, floor=floor):
                self._dead_letter_index(topic, partition).remove(ranges, floor, record.kept)
            case DeadLetterSnapshot(topic=topic, partition=partition):
                box = self._dead_letter_index(topic, partition)
                box.remove(record.taken, record.floor)
                box.end = record.end
                box.moves.extend(record.moves)
            case Numbered(next_lease_id=next_lease_id):
                self.next_lease_id = next_lease_id

    def _apply_to_state(
        self,
        record: Leased | Finished | Returned | Extended | MarkedDead | DeadLettered | AckFloorMoved,
    ) -> None:
        where = record.where
        group = self.groups[where.group_id]
        state = group.states[TopicPartition(where.topic, where.partition)]
        totals = group.totals_in(where.topic)
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
                self._with_dead[state] = None
                count_dead(totals, record)
            case DeadLettered():
                self._apply_dead_lettered(state, record)
            case AckFloorMoved(floor=floor, fence=fence, adopted_at=adopted_at):
                state.move_ack_floor(floor, fence)
                if adopted_at != NO_TIMESTAMP:
                    state.adopted_at = adopted_at
                self._note_dead(state)
        self.watch(state)

    def _apply_reservation(self, record: Reserved | ReservationsEnded) -> None:
        where = record.where
        group = self.groups[where.group_id]
        state = group.states[TopicPartition(where.topic, where.partition)]
        match record:
            case Reserved(transactional_id=transactional_id):
                state.reserve_for_transaction(record)
                self.reservations.setdefault(transactional_id, {})[state] = None
            case ReservationsEnded(transactional_id=transactional_id, commits=True):
                done = Finished(where, state.reserved_ranges(transactional_id))
                state.finish(done.ranges)
                count_finished(group.totals_in(done.where.topic), done)
                self._note_reservation_ended(transactional_id, state)
            case ReservationsEnded(transactional_id=transactional_id, at=at):
                state.cancel_reservation(transactional_id, at)
                self._note_reservation_ended(transactional_id, state)
        self.watch(state)

    def _note_reservation_ended(self, transactional_id: str, state: PartitionState) -> None:
        states = self.reservations.get(transactional_id, {})
        states.pop(state, None)
        if not states:
            self.reservations.pop(transactional_id, None)

    def _apply_dead_lettered(self, state: PartitionState, record: DeadLettered) -> None:
        dead = [
            offset for offset in each_offset(record.ranges) if state.messages.get(offset) == DEAD
        ]
        state.finish(ranges_of(dead))
        box = self._dead_letter_index(record.dead_letter_topic, record.where.partition)
        box.end = max(box.end, record.dead_letters_end)
        self._note_dead(state)

    def _shorten(self, record: LogShortened) -> None:
        place = TopicPartition(record.topic, record.partition)
        for group in self.groups.values():
            state = group.states.get(place)
            if state is None or state.topic_id != record.topic_id:
                continue
            if state.reaches(record.end):
                state.shorten(record.end, record.fence)
                self._note_dead(state)
                self.watch(state)
        if place in self.dead_letter_indexes:
            self.dead_letter_indexes[place].shorten(record.end)

    def _note_dead(self, state: PartitionState) -> None:
        if state.dead:
            self._with_dead[state] = None
        else:
            self._with_dead.pop(state, None)

    def _dead_letter_index(self, topic: TopicName, partition: int) -> DeadLetterIndex:
        return self.dead_letter_indexes.setdefault(
            TopicPartition(topic, partition), DeadLetterIndex()
        )

    def _put(self, state: PartitionState) -> None:
        group = self.groups[state.where.group_id]
        place = TopicPartition(state.where.topic, state.where.partition)
        self._drop(group, place)
        group.states[place] = state
        group.has_begun = True
        self._note_restored(state)

    def _note_restored(self, state: PartitionState) -> None:
        for transactional_id in state.reserved:
            self.reservations.setdefault(transactional_id, {})[state] = None
        self._note_dead(state)
        self.watch(state)

    def _drop(self, group: QueueGroup, place: TopicPartition) -> None:
        state = group.states.pop(place, None)
        if state is not None:
            for transactional_id in [
                each for each, reserved in self.reservations.items() if state in reserved
            ]:
                self._note_reservation_ended(transactional_id, state)
            state.clear()
            state.alarm = None
            self._with_dead.pop(state, None)

    def _forget_topic(self, topic: TopicName) -> None:
        for group in self.groups.values():
            group.topic_totals.pop(topic, None)
            for place in [place for place in group.states if place[0] == topic]:
                self._drop(group, place)
        for place in [place for place in self.dead_letter_indexes if place[0] == topic]:
            del self.dead_letter_indexes[place]

    # --- keeping ----------------------------------------------------------------------------------

    def snapshot(self) -> Generator[QueueRecord, None, None]:
        taken = QueueSnapshot(self.next_lease_id, self.groups, self.dead_letter_indexes)
        self._snapshot = taken
        return self._read(taken)

    def _read(self, taken: QueueSnapshot) -> Generator[QueueRecord, None, None]:
        try:
            yield from taken.records()
        finally:
            if taken is self._snapshot:
                self._snapshot = None
                for state in self.states():
                    state.copy = None

    def encode(self, record: QueueRecord) -> bytes:
        return encode(record)

    def decode(self, data: bytes) -> QueueRecord:
        return decode(data)


UNKNOWN: Final = ReceiptUnknown("no such delivery was ever made")


def _deliveries_max(group: QueueGroup, given: int | None) -> int:
    return group.settings.max_deliveries if given is None else given


def _offsets(claims: list[Claim]) -> list[int]:
    """In order, and each once: a request may name a receipt twice."""
    return list(each_offset(joined((claim.first, claim.last) for claim in claims)))


def _same(
    records: Records, claims: list[Claim], outcomes: Outcomes, verdict: settling.Verdict
) -> Records:
    for claim in claims:
        outcomes[claim.places] = [verdict] * claim.size
    return records
