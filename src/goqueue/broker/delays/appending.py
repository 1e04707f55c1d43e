"""Batches with delayed messages on their way in, from any listener.

    delay log: what is delayed ── committed ──> data: the rest, with the batch's whole sequence

In this order: once the data has the sequence, a repetition is answered and not written.  A crash in
between leaves the delayed part in the delay log and nothing in the data; then the producer sends
the batch again, and the delay log knows its part.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec

from goqueue.broker.delays.header_search import HeaderSearch
from goqueue.broker.delays.line import DelayLine
from goqueue.broker.delays.lines import DelayLines
from goqueue.broker.storage.batch_validation import prepare
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Metadata, Topic
from goqueue.cluster.controller import check_delay
from goqueue.cluster.features import DELAYS, DELAYS_LEVEL, demand_support
from goqueue.delay.batches import (
    Delayed,
    delay_part,
    find_later,
    waiting_batch,
)
from goqueue.delay.errors import TooManyDelayed
from goqueue.log import Appended
from goqueue.model import batch as batches
from goqueue.model.batch import BatchHeader
from goqueue.model.errors import ShuttingDown
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.partial_batch import LeftOut, without_records
from goqueue.runtime import Clock

NOWHERE: Final = Offset(-1)  # in the data: all messages of the batch are delayed
NOT_APPENDED: Final = Appended(NOWHERE, NOWHERE, Timestamp(-1))

Admit = Callable[[], Awaitable[None]]


class TakesMessages(Protocol):
    partitions: Partitions

    @property
    def metadata(self) -> Metadata: ...

    @property
    def is_stopping(self) -> bool: ...

    def topic(self, name: str) -> Topic: ...


class AppendedParts(msgspec.Struct, frozen=True):
    """Where a batch went: its places in the data, and in the delay log."""

    data: Appended
    delays: Appended
    dues: dict[int, Timestamp]  # by place in the batch; these are in the delay log


class _Piece(msgspec.Struct, frozen=True):
    """A batch of a request."""

    data: bytearray | memoryview
    header: BatchHeader
    later: list[Delayed]
    left_out: frozenset[int]


class DelayedAppends:
    def __init__(self, broker: TakesMessages, clock: Clock, lines: DelayLines) -> None:
        self._broker = broker
        self._clock = clock
        self._lines = lines
        self.search = HeaderSearch(clock, lines)

    # --- batches of producers ---------------------------------------------------------------------

    async def append(
        self,
        partition: Partition,
        data: bytearray | memoryview,
        *,
        timeout_seconds: float,
        admit: Admit | None = None,
        left_out: LeftOut | None = None,
    ) -> AppendedParts | None:
        """Write the batches, each to both logs; None when none of the messages is delayed.

        What is delayed is durable on return, what is for now is written: whoever answers waits for
        its commit.  `admit` raises when the producer's transaction is not open; what follows it is
        done in the same step.  Records that are `left_out` are elsewhere.
        """
        now = self._clock.now()
        partition.check_enough_replicas()
        prepared, headers = prepare(data, partition.log.settings, now)
        gone = left_out or {}
        later = [
            find_later(prepared, header, now, gone.get(number, ()))
            for number, header in enumerate(headers)
        ]
        if not any(later):
            return None
        written: AppendedParts | None = None
        for number, header in enumerate(headers):
            piece = _Piece(prepared, header, later[number], frozenset(gone.get(number, ())))
            appended = await self._append(partition, piece, timeout_seconds, admit)
            written = _join(written, appended)
        return written

    async def _append(
        self, partition: Partition, piece: _Piece, timeout_seconds: float, admit: Admit | None
    ) -> AppendedParts:
        header, later = piece.header, piece.later
        partition.check_leader()
        line = await self._line(partition)
        dues = {record.offset - header.base_offset: due for record, due in later}
        repeat = partition.log.producers.check(header) if header.has_producer else None
        if repeat is not None:
            data = Appended(repeat.first_offset, repeat.last_offset, repeat.append_time, True)
            return AppendedParts(data, _find_repeat(line, header), dues)
        self._check_room(partition, later)
        if admit is not None:
            await admit()
        delays = NOT_APPENDED
        if later:
            base = line.messages.log.end_offset
            batch = delay_part(header, later, partition=partition.index, base_offset=base)
            delays = self._write(line.messages, line, batch)
            await line.messages.wait_committed(delays.last_offset, timeout_seconds)
        gone = piece.left_out | dues.keys()
        if len(gone) == header.count and not header.has_producer:
            return AppendedParts(NOT_APPENDED, delays, dues)
        if admit is not None:
            await admit()
        data = self._write(partition, None, without_records(piece.data, header, gone))
        return AppendedParts(data, delays, dues)

    def _write(self, log: Partition, line: DelayLine | None, batch: bytearray) -> Appended:
        if self._broker.is_stopping:
            raise ShuttingDown("this broker is shutting down")
        self._broker.partitions.room.take(len(batch))
        header = batches.header_at(batch, 0)
        if line is not None:
            return line.append(batch, header)
        return log.append(batch, [header], self._clock.now())

    # --- single messages --------------------------------------------------------------------------

    async def schedule(
        self, partition: Partition, later: Sequence[Delayed]
    ) -> tuple[Appended, asyncio.Future[None]]:
        """Write messages that no producer numbered; done when they are durable."""
        line = await self._line(partition)
        partition.check_leader()
        line.messages.check_enough_replicas()
        self._check_room(partition, later)
        base = line.messages.log.end_offset
        batch = waiting_batch(later, partition=partition.index, base_offset=base)
        appended = self._write(line.messages, line, batch)
        return appended, line.messages.wait_committed(appended.last_offset)

    async def _line(self, partition: Partition) -> DelayLine:
        found = self._lines.find(partition.topic, partition.index)
        if found is not None and found.data is partition:
            return found
        return await self._lines.get(self._broker.topic(partition.topic), partition.index)

    def _check_room(self, partition: Partition, later: Sequence[Delayed]) -> None:
        """Each leader allows its part of what the topic may have: they need not ask each other."""
        count = len(later)
        if later:
            longest = max(due for _, due in later) - self._clock.now()
            check_delay(self._broker.metadata, partition.topic, longest)
        demand_support(self._broker.metadata, DELAYS, DELAYS_LEVEL)
        topic = self._broker.topic(partition.topic)
        most = topic.settings.goqueue_delayed_messages_max
        here = [
            index
            for index in range(topic.partitions)
            if (bundle := self._broker.partitions.used_bundle(topic.name, index)) is None
            or bundle.is_led_here
        ]
        allowed = max(1, most * len(here) // topic.partitions)
        lines = (self._lines.find(topic.name, index) for index in here)
        waiting = sum(line.pending for line in lines if line is not None)
        if waiting + count > allowed:
            raise TooManyDelayed(
                f"{waiting} delayed messages of {topic.name} wait here, and {allowed} may (topic"
                f" setting goqueue.delayed.messages.max: {most}): raise it, cancel some, or wait"
            )


def _find_repeat(line: DelayLine, header: BatchHeader) -> Appended:
    """Where the delayed part of a batch is that the data knows already."""
    producer = line.messages.log.producers.find(header.producer_id)
    for each in () if producer is None else producer.batches:
        if each.base_sequence == header.base_sequence:
            return Appended(each.first_offset, each.last_offset, each.append_time, True)
    return NOT_APPENDED


def _join(written: AppendedParts | None, appended: AppendedParts) -> AppendedParts:
    """Of several batches in one request: the first's places, and the last's end."""
    if written is None:
        return appended
    first, last = written.data, appended.data
    if first.first_offset == NOWHERE:
        return appended
    if last.first_offset == NOWHERE:
        return written
    return AppendedParts(
        Appended(first.first_offset, last.last_offset, last.append_time),
        appended.delays,
        written.dues,
    )
