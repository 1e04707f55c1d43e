"""Writes messages that are due to the partition's data, each exactly once.

    append to the data ── committed there ── `Delivered`, in the timers' log ── committed, too
          │ at most `IN_DOUBT_MAX` batches are on this way at a time
          └── a crash, or another leader: the data's producer state names the last batches

Data and delays have one leader, so the append is a step of this process: either it is in the log or
it is not.  What a crash leaves in doubt is told by the data: the delays are a producer of their own
in it, whose last batches a log knows, and each message names its place in the delay log.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import structlog

from goqueue.broker.delays.time_to_live import is_outdated_body
from goqueue.broker.delays.waiting_messages import WaitingMessages
from goqueue.broker.machine_host import MachineHost, Written
from goqueue.broker.storage.partition import Partition
from goqueue.broker.traces.moved_events import note_ready
from goqueue.delay import DelayMachine, Entry, source_offset
from goqueue.delay.batches import due_batch
from goqueue.log import DELAYS_PRODUCER, Log
from goqueue.model import batch as batches
from goqueue.model import compression
from goqueue.model.batch import HEADER_BYTES
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset, Timestamp
from goqueue.runtime import Clock

BATCH_MESSAGES_MAX: Final = 5_000
BATCH_BYTES_MAX: Final = 1024 * 1024  # and the topic's own limit
HEAD_BYTES_MAX: Final = 16  # of a record, before its body
IN_DOUBT_MAX: Final = 4  # fewer than the batches that a log knows of a producer
SEQUENCE_MAX: Final = 2**31 - 1

_log = structlog.get_logger("goqueue.delays")

OnDelivered = Callable[[Sequence[Entry], Timestamp], None]


class _InDoubt(msgspec.Struct):
    offsets: list[int]
    entries: list[Entry]  # none for what was found after a crash
    last: Offset  # in the data
    written: Written = None  # the note, in the timers' log


class Delivery:
    def __init__(
        self,
        data: Partition,
        timers: MachineHost[DelayMachine],
        waiting: WaitingMessages,
        clock: Clock,
        take_room: Callable[[int], None],
        on_delivered: OnDelivered,
    ) -> None:
        """`take_room` raises when the disk is full."""
        self._data = data
        self._timers = timers
        self._waiting = waiting
        self._clock = clock
        self._take_room = take_room
        self._on_delivered = on_delivered
        self._in_doubt: deque[_InDoubt] = deque()

    async def recover(self) -> None:
        """Take in what was written to the data and is not noted; before anything is delivered."""
        producer = self._data.log.producers.find(DELAYS_PRODUCER)
        noted = self._timers.ahead.data_end
        for batch in () if producer is None else producer.batches:
            if batch.last_offset >= noted:
                offsets = await self._read_sources(batch.first_offset, batch.last_offset)
                self._timers.ahead.note_found(offsets)
                self._watch(offsets, [], batch.last_offset)

    async def _read_sources(self, first: Offset, last: Offset) -> list[int]:
        end = Offset(last + 1)
        if last < self._data.log.start_offset:
            _log.error("delivered messages were deleted before it was noted", offset=last)
            return []
        chunk = await self._data.read(max(first, self._data.log.start_offset), 1, end)
        found = []
        for header in batches.headers(chunk.data):
            if header.producer_id == DELAYS_PRODUCER:
                sources = map(source_offset, batches.decode(chunk.data, header))
                found += [offset for offset in sources if offset is not None]
        return found

    async def deliver(self, entries: Sequence[Entry]) -> None:
        """Append these to the data, in this order; raises when that cannot be done now.

        What was not appended is put back.
        """
        left = deque(entries)
        try:
            found = await self._waiting.take([offset for _, offset in entries])
            self._give_up([offset for _, offset in entries if offset not in found])
            outdated = self._find_outdated(entries, found)
            if outdated and self._data.log.settings.goqueue_expired == "drop":
                self._expire([entry for entry in entries if entry[1] in outdated], found)
            for some in self._batches(entries, found, outdated):
                await self._settle(IN_DOUBT_MAX - 1)
                self._append(some, found, is_outdated=some[0][1] in outdated)
                while left and left[0] != some[-1]:
                    left.popleft()
                left.popleft()
            left.clear()
        finally:
            self._timers.ahead.put_back(left)

    def _find_outdated(self, entries: Sequence[Entry], found: dict[int, bytes]) -> set[int]:
        """Offsets of those whose time to live has passed since they were due."""
        now, ttl_ms = self._clock.now(), self._data.log.settings.goqueue_ttl_ms
        return {
            offset
            for due, offset in entries
            if due < now and offset in found and is_outdated_body(found[offset], due, ttl_ms, now)
        }

    def _expire(self, entries: Sequence[Entry], found: dict[int, bytes]) -> None:
        offsets = [offset for _, offset in entries]
        self._timers.write(lambda machine: machine.expire(offsets))
        for offset in offsets:
            del found[offset]

    def _batches(
        self, entries: Sequence[Entry], found: dict[int, bytes], outdated: set[int]
    ) -> Iterator[list[Entry]]:
        """Runs that fit a batch, and of which all or none are outdated."""
        bytes_max = min(BATCH_BYTES_MAX, self._data.log.settings.max_message_bytes)
        some, size = list[Entry](), HEADER_BYTES
        for entry in entries:
            body = found.get(entry[1])
            if body is None:
                continue
            needed = HEAD_BYTES_MAX + len(body)
            is_full = size + needed > bytes_max or len(some) >= BATCH_MESSAGES_MAX
            if some and (is_full or (entry[1] in outdated) != (some[0][1] in outdated)):
                yield some
                some, size = [], HEADER_BYTES
            some.append(entry)
            size += needed
        if some:
            yield some

    def _give_up(self, offsets: list[int]) -> None:
        """They are not in the delay log: a disk lost them, or an unclean election did."""
        if offsets:
            name = str(self._data)
            _log.error("delayed messages are gone from the log", partition=name, offsets=offsets)
            self._timers.write(lambda machine: machine.deliver(offsets, machine.data_end))

    def _append(self, entries: list[Entry], found: dict[int, bytes], *, is_outdated: bool) -> None:
        """Their timestamp is the time of delivery; what is outdated keeps when it was due.

        So queues treat it as expired.
        """
        data, now = self._data, self._clock.now()
        data.check_enough_replicas()
        offsets = [offset for _, offset in entries]
        kind = data.log.settings.compression_type
        codec = 0 if kind in ("producer", "uncompressed") else compression.codec_id(kind)
        batch = due_batch(
            [found[offset] for offset in offsets],
            timestamp=Timestamp(entries[0][0]) if is_outdated else now,
            sequence=next_sequence(data.log),
            codec=codec,
        )
        self._take_room(len(batch))
        appended = data.append(batch, [batches.header_at(batch, 0)], now)
        assert not appended.is_repeat, "the delays' sequence is their own"
        self._watch(offsets, entries, appended.last_offset)

    def _watch(self, offsets: list[int], entries: list[Entry], last: Offset) -> None:
        """Note them once they are committed in the data."""
        self._in_doubt.append(_InDoubt(offsets, entries, last))
        committed = self._data.wait_committed(last)
        committed.add_done_callback(self._note_if_done)

    def _note_if_done(self, done: asyncio.Future[None]) -> None:
        if done.cancelled() or done.exception() is not None:
            return  # another node leads, or the disk failed
        try:
            self._note_committed()
        except GoQueueError as error:  # tried again; the next leader finds it in the data
            _log.warning("delivery not noted yet", partition=str(self._data), problem=str(error))

    def _note_committed(self) -> None:
        """In order: what lies before the end that is noted is never looked at again."""
        for batch in self._in_doubt:
            if batch.last >= self._data.log.high_watermark:
                return
            if batch.written is None:
                self._note(batch)

    def _note(self, batch: _InDoubt) -> None:
        end = Offset(batch.last + 1)
        _, batch.written = self._timers.write(lambda machine: machine.deliver(batch.offsets, end))
        note_ready(self._data.tracer, batch.offsets, batch.last)
        if batch.entries:
            self._on_delivered(batch.entries, self._clock.now())

    async def _settle(self, most: int) -> None:
        """Return when so few batches are in doubt that the data's producer state names them."""
        while len(self._in_doubt) > most:
            batch = self._in_doubt[0]
            await self._data.wait_committed(batch.last)
            self._note_committed()
            await self._timers.durable(batch.written)
            self._in_doubt.popleft()


def next_sequence(log: Log) -> int:
    """Of the delays, which are a producer of their own in a log."""
    producer = log.producers.find(DELAYS_PRODUCER)
    if producer is None or not producer.batches:
        return 0
    last = producer.batches[-1].last_sequence
    return 0 if last == SEQUENCE_MAX else last + 1
