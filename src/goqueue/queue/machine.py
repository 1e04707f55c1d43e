"""The queue ledger of one partition: every group's state in it, every deadline, one log.

    verb(now, …) ──> Decision(records, reply)       reads state
    apply(record)                                   changes it: see `ledger_state`
    next_deadline() / on_deadline(now)              leases run out, waiting messages become ready

Messages themselves stay in their topics.  The host of the machine reads them, chooses
(`Selection`), and has the choice decided by `lease`.  It also writes each message of `dead` to the
dead letters, and reports that by `dead_letter`; both may be repeated, before and after a crash.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from goqueue.model.ids import NO_TIMESTAMP, GroupId, Offset, Timestamp, TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.model.markers import Marker
from goqueue.queue import settling
from goqueue.queue.delivery import Selection, decide_lease
from goqueue.queue.group import QueueGroup
from goqueue.queue.lease import Lease
from goqueue.queue.ledger_state import LedgerState
from goqueue.queue.owners import is_ended
from goqueue.queue.partition_state import PartitionState
from goqueue.queue.ranges import Ranges, each_offset, join_ranges, ranges_of, without_ranges
from goqueue.queue.receipts import Claim, Claims
from goqueue.queue.records import (
    AckFloorMoved,
    DeadLettered,
    DeadLettersPlanned,
    DeadLettersRemoved,
    LogShortened,
    MarkedDead,
    Move,
    Numbered,
    Opened,
    PartitionsForgotten,
    QueueRecord,
    RedriveStarted,
    ReservationsEnded,
    Reserved,
    Resumed,
    Returned,
    TransactionCoordinatorSeen,
    Where,
)
from goqueue.queue.settling import Outcomes

EXPIRED_MAX: Final = 5_000  # messages whose time ran out that are dealt with in one decision
LEASES_A_MS: Final = 256  # more than a partition can make in a millisecond
LEASES_SKIPPED: Final = 1_000_000  # more than are made between two syncs

Records = Sequence[QueueRecord]
Ending = Callable[[QueueGroup, PartitionState, list[Claim], Outcomes], Records]


class Due(msgspec.Struct, frozen=True):
    """What a deadline brought."""

    groups: frozenset[GroupId]  # that have something to deliver now
    has_dead: bool


class QueueMachine(LedgerState):
    """The verbs of one partition's ledger.  They raise `QueueError` to refuse; nothing changes."""

    # --- asking -----------------------------------------------------------------------------------

    def in_flight(
        self, group_id: GroupId, first: int, last: int, consumer: str | None = None
    ) -> Claims:
        """Receipts, as it were, for what is in flight in a range of offsets, in no transaction."""
        state = self.states.get(group_id)
        if state is None:
            return {}
        claims: Claims = {}
        place = 0
        for low, high, holder in state.messages.pieces(first, last):
            if not isinstance(holder, Lease) or consumer not in (None, holder.consumer):
                continue
            if holder.transactional_id:
                continue  # the end of its transaction decides
            some = claims.setdefault((state.where, holder.lease_id), [])
            for start, end, attempt in state.attempts(low, high):
                some.append(Claim(start, end, attempt, place))
                place += end - start + 1
        return claims

    # --- groups in the partition ------------------------------------------------------------------

    def open(
        self,
        now: Timestamp,
        group_id: GroupId,
        topic_id: TopicId,
        floor: Offset,
        adopted_at: Timestamp = NO_TIMESTAMP,
    ) -> Decision[QueueRecord, None]:
        """Begin in the partition.

        A new ledger counts its deliveries from the time on, so that no receipt of an earlier topic
        of the same name, or of a ledger that a power cut took, is good for anything here.
        """
        state = self.states.get(group_id)
        if state is not None and state.topic_id == topic_id:
            return Decision((), None)
        where = Where(group_id, self.topic, self.partition)
        opened = Opened(where, topic_id, floor, adopted_at)
        is_new = self.next_lease_id == 1
        first = Numbered(max(now * LEASES_A_MS, 1))
        return Decision((first, opened) if is_new else (opened,), None)

    def move_ack_floor(
        self, group_id: GroupId, floor: Offset, adopted_at: Timestamp = NO_TIMESTAMP
    ) -> Decision[QueueRecord, None]:
        """By decree; `adopted_at` is the time of the offset commit that asks for it."""
        state = self.states.get(group_id)
        if state is None:
            return Decision((), None)
        return Decision((AckFloorMoved(state.where, floor, self.next_lease_id, adopted_at),), None)

    def shorten_log(
        self, topic_id: TopicId, end: Offset
    ) -> Decision[QueueRecord, list[tuple[Where, Offset]]]:
        """The partition's log ends at `end`, whatever was known; gives the floors of who knew more.

        To be durable before anything is written to that log.
        """
        mine = [each for each in self.states.values() if each.topic_id == topic_id]
        floors = [(each.where, each.ack_floor) for each in mine if each.reaches(end)]
        if not floors and not self.dead_letters.reaches(end):
            return Decision((), [])
        record = LogShortened(self.topic, self.partition, topic_id, end, self.next_lease_id)
        return Decision((record,), floors)

    def forget_group(self, group_id: GroupId) -> Decision[QueueRecord, None]:
        """The group starts over in the partition, if it ever does."""
        is_known = group_id in self.states
        return Decision((PartitionsForgotten(group_id, self.topic),) if is_known else (), None)

    def resume(self, now: Timestamp, *, skips_leases: bool) -> Decision[QueueRecord, None]:
        """After a restart: what ran out while nobody could ack it has not failed.

        Deliveries that were not synced may be forgotten: their receipts must not become another's.
        So a new number is given to leases when there may have been such deliveries.
        """
        records: list[QueueRecord] = []
        if any(state.has_deadlines for state in self.states.values()):
            records.append(Resumed(now))
        if skips_leases:
            records.append(Numbered(self.next_lease_id + LEASES_SKIPPED))
        return Decision(records, None)

    def release_consumer(
        self,
        now: Timestamp,
        group_id: GroupId,
        consumer: str,
        *,
        failed: bool,
        deliveries_max: int | None = None,
    ) -> Decision[QueueRecord, int]:
        """What the consumer holds comes back; gives how many messages that are.

        Not what a transaction of it acks: that comes back when the transaction has failed.
        `deliveries_max` is as in `release`.
        """
        group, state = self.table.group(group_id), self.states[group_id]
        mine = [
            lease
            for lease in state.leases
            if lease.consumer == consumer and not lease.transactional_id
        ]
        offsets = [offset for lease in mine for offset in state.in_lease(lease)]
        if failed:
            error = "its consumer was lost"
            found = settling.fail(state, group.settings, now, offsets, "lost", error=error)[0]
        else:
            limit = _deliveries_max(group, deliveries_max)
            found = settling.release(state, now, offsets, deliveries_max=limit)[0]
        return Decision(found, len(offsets))

    # --- delivering -------------------------------------------------------------------------------

    def lease(
        self, now: Timestamp, consumer: str, selection: Selection, deadline: Timestamp
    ) -> Decision[QueueRecord, int]:
        """Give the consumer what was chosen; gives the number of the delivery."""
        lease_id = self.next_lease_id
        return Decision(decide_lease(selection, lease_id, consumer, now, deadline), lease_id)

    # --- endings: one outcome a receipt; `outcomes` is filled in at the claims' places ------------

    def ack(self, claims: Claims, outcomes: Outcomes) -> Decision[QueueRecord, None]:
        return self._settle(
            claims,
            outcomes,
            lambda _, state, some, out: settling.ack(state, some, out),
            is_ack=True,
        )

    def nack(
        self,
        now: Timestamp,
        claims: Claims,
        outcomes: Outcomes,
        *,
        delay_ms: int | None,
        reason: str,
    ) -> Decision[QueueRecord, None]:
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

        return self._settle(claims, outcomes, ending)

    def reject(
        self, now: Timestamp, claims: Claims, outcomes: Outcomes, *, reason: str
    ) -> Decision[QueueRecord, None]:
        return self._settle(
            claims,
            outcomes,
            lambda _, state, some, out: _same(
                settling.reject(state, now, _offsets(some), reason), some, out, settling.REJECTED
            ),
        )

    def extend(
        self, now: Timestamp, claims: Claims, outcomes: Outcomes, *, visibility_ms: int
    ) -> Decision[QueueRecord, None]:
        verdict = settling.Verdict("extended", deadline=Timestamp(now + visibility_ms))
        return self._settle(
            claims,
            outcomes,
            lambda _, state, some, out: _same(
                settling.extend(state, now, _offsets(some), visibility_ms), some, out, verdict
            ),
        )

    def release(
        self,
        now: Timestamp,
        claims: Claims,
        outcomes: Outcomes,
        *,
        delay_ms: int = 0,
        deliveries_max: int | None = None,
    ) -> Decision[QueueRecord, None]:
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

        return self._settle(claims, outcomes, ending)

    def _settle(
        self, claims: Claims, outcomes: Outcomes, ending: Ending, *, is_ack: bool = False
    ) -> Decision[QueueRecord, None]:
        records: list[QueueRecord] = []
        for (where, lease_id), some in claims.items():
            state = self.states.get(where.group_id)
            if state is None or not 0 < lease_id < self.next_lease_id:
                continue
            good = list(settling.good_claims(state, lease_id, some, outcomes, is_ack=is_ack))
            if good:
                records += ending(self.table.groups[where.group_id], state, good, outcomes)
        return Decision(records, None)

    # --- transactions -----------------------------------------------------------------------------

    def reserve_for_transaction(
        self, claims: Claims, outcomes: Outcomes, transactional_id: str
    ) -> Decision[QueueRecord, None]:
        """Let messages in flight be acked by the end of a transaction.

        Who wants all of them or none looks at the outcomes before anything is written.
        """
        records: list[QueueRecord] = []
        for (where, lease_id), some in claims.items():
            state = self.states.get(where.group_id)
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
                ranges = join_ranges((claim.first, claim.last) for claim in good)
                records.append(Reserved(where, ranges, transactional_id))
        return Decision(records, None)

    def end_transaction(
        self, now: Timestamp, marker: Marker
    ) -> Decision[QueueRecord, frozenset[GroupId]]:
        """Ack or release what was reserved; gives whose it was.  A second time it is nothing.

        Raises `TransactionCoordinatorFenced` when there was a marker of a newer coordinator.
        """
        newest_epoch = self.coordinator_epochs.get(marker.coordinator, 0)
        marker.check_coordinator(newest_epoch)
        ended = [
            ReservationsEnded(state.where, owner, marker.commits, now)
            for owner, reserved in self.table.reservations.items()
            if is_ended(owner, marker)
            for state in self.states.values()
            if state in reserved
        ]
        records: list[QueueRecord] = [*ended]
        if marker.coordinator_epoch > newest_epoch:
            seen = TransactionCoordinatorSeen(marker.coordinator_epoch, marker.coordinator)
            records.append(seen)
        return Decision(records, frozenset(record.where.group_id for record in ended))

    def added_ranges(self, claims: Claims, owner: str) -> list[tuple[Where, Ranges]]:
        """What good claims would have reserved that is not yet."""
        found: list[tuple[Where, Ranges]] = []
        for (where, _), some in claims.items():
            state = self.states.get(where.group_id)
            if state is not None:
                wanted = join_ranges((claim.first, claim.last) for claim in some)
                found.append((where, without_ranges(wanted, state.reserved_ranges(owner))))
        return [(where, ranges) for where, ranges in found if ranges]

    def cancel_reservations(
        self, now: Timestamp, owner: str, added: Sequence[tuple[Where, Ranges]]
    ) -> Decision[QueueRecord, None]:
        """Some of what a transaction reserved is in flight as before; the rest stays reserved."""
        records: list[QueueRecord] = []
        for where, ranges in added:
            state = self.states.get(where.group_id)
            if state is None or owner not in state.reserved:
                continue
            kept = without_ranges(state.reserved_ranges(owner), ranges)
            records.append(ReservationsEnded(where, owner, commits=False, at=now))
            if kept:
                records.append(Reserved(where, kept, owner))
        return Decision(records, None)

    def rename_owner(self, now: Timestamp, former: str, owner: str) -> Decision[QueueRecord, None]:
        """What a former version reserved for a transactional id is reserved for its producer."""
        records: list[QueueRecord] = []
        for state in self.states.values():
            if former in state.reserved:
                ranges = state.reserved_ranges(former)
                records.append(ReservationsEnded(state.where, former, commits=False, at=now))
                records.append(Reserved(state.where, ranges, owner))
        return Decision(records, None)

    # --- dead letters -----------------------------------------------------------------------------

    def plan_dead_letters(
        self,
        where: Where,
        offsets: Iterable[int],
        topic: TopicName,
        producer: tuple[int, int, int],
    ) -> Decision[QueueRecord, None]:
        """These are to be written as one batch: of producer id, epoch and sequence as given.

        A plan that was not written is replaced by the next one.
        """
        return Decision((DeadLettersPlanned(where, _ranges(offsets), topic, *producer),), None)

    def dead_letter(
        self, where: Where, offsets: Iterable[int], topic: TopicName, end: Offset
    ) -> Decision[QueueRecord, None]:
        """Dead messages are written to `topic`, in the same partition, durably and below `end`."""
        return Decision((DeadLettered(where, _ranges(offsets), topic, end),), None)

    def start_redrive(self, moves: Iterable[Move]) -> Decision[QueueRecord, tuple[Move, ...]]:
        """Dead letters are to go elsewhere; gives the moves without what is no longer there."""
        dead_letters, possible = self.dead_letters, []
        for move in moves:
            free = ranges_of(
                each for each in each_offset(move.ranges) if dead_letters.is_free(each)
            )
            if free:
                possible.append(msgspec.structs.replace(move, ranges=free))
        moving = tuple(possible)
        record = RedriveStarted(self.topic, self.partition, moving)
        return Decision((record,) if moving else (), moving)

    def remove_dead_letters(
        self, ranges: Ranges, floor: Offset, kept: Ranges = ()
    ) -> Decision[QueueRecord, None]:
        """Dead letters leave: those in `ranges`, and all below `floor`; `kept` stay."""
        record = DeadLettersRemoved(self.topic, self.partition, ranges, floor, kept)
        return Decision((record,), None)

    # --- deadlines --------------------------------------------------------------------------------

    def on_deadline(self, now: Timestamp) -> Decision[QueueRecord, Due]:
        records: list[QueueRecord] = []
        woken: set[GroupId] = set()
        due: list[PartitionState] = []
        room = EXPIRED_MAX
        while room > 0 and (state := self.take_due(now)) is not None:
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
        settings = self.table.groups[state.where.group_id].settings
        offsets = [offset for _, some in state.find_expired(now, count) for offset in some]
        error = "not acknowledged in time"
        return settling.fail(state, settings, now, offsets, "timed_out", error=error)[0]


def _deliveries_max(group: QueueGroup, given: int | None) -> int:
    return group.settings.max_deliveries if given is None else given


def _ranges(offsets: Iterable[int]) -> Ranges:
    return ranges_of(sorted(offsets))


def _offsets(claims: list[Claim]) -> list[int]:
    """In order, and each once: a request may name a receipt twice."""
    return list(each_offset(join_ranges((claim.first, claim.last) for claim in claims)))


def _same(
    records: Records, claims: list[Claim], outcomes: Outcomes, verdict: settling.Verdict
) -> Records:
    for claim in claims:
        outcomes[claim.places] = [verdict] * claim.size
    return records
