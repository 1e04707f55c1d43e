"""Delivering messages: a selection of messages becomes a decision.

Selecting means reading the log, which takes time; deciding takes none.  So a `Selection` is checked
again when it is decided: messages that were delivered to another consumer meanwhile are left out,
and all of it is void if an operator moved the ack floor.
"""

from goqueue.model.ids import NO_TIMESTAMP, Offset, Timestamp
from goqueue.model.record import Record
from goqueue.queue.dead_letter import ERROR_LENGTH_MAX
from goqueue.queue.delivery_batch import Chosen, Run, count_of
from goqueue.queue.lease import Lease
from goqueue.queue.partition_state import PartitionState
from goqueue.queue.ranges import ranges_of
from goqueue.queue.records import (
    TIMEOUTS,
    Cause,
    DeadMessage,
    Finished,
    Leased,
    MarkedDead,
    QueueRecord,
    Reason,
)


class Selection:
    """What was chosen of one partition."""

    def __init__(self, state: PartitionState) -> None:
        self.state = state
        self.moves = state.moves
        self.chosen: list[Chosen] = []
        self.fresh: list[tuple[int, int, int]] = []  # first, last, lane
        self.again: list[int] = []
        self.passed: list[tuple[int, int]] = []
        self.deferred: list[tuple[int, int, int]] = []
        self.keys: dict[int, int] = {}  # key to offset, of what was chosen
        self.outdated: list[int] = []  # past their time to live
        self.drops = False  # those, instead of making them dead letters
        self.unreadable: dict[int, str] = {}  # offset to why it cannot be decoded
        self.gone: list[int] = []  # no longer in the log
        self.cursors = list(state.cursors)

    def add_fresh(self, record: Record, lane: int) -> None:
        offset = record.offset
        self.chosen.append((record, 1, lane, 0, 0))
        self.add_range(offset, offset, lane)

    def add_run(self, run: Run) -> None:
        self.chosen.append(run)
        for first, last in run.ranges:
            self.add_range(first, last, run.lane)

    def add_range(self, first: int, last: int, lane: int) -> None:
        if self.fresh:
            previous = self.fresh[-1]
            if previous[1] == first - 1 and previous[2] == lane:
                self.fresh[-1] = (previous[0], last, lane)
                return
        self.fresh.append((first, last, lane))

    def add_again(self, record: Record, lane: int) -> None:
        offset, state = record.offset, self.state
        attempt = state.attempts_so_far(offset) + 1
        single = record, attempt, lane, state.failures(offset), state.timeouts(offset)
        self.chosen.append(single)
        self.again.append(offset)

    @property
    def count(self) -> int:
        return count_of(self.chosen)

    @property
    def moves_on(self) -> bool:
        """Whether there is anything to write about it."""
        return bool(
            self.chosen
            or self.passed
            or self.deferred
            or self.outdated
            or self.unreadable
            or self.gone
            or min(self.cursors) > min(self.state.cursors)
        )


def decide_lease(
    selection: Selection, lease_id: int, consumer: str, now: Timestamp, deadline: Timestamp
) -> list[QueueRecord]:
    """The records for a selection, after what is out of date was removed from it."""
    state = selection.state
    _refresh(selection, now)
    records: list[QueueRecord] = []
    done = list(selection.gone)
    if selection.outdated and selection.drops:
        done += selection.outdated
    elif selection.outdated:
        dead = tuple(
            _unleased_dead_message(state, each, now, "expired") for each in selection.outdated
        )
        records.append(MarkedDead(state.where, dead, "outdated"))
    if selection.unreadable:
        dead = tuple(
            _unleased_dead_message(state, each, now, "unreadable", problem)
            for each, problem in selection.unreadable.items()
        )
        records.append(MarkedDead(state.where, dead, "unreadable"))
    if done:
        expired = len(selection.outdated) if selection.drops else 0
        ranges = ranges_of(sorted(done))
        records.append(Finished(state.where, ranges, is_ack=False, expired=expired))
    if selection.chosen or selection.passed or selection.deferred:
        records.append(_build_leased(selection, lease_id, consumer, now, deadline))
    elif selection.cursors != state.cursors:
        records.append(Finished(state.where, (), is_ack=False, cursors=tuple(selection.cursors)))
    return records


def _refresh(selection: Selection, now: Timestamp) -> None:
    """Leave out what is not ready any more."""
    state = selection.state
    lost = {offset for offset in selection.again if not state.is_ready(offset, now)}
    if lost:
        selection.again = [offset for offset in selection.again if offset not in lost]
        selection.chosen = [
            each for each in selection.chosen if isinstance(each, Run) or each[0].offset not in lost
        ]
    selection.outdated = [each for each in selection.outdated if _is_free(state, each, now)]
    selection.unreadable = {
        each: problem
        for each, problem in selection.unreadable.items()
        if _is_free(state, each, now)
    }
    selection.gone = [each for each in selection.gone if _is_free(state, each, now)]


def _is_free(state: PartitionState, offset: int, now: Timestamp) -> bool:
    """Never delivered, or ready to be."""
    return offset not in state.messages or state.is_ready(offset, now)


def _build_leased(
    selection: Selection, lease_id: int, consumer: str, now: Timestamp, deadline: Timestamp
) -> Leased:
    return Leased(
        where=selection.state.where,
        lease_id=lease_id,
        consumer=consumer,
        at=now,
        deadline=deadline,
        fresh=tuple(selection.fresh),
        again=tuple(selection.again),
        cursors=tuple(selection.cursors),
        passed=tuple(selection.passed),
        deferred=tuple(selection.deferred),
        keys=tuple((offset, key) for key, offset in selection.keys.items()),
    )


def _unleased_dead_message(
    state: PartitionState, offset: int, now: Timestamp, reason: Reason, error: str = ""
) -> DeadMessage:
    """The end of a message that nobody held."""
    history = state.history.get(offset)
    return DeadMessage(
        offset=Offset(offset),
        reason=reason,
        error=(error or (history.error if history else ""))[:ERROR_LENGTH_MAX],
        consumer=history.consumer if history else "",
        attempts=history.deliveries if history else 0,
        failures=history.failures if history else 0,
        first_at=history.first_at if history else NO_TIMESTAMP,
        last_at=history.last_at if history else NO_TIMESTAMP,
        died_at=now,
        timeouts=history.timeouts if history else 0,
    )


def dead_message(
    state: PartitionState,
    lease: Lease,
    offset: int,
    now: Timestamp,
    reason: Reason,
    cause: Cause | None,
    error: str,
) -> DeadMessage:
    """The end of a message that `lease` holds; None: its rejection, no failure of the delivery."""
    history = state.history.get(offset)
    told = error or (history.error if history else "")
    return DeadMessage(
        offset=Offset(offset),
        reason=reason,
        error=told[:ERROR_LENGTH_MAX],
        consumer=lease.consumer,
        attempts=state.attempt(offset),
        failures=state.failures(offset) + (cause == "nacked"),
        first_at=history.first_at if history else lease.delivered_at,
        last_at=lease.delivered_at,
        died_at=now,
        timeouts=state.timeouts(offset) + (cause in TIMEOUTS),
    )
