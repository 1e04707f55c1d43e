"""A ledger as one record of a snapshot, and back."""

from collections import deque

from goqueue.queue.history import History
from goqueue.queue.lease import Lease, LeaseBook
from goqueue.queue.partition_state import DEAD, DEFERRED, READY, Ledger
from goqueue.queue.ranges import joined
from goqueue.queue.records import HistoryKept, LeaseKept, LedgerKept


def kept(ledger: Ledger) -> LedgerKept:
    held = ledger.held
    return LedgerKept(
        where=ledger.where,
        topic_id=ledger.topic_id,
        floor=ledger.floor,
        fence=ledger.fence,
        heeded=ledger.heeded,
        cursors=tuple(ledger.cursors),
        leases=tuple(_lease_kept(ledger, lease) for lease in ledger.leases),
        waiting=tuple((o, h) for o, h in held.waiting() if h >= READY),
        lanes=tuple(ledger.lanes.items()),
        keys=tuple((o, key) for o, key in ledger.keys.items() if held[o] != DEFERRED),
        deferred=tuple((key, tuple(deferred)) for key, deferred in ledger.busy.items() if deferred),
        history=tuple(history.kept(offset) for offset, history in ledger.history.items()),
        dead=tuple(ledger.dead.values()),
        settled=tuple(ledger.settled.items()),
    )


def _lease_kept(ledger: Ledger, lease: Lease) -> LeaseKept:
    return LeaseKept(
        lease.lease_id,
        lease.consumer,
        lease.handed_at,
        lease.deadline,
        lease.visibility_ms,
        joined(ledger.ranges_in_lease(lease)),
        lease.owner,
    )


def restored(record: LedgerKept, book: LeaseBook) -> Ledger:
    ledger = Ledger(record.where, record.topic_id, record.floor, book)
    ledger.fence = record.fence
    ledger.heeded = record.heeded
    ledger.cursors = list(record.cursors)
    ledger.lanes = dict(record.lanes)
    ledger.history = {each.offset: _history(each) for each in record.history}
    ledger.dead = {letter.offset: letter for letter in record.dead}
    ledger.settled = dict(record.settled)
    for offset in ledger.dead:
        ledger.held[offset] = DEAD
    for lease in record.leases:
        ledger.restore_lease(lease)
    for offset, visible_at in record.waiting:
        ledger.restore_waiting(offset, visible_at)
    for offset, key in record.keys:
        ledger.keys[offset] = key
        ledger.busy[key] = None
    for key, offsets in record.deferred:
        ledger.busy[key] = deque(offsets)
        ledger.deferred_count += len(offsets)
        ledger.keys.update(dict.fromkeys(offsets, key))
        for offset in offsets:
            ledger.held[offset] = DEFERRED
    return ledger


def _history(record: HistoryKept) -> History:
    history = History(record.first_at)
    history.hand_outs = record.hand_outs
    history.failures = record.failures
    history.timeouts = record.timeouts
    history.last_at = record.last_at
    history.consumer = record.consumer
    history.error = record.error
    history.lease_id = record.lease_id
    return history
