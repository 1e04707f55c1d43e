"""Handing messages out: what was chosen becomes a decision.

Choosing means reading the log, which takes time; deciding takes none.  So a choice (`Take`) is
looked at once more when it is decided: what came back to somebody else's hands meanwhile is left
out, and all of it is void when the floor was moved by decree.
"""

import msgspec

from goqueue.model.ids import NO_TIMESTAMP, Offset, Timestamp
from goqueue.model.record import Record
from goqueue.queue.dead_letter import ERROR_LENGTH_MAX
from goqueue.queue.delivery_batch import Chosen, Run, count_of
from goqueue.queue.lease import Lease
from goqueue.queue.partition_state import Ledger
from goqueue.queue.ranges import ranges_of
from goqueue.queue.records import (
    TIMEOUTS,
    Cause,
    DeadMessage,
    Finished,
    Handed,
    MarkedDead,
    QueueRecord,
    Reason,
)


class Take:
    """What was chosen of one partition."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.moves = ledger.moves
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
        self.cursors = list(ledger.cursors)

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
        offset, ledger = record.offset, self.ledger
        attempt = ledger.attempts_so_far(offset) + 1
        single = record, attempt, lane, ledger.failures(offset), ledger.timeouts(offset)
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
            or min(self.cursors) > min(self.ledger.cursors)
        )


class HandOut(msgspec.Struct, frozen=True):
    lease_id: int
    deadline: Timestamp


def hand(
    take: Take, lease_id: int, consumer: str, now: Timestamp, deadline: Timestamp
) -> list[QueueRecord]:
    """The records that make a choice so; the choice is mended first."""
    ledger = take.ledger
    _mend(take, now)
    records: list[QueueRecord] = []
    done = list(take.gone)
    if take.outdated and take.drops:
        done += take.outdated
    elif take.outdated:
        letters = tuple(
            _unleased_dead_message(ledger, each, now, "expired") for each in take.outdated
        )
        records.append(MarkedDead(ledger.where, letters, "outdated"))
    if take.unreadable:
        letters = tuple(
            _unleased_dead_message(ledger, each, now, "unreadable", problem)
            for each, problem in take.unreadable.items()
        )
        records.append(MarkedDead(ledger.where, letters, "unreadable"))
    if done:
        expired = len(take.outdated) if take.drops else 0
        ranges = ranges_of(sorted(done))
        records.append(Finished(ledger.where, ranges, is_ack=False, expired=expired))
    if take.chosen or take.passed or take.deferred:
        records.append(_handed(take, lease_id, consumer, now, deadline))
    elif take.cursors != ledger.cursors:
        records.append(Finished(ledger.where, (), is_ack=False, cursors=tuple(take.cursors)))
    return records


def _mend(take: Take, now: Timestamp) -> None:
    """Leave out what is not ready any more."""
    ledger = take.ledger
    lost = {offset for offset in take.again if not ledger.is_ready(offset, now)}
    if lost:
        take.again = [offset for offset in take.again if offset not in lost]
        take.chosen = [
            each for each in take.chosen if isinstance(each, Run) or each[0].offset not in lost
        ]
    take.outdated = [each for each in take.outdated if _is_free(ledger, each, now)]
    take.unreadable = {
        each: problem for each, problem in take.unreadable.items() if _is_free(ledger, each, now)
    }
    take.gone = [each for each in take.gone if _is_free(ledger, each, now)]


def _is_free(ledger: Ledger, offset: int, now: Timestamp) -> bool:
    """Never handed out, or ready to be."""
    return offset not in ledger.held or ledger.is_ready(offset, now)


def _handed(
    take: Take, lease_id: int, consumer: str, now: Timestamp, deadline: Timestamp
) -> Handed:
    return Handed(
        where=take.ledger.where,
        lease_id=lease_id,
        consumer=consumer,
        at=now,
        deadline=deadline,
        fresh=tuple(take.fresh),
        again=tuple(take.again),
        cursors=tuple(take.cursors),
        passed=tuple(take.passed),
        deferred=tuple(take.deferred),
        keys=tuple((offset, key) for key, offset in take.keys.items()),
    )


def _unleased_dead_message(
    ledger: Ledger, offset: int, now: Timestamp, reason: Reason, error: str = ""
) -> DeadMessage:
    """The end of a message that nobody held."""
    history = ledger.history.get(offset)
    return DeadMessage(
        offset=Offset(offset),
        reason=reason,
        error=(error or (history.error if history else ""))[:ERROR_LENGTH_MAX],
        consumer=history.consumer if history else "",
        attempts=history.hand_outs if history else 0,
        failures=history.failures if history else 0,
        first_at=history.first_at if history else NO_TIMESTAMP,
        last_at=history.last_at if history else NO_TIMESTAMP,
        died_at=now,
        timeouts=history.timeouts if history else 0,
    )


def dead_message(
    ledger: Ledger,
    lease: Lease,
    offset: int,
    now: Timestamp,
    reason: Reason,
    cause: Cause | None,
    error: str,
) -> DeadMessage:
    """The end of a message that `lease` holds; None: its rejection, no failure of the delivery."""
    history = ledger.history.get(offset)
    told = error or (history.error if history else "")
    return DeadMessage(
        offset=Offset(offset),
        reason=reason,
        error=told[:ERROR_LENGTH_MAX],
        consumer=lease.consumer,
        attempts=ledger.attempt(offset),
        failures=ledger.failures(offset) + (cause == "nacked"),
        first_at=history.first_at if history else lease.handed_at,
        last_at=lease.handed_at,
        died_at=now,
        timeouts=ledger.timeouts(offset) + (cause in TIMEOUTS),
    )
