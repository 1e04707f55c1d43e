"""A partition's state as one record of a snapshot, and back."""

from collections import deque

from goqueue.queue.history import History
from goqueue.queue.lease import Lease, LeaseBook
from goqueue.queue.partition_state import DEAD, DEFERRED, READY, PartitionState
from goqueue.queue.ranges import joined
from goqueue.queue.records import HistorySnapshot, LeaseSnapshot, PartitionSnapshot


def take_snapshot(state: PartitionState) -> PartitionSnapshot:
    messages = state.messages
    return PartitionSnapshot(
        where=state.where,
        topic_id=state.topic_id,
        floor=state.ack_floor,
        fence=state.fence,
        adopted_at=state.adopted_at,
        cursors=tuple(state.cursors),
        leases=tuple(_lease_snapshot(state, lease) for lease in state.leases),
        waiting=tuple((o, h) for o, h in messages.waiting() if h >= READY),
        lanes=tuple(state.lanes.items()),
        keys=tuple((o, key) for o, key in state.keys.items() if messages[o] != DEFERRED),
        deferred=tuple((key, tuple(deferred)) for key, deferred in state.busy.items() if deferred),
        history=tuple(history.snapshot(offset) for offset, history in state.history.items()),
        dead=tuple(state.dead.values()),
        settled=tuple(state.settled.items()),
    )


def _lease_snapshot(state: PartitionState, lease: Lease) -> LeaseSnapshot:
    return LeaseSnapshot(
        lease.lease_id,
        lease.consumer,
        lease.delivered_at,
        lease.deadline,
        lease.visibility_ms,
        joined(state.ranges_in_lease(lease)),
        lease.transactional_id,
    )


def restore(record: PartitionSnapshot, book: LeaseBook) -> PartitionState:
    state = PartitionState(record.where, record.topic_id, record.floor, book)
    state.fence = record.fence
    state.adopted_at = record.adopted_at
    state.cursors = list(record.cursors)
    state.lanes = dict(record.lanes)
    state.history = {each.offset: _history(each) for each in record.history}
    state.dead = {letter.offset: letter for letter in record.dead}
    state.settled = dict(record.settled)
    for offset in state.dead:
        state.messages[offset] = DEAD
    for lease in record.leases:
        state.restore_lease(lease)
    for offset, visible_at in record.waiting:
        state.restore_waiting(offset, visible_at)
    for offset, key in record.keys:
        state.keys[offset] = key
        state.busy[key] = None
    for key, offsets in record.deferred:
        state.busy[key] = deque(offsets)
        state.deferred_count += len(offsets)
        state.keys.update(dict.fromkeys(offsets, key))
        for offset in offsets:
            state.messages[offset] = DEFERRED
    return state


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
