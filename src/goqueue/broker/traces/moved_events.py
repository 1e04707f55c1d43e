"""Messages that go on at another place: delayed ones when they are due, dead letters redriven."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from uuid import UUID

from goqueue.broker.traces.recorder import PartitionTracer
from goqueue.trace.events import UNKNOWN, Space, Step

RUNS_MAX: Final = 32  # of one batch that have an event each


def note_scheduled(
    tracer: PartitionTracer | None, offsets: Sequence[int], dues: Sequence[int]
) -> None:
    """They wait in the delay log; `tracer` is the delay log's."""
    if tracer is None or not tracer.is_on:
        return
    runs: Iterable[tuple[int, int, int]] | None = _few_runs(offsets, dues, step=0)
    if runs is None:  # each is due at a time of its own, which is in the delay log
        runs = ((first, last, UNKNOWN) for first, last, _ in _runs(offsets, offsets, step=1))
    for first, last, due in runs:
        event = tracer.event(Step.DELAY_SCHEDULED, first, last)
        event.until_ms = due
        tracer.record(event)


def note_ready(tracer: PartitionTracer | None, offsets: Sequence[int], data_last: int) -> None:
    """They are in the data, one after the other up to `data_last`; `tracer` is the data's."""
    if tracer is None or not tracer.is_on:
        return
    at = range(data_last - len(offsets) + 1, data_last + 1)
    runs = _few_runs(offsets, at, step=1)
    if runs is None:  # each says in its headers where it comes from
        tracer.record(tracer.event(Step.DELAY_READY, at[0], data_last))
        return
    for first, last, target in runs:
        event = tracer.event(Step.DELAY_READY, first, last)
        event.space = Space.DELAYS
        event.link_topic, event.link_topic_id = tracer.topic, tracer.topic_id
        event.link_partition, event.link_first = tracer.index, target
        tracer.record(event)


def note_cancelled(tracer: PartitionTracer | None, offset: int) -> None:
    """Of the delay log; `tracer` is the data's."""
    if tracer is not None:
        event = tracer.event(Step.DELAY_CANCELLED, offset, offset)
        event.space = Space.DELAYS
        tracer.record(event)


def note_redriven(
    tracer: PartitionTracer | None,
    offsets: Sequence[int],
    there: tuple[str, UUID, int],
    first_there: int,
    begun_ns: int | None = None,
) -> None:
    """Dead letters are in another partition from `first_there` on.

    `tracer` is that of the dead letters, `begun_ns` the instant at which they were sent there.
    """
    if tracer is None or not tracer.is_on:
        return
    topic, topic_id, partition = there
    places = range(first_there, first_there + len(offsets))
    time_us = 0 if begun_ns is None else tracer.wall_us(begun_ns)
    for first, last, at in _runs(offsets, places, step=1):
        event = tracer.event(Step.DLQ_REDRIVEN, first, last, time_us)
        event.link_topic, event.link_topic_id = topic, topic_id.bytes
        event.link_partition, event.link_first = partition, at
        tracer.record(event)


def _few_runs(
    offsets: Sequence[int], beside: Sequence[int], step: int
) -> Sequence[tuple[int, int, int]] | None:
    """None when there are many: an event for each message would cost more than the message."""
    found = list(itertools.islice(_runs(offsets, beside, step), RUNS_MAX + 1))
    return found if len(found) <= RUNS_MAX else None


def _runs(
    offsets: Sequence[int], beside: Sequence[int], step: int
) -> Iterator[tuple[int, int, int]]:
    """First and last of neighbours, and what stands beside the first: it rises by `step`."""
    first = last = value = -2
    for offset, other in zip(offsets, beside, strict=True):
        if offset == last + 1 and other == value + step * (offset - first):
            last = offset
            continue
        if last >= 0:
            yield first, last, value
        first = last = offset
        value = other
    if last >= 0:
        yield first, last, value
