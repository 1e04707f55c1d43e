"""Publishing messages that are delayed: what their headers say, and the way into the delay log."""

import asyncio
from collections.abc import Sequence

import msgspec

from goqueue.broker.delays.appending import DelayedAppends
from goqueue.broker.messages.outgoing import Outcome, OutgoingMessage, Published
from goqueue.broker.messages.preparation import fitting_runs
from goqueue.broker.storage.partition import Partition
from goqueue.cluster import Topic
from goqueue.delay import NOT_DELAYED, due_of
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Timestamp
from goqueue.model.record import Record

Waiting = list[tuple[asyncio.Future[None], list[int]]]


def to_record(message: OutgoingMessage, now: Timestamp) -> Record:
    time = now if message.timestamp is None else message.timestamp
    return Record(0, time, message.key, message.value, message.headers)


class DueTimes(msgspec.Struct):
    """By place in the request."""

    later: dict[int, Timestamp]
    past: dict[int, Timestamp]  # they asked for a time that is over: they go at once


def find_due_times(
    topic: Topic,
    messages: Sequence[OutgoingMessage],
    places: list[int],
    now: Timestamp,
    outcomes: list[Outcome | None],
) -> DueTimes:
    """What the headers say; messages whose headers make no sense get their outcome."""
    found = DueTimes({}, {})
    if not topic.settings.goqueue_delayed_messages_max:
        return found
    for place in places:
        headers = messages[place].headers
        if not headers:
            continue
        try:
            due = due_of(headers, now)
        except GoQueueError as error:
            outcomes[place] = error
            continue
        if due > now:
            found.later[place] = due
        elif due != NOT_DELAYED:
            found.past[place] = due
    return found


async def schedule(
    delays: DelayedAppends,
    partition: Partition,
    messages: Sequence[OutgoingMessage],
    due_times: DueTimes,
    outcomes: list[Outcome | None],
    now: Timestamp,
) -> Waiting:
    """Write the messages that are for later; whoever answers waits for what this gives."""
    waiting: Waiting = []
    bytes_max = partition.log.settings.max_message_bytes
    for run in fitting_runs(messages, list(due_times.later), bytes_max):
        records = [to_record(messages[place], now) for place in run]
        later = [
            (record, due_times.later[place]) for place, record in zip(run, records, strict=True)
        ]
        try:
            appended, committed = await delays.schedule(partition, later)
        except GoQueueError as error:
            for place in run:
                outcomes[place] = error
            continue
        waiting.append((committed, run))
        for step, (place, record) in enumerate(zip(run, records, strict=True)):
            outcomes[place] = Published(
                partition.index,
                appended.first_offset + step,
                record.timestamp,
                deliver_at=due_times.later[place],
                is_delayed=True,
            )
    return waiting


async def publish_keyed(
    delays: DelayedAppends,
    partition: Partition,
    data: bytearray,
    places: list[int],
    outcomes: list[Outcome | None],
    timeout_seconds: float,
    now: Timestamp,
) -> Waiting:
    """One batch under an idempotency key, of which some messages are for later."""
    parts = await delays.append(partition, data, timeout_seconds=timeout_seconds)
    assert parts is not None, "some are delayed"
    is_repeat = parts.data.is_repeat
    for step, place in enumerate(places):
        due = parts.dues.get(step)
        first = parts.data.first_offset if due is None else parts.delays.first_offset
        outcomes[place] = Published(
            partition.index,
            first + step if first >= 0 else -1,
            now,
            is_repeat,
            deliver_at=due,
            is_delayed=due is not None,
        )
    return [(partition.wait_committed(parts.data.last_offset, timeout_seconds), places)]


def note_past(outcomes: list[Outcome | None], due_times: DueTimes) -> None:
    """The answer says that they asked for a time that is over."""
    for place, due in due_times.past.items():
        outcome = outcomes[place]
        if isinstance(outcome, Published):
            outcomes[place] = msgspec.structs.replace(outcome, deliver_at=due)
