"""What a queue ledger writes, as events: it says of every message who has it, and how that ended.

The ledger is looked at before it applies its records: what a record ends is still known.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from goqueue.broker.storage.partition_store import Partitions
from goqueue.broker.traces.recorder import PartitionTracer
from goqueue.queue import (
    AckFloorMoved,
    DeadLettered,
    Extended,
    Finished,
    Leased,
    MarkedDead,
    QueueMachine,
    QueueRecord,
    ReservationsEnded,
    Returned,
    Where,
)
from goqueue.queue.ranges import ranges_of
from goqueue.trace.events import Step, TraceEvent

_CAUSES: Final = {
    "nacked": Step.NACKED,
    "released": Step.RELEASED,
    "rejected": Step.REJECTED,
    "outdated": Step.EXPIRED,
    "unreadable": Step.REJECTED,
}  # all others: no answer came

Run = tuple[int, int]


class LedgerEvents:
    """Of all ledgers of this node."""

    def __init__(self, partitions: Partitions, topic_id_of: Callable[[str], bytes]) -> None:
        self._partitions = partitions
        self._topic_id_of = topic_id_of

    def observe(self, machine: QueueMachine, records: Sequence[QueueRecord]) -> None:
        data = self._partitions.find_open(machine.topic, machine.partition)
        tracer = None if data is None else data.tracer
        if tracer is None or not tracer.is_on:
            return
        for record in records:
            self._note(tracer, machine, record)

    def _note(self, tracer: PartitionTracer, machine: QueueMachine, record: QueueRecord) -> None:
        match record:
            case Leased():
                _note_leased(tracer, machine, record)
            case Finished():
                step = Step.ACKED if record.is_ack else Step.EXPIRED
                if record.is_ack or record.expired:
                    _note_ended(tracer, machine, record.where, record.ranges, step)
            case Returned():
                _note_returned(tracer, machine, record)
            case Extended(where=where, offsets=offsets, deadline=deadline):
                for run in ranges_of(sorted(offsets)):
                    event = _event(tracer, machine, where, run, Step.VISIBILITY_EXTENDED)
                    event.until_ms = deadline
                    tracer.record(event)
            case MarkedDead():
                _note_dead(tracer, machine, record)
            case DeadLettered():
                self._note_dead_lettered(tracer, record)
            case ReservationsEnded():
                _note_transaction(tracer, machine, record)
            case AckFloorMoved(where=where, floor=floor):
                state = machine.states.get(where.group_id)
                if state is not None and floor > state.ack_floor:
                    event = tracer.event(Step.ACKED, state.ack_floor, floor - 1)
                    event.group, event.detail = where.group_id, "committed offset"
                    tracer.record(event)
            case _:
                pass

    def _note_dead_lettered(self, tracer: PartitionTracer, record: DeadLettered) -> None:
        """Their batch ends at `dead_letters_end`, in the order of their offsets."""
        count = sum(last - first + 1 for first, last in record.ranges)
        at = record.dead_letters_end - count
        if at < 0:
            return  # they are gone
        where, topic = record.where, record.dead_letter_topic
        topic_id = self._topic_id_of(topic)
        for first, last in record.ranges:
            event = tracer.event(Step.DLQ_ROUTED, first, last)
            event.group = where.group_id
            event.link_topic, event.link_topic_id = topic, topic_id
            event.link_partition, event.link_first = where.partition, at
            tracer.record(event)
            at += last - first + 1


def _event(
    tracer: PartitionTracer, machine: QueueMachine, where: Where, run: Run, step: Step
) -> TraceEvent:
    """With the consumer that has the first of the messages."""
    event = tracer.event(step, *run)
    event.group = where.group_id
    state = machine.states.get(where.group_id)
    lease = None if state is None else state.lease_of(run[0])
    if state is not None and lease is not None:
        event.member, event.attempt = lease.consumer, state.attempt(run[0])
    return event


def _note_leased(tracer: PartitionTracer, machine: QueueMachine, record: Leased) -> None:
    state = machine.states.get(record.where.group_id)
    runs = [(first, last, 1) for first, last, _ in record.fresh]
    runs += [
        (offset, offset, 1 if state is None else state.attempts_so_far(offset) + 1)
        for offset in record.again
    ]
    for first, last, attempt in _join(runs):
        event = tracer.event(Step.FETCHED, first, last)
        event.group, event.member = record.where.group_id, record.consumer
        event.attempt, event.until_ms = attempt, record.deadline
        tracer.record(event)


def _join(runs: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Neighbours that are alike, as one."""
    held: tuple[int, int, int] | None = None
    for first, last, attempt in sorted(runs):
        if held is not None and held[1] + 1 == first and held[2] == attempt:
            held = held[0], last, attempt
            continue
        if held is not None:
            yield held
        held = first, last, attempt
    if held is not None:
        yield held


def _note_ended(
    tracer: PartitionTracer,
    machine: QueueMachine,
    where: Where,
    ranges: Iterable[Run],
    step: Step,
    detail: str = "",
) -> None:
    for run in ranges:
        event = _event(tracer, machine, where, run, step)
        event.detail = detail
        tracer.record(event)


def _note_returned(tracer: PartitionTracer, machine: QueueMachine, record: Returned) -> None:
    step = _CAUSES.get(record.cause, Step.VISIBILITY_TIMEOUT)
    for run in ranges_of(sorted(record.offsets)):
        event = _event(tracer, machine, record.where, run, step)
        event.error, event.detail = record.error, "" if step == Step.NACKED else record.cause
        tracer.record(event)
    for first, last, visible_at in _join(
        (offset, offset, at)
        for offset, at in zip(record.offsets, record.visible_at, strict=True)
        if at > 0
    ):
        event = tracer.event(Step.RETRY_SCHEDULED, first, last)
        event.group, event.until_ms = record.where.group_id, visible_at
        tracer.record(event)


def _note_dead(tracer: PartitionTracer, machine: QueueMachine, record: MarkedDead) -> None:
    """The last delivery's end; the dead letters are written a little later."""
    step = _CAUSES.get(record.cause, Step.VISIBILITY_TIMEOUT)
    for message in record.dead:
        run = int(message.offset), int(message.offset)
        event = _event(tracer, machine, record.where, run, step)
        event.error, event.detail = message.error, message.reason
        event.member, event.attempt = message.consumer, message.attempts
        tracer.record(event)


def _note_transaction(
    tracer: PartitionTracer, machine: QueueMachine, record: ReservationsEnded
) -> None:
    """Its end acks what was reserved, or leaves it in flight as before."""
    state = machine.states.get(record.where.group_id)
    if state is None or record.transactional_id not in state.reserved:
        return
    ranges = state.reserved_ranges(record.transactional_id)
    step = Step.TXN_COMMITTED if record.commits else Step.TXN_ABORTED
    _note_ended(tracer, machine, record.where, ranges, step, record.transactional_id)
    if record.commits:
        _note_ended(tracer, machine, record.where, ranges, Step.ACKED)
