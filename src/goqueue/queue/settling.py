"""How a delivery ends: ack, nack, reject, release or time-out; and how it is extended.

A receipt stands for one delivery.  It is good while that delivery's lease holds the message:

    the lease holds it                           good
    the same, and it waits for a transaction     refused: the transaction's end decides
    another lease holds it, or none does yet     expired: it was returned to the queue
    nothing holds it: it is finished             a repeated ack succeeds again; all else: expired
    it was never delivered                       unknown

Three counts end a message.  `max_failures`: consumers nacked it.  `max_timeouts`: no answer came,
for the visibility time-out passed or the consumer died; since a consumer may hold messages that it
has not begun with, this limit is the larger one.  `max_deliveries`, if given: how often it was
delivered, however that ended.  A release counts for the last one only, a restart for none.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Timestamp
from goqueue.queue.dead_letter import ERROR_LENGTH_MAX
from goqueue.queue.delivery import dead_message
from goqueue.queue.errors import QueueError, ReceiptExpired, ReceiptInTransaction, ReceiptUnknown
from goqueue.queue.lease import Lease
from goqueue.queue.message_states import State, within
from goqueue.queue.owners import read_owner
from goqueue.queue.partition_state import PartitionState
from goqueue.queue.ranges import join_ranges
from goqueue.queue.receipts import Claim
from goqueue.queue.records import (
    Cause,
    DeadMessage,
    Extended,
    Finished,
    MarkedDead,
    QueueRecord,
    Reason,
    Returned,
)
from goqueue.queue.replies import Action
from goqueue.queue.settings import QueueSettings


class Verdict(msgspec.Struct, frozen=True, gc=False):
    action: Action
    visible_at: Timestamp | None = None
    deadline: Timestamp | None = None


Outcomes = list[Verdict | GoQueueError]  # one for each receipt, in the request's order

ACKED: Final = Verdict("acked")
REJECTED: Final = Verdict("rejected")
DEAD: Final = Verdict("dead")
NEVER_DELIVERED: Final = ReceiptUnknown("no such delivery was ever made")


# --- whose receipts are good --------------------------------------------------------------------


def good_claims(
    state: PartitionState,
    lease_id: int,
    claims: Iterable[Claim],
    outcomes: Outcomes,
    *,
    is_ack: bool = False,
    transactional_id: str = "",
) -> Iterator[Claim]:
    """The claims whose lease holds the messages; the others get their outcome.

    A lease that belongs to a transaction is good for its `transactional_id` only.
    """
    for claim in claims:
        if _is_good(state, lease_id, claim, transactional_id):
            yield claim
            continue
        for one in claim.each():
            if claim.size > 1 and _is_good(state, lease_id, one, transactional_id):
                yield one
            else:
                refusal = _refusal(state, lease_id, one, is_ack=is_ack)
                outcomes[one.place] = ACKED if refusal is None else refusal


def _is_good(state: PartitionState, lease_id: int, claim: Claim, transactional_id: str) -> bool:
    """Whether the lease holds all of the claim, in that attempt."""
    first, last, attempt, _ = claim
    if first == last:
        is_held = _holds(state.messages.get(first), lease_id, transactional_id)
        return is_held and state.attempt(first) == attempt
    count = 0
    for low, high, holder in state.messages.pieces(first, last):
        if not _holds(holder, lease_id, transactional_id):
            return False
        count += high - low + 1
    if count != last - first + 1:
        return False
    known = within(state.history, first, last)
    return (attempt == 1 or len(known) == count) and all(
        state.attempt(offset) == attempt for offset in known
    )


def _holds(holder: State | None, lease_id: int, transactional_id: str) -> bool:
    return (
        isinstance(holder, Lease)
        and holder.lease_id == lease_id
        and holder.transactional_id in ("", transactional_id)
    )


def _refusal(
    state: PartitionState, lease_id: int, claim: Claim, *, is_ack: bool
) -> QueueError | None:
    """Why the claim is not good; None for the ack of what is finished."""
    offset = claim.first
    shown = f"{state.where.topic}-{state.where.partition} offset {offset}"
    lease = state.lease_of(offset)
    if lease is not None and lease.lease_id == lease_id and lease.transactional_id:
        return ReceiptInTransaction(
            f"{shown}: it is acked by transaction"
            f" {read_owner(lease.transactional_id).transactional_id!r}"
        )
    if lease is not None and lease.lease_id == lease_id:
        return ReceiptUnknown(f"{shown}: attempt {claim.attempt} was never made")
    if offset in state.messages:
        return ReceiptExpired(f"{shown}: attempt {claim.attempt} is over, another follows")
    if lease_id < state.fence:
        return ReceiptExpired(f"{shown}: the group was moved back since, or the log lost its end")
    if offset >= max(state.cursors):
        return ReceiptUnknown(f"{shown} was never delivered")
    if is_ack and state.settled.get(offset, lease_id) == lease_id:
        return None
    return ReceiptExpired(f"{shown}: attempt {claim.attempt} is over")


# --- endings ------------------------------------------------------------------------------------


def ack(state: PartitionState, claims: Iterable[Claim], outcomes: Outcomes) -> list[QueueRecord]:
    ranges = []
    for claim in claims:
        ranges.append((claim.first, claim.last))
        outcomes[claim.places] = [ACKED] * claim.size
    return [Finished(state.where, join_ranges(ranges))] if ranges else []


def fail(
    state: PartitionState,
    settings: QueueSettings,
    now: Timestamp,
    offsets: Iterable[int],
    cause: Cause,
    *,
    delay_ms: int | None = None,
    error: str = "",
) -> tuple[list[QueueRecord], dict[int, Verdict]]:
    """Deliveries failed: their messages come back after a while, or become dead letters."""
    dead: list[DeadMessage] = []
    back: list[int] = []
    visible: list[int] = []
    verdicts: dict[int, Verdict] = {}
    for offset in offsets:
        reason = _limit_reached(state, settings, offset, cause)
        if reason is not None:
            lease = state.lease_of(offset)
            assert lease is not None, "only what is in flight can fail"
            dead.append(dead_message(state, lease, offset, now, reason, cause, error))
            verdicts[offset] = DEAD
            continue
        failures = state.failures(offset) + state.timeouts(offset) + 1
        wait_ms = delay_ms
        if wait_ms is None:
            wait_ms = settings.backoff_ms(failures, jitter_position(offset, failures))
        visible_at = Timestamp(now + wait_ms) if wait_ms else Timestamp(0)
        back.append(offset)
        visible.append(visible_at)
        verdicts[offset] = Verdict("requeued", visible_at=visible_at or now)
    records: list[QueueRecord] = []
    if dead:
        records.append(MarkedDead(state.where, tuple(dead), cause))
    if back:
        told = error[:ERROR_LENGTH_MAX]
        records.append(Returned(state.where, tuple(back), tuple(visible), cause, now, told))
    return records, verdicts


def _limit_reached(
    state: PartitionState, settings: QueueSettings, offset: int, cause: Cause
) -> Reason | None:
    """Why the message dies with this failed delivery; None: it does not."""
    if cause == "nacked":
        if state.failures(offset) + 1 >= settings.max_failures:
            return "max_failures"
    elif state.timeouts(offset) + 1 >= settings.max_timeouts:
        return "max_timeouts"
    if 0 < settings.max_deliveries <= state.attempt(offset):
        return "max_deliveries"
    return None


def reject(
    state: PartitionState, now: Timestamp, offsets: Iterable[int], reason: str
) -> list[QueueRecord]:
    dead = []
    for offset in offsets:
        lease = state.lease_of(offset)
        assert lease is not None, "only what is in flight can be rejected"
        dead.append(dead_message(state, lease, offset, now, "rejected", None, reason))
    return [MarkedDead(state.where, tuple(dead), "rejected")] if dead else []


def release(
    state: PartitionState,
    now: Timestamp,
    offsets: Iterable[int],
    *,
    delay_ms: int = 0,
    deliveries_max: int = 0,
) -> tuple[list[QueueRecord], frozenset[int]]:
    """Give messages back without a failure; gives also which of them die.

    Those were delivered `deliveries_max` times; 0: no limit.
    """
    dead: list[DeadMessage] = []
    back: list[int] = []
    for offset in offsets:
        if 0 < deliveries_max <= state.attempt(offset):
            lease = state.lease_of(offset)
            assert lease is not None, "only what is in flight can be released"
            error = f"delivered {state.attempt(offset)} times"
            dead.append(
                dead_message(state, lease, offset, now, "max_deliveries", "released", error)
            )
        else:
            back.append(offset)
    records: list[QueueRecord] = []
    if dead:
        records.append(MarkedDead(state.where, tuple(dead), "released"))
    if back:
        visible_at = now + delay_ms if delay_ms else 0
        visible = (visible_at,) * len(back)
        records.append(Returned(state.where, tuple(back), visible, "released", now))
    return records, frozenset(message.offset for message in dead)


def extend(
    state: PartitionState, now: Timestamp, offsets: Iterable[int], visibility_ms: int
) -> list[QueueRecord]:
    leased = tuple(offsets)
    return [Extended(state.where, leased, now, Timestamp(now + visibility_ms))] if leased else []


def jitter_position(offset: int, failures: int) -> float:
    """A number in [0, 1) that looks random and is the same whenever the same is decided."""
    mixed = (offset * 0x9E37_79B9_7F4A_7C15 + failures * 0xD1B5_4A32_D192_ED03) & (2**64 - 1)
    mixed = ((mixed ^ (mixed >> 31)) * 0xBF58_476D_1CE4_E5B9) & (2**64 - 1)
    return (mixed >> 40) / 2**24
