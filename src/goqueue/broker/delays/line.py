"""The delays of one partition at work: its delay log is read, its timers run, what is due goes out.

    producers ──> delay log ── committed ──> index ──> timers ── due ──> the partition's data
                                               └ what an aborted transaction wrote is left out

One task does all of it, in turns, and sleeps until something is due or the delay log has more.
What waits is read from the delay log as a consumer with `read_committed` would: a message of an
open transaction waits for the end of the transaction, and then until it is due.
"""

import asyncio
import contextlib
import heapq
from collections.abc import Callable
from typing import Final

import structlog

from goqueue.broker.delays.chunk_file import ChunkFile
from goqueue.broker.delays.cleaner import DelayLogCleaner
from goqueue.broker.delays.delivery import Delivery, OnDelivered
from goqueue.broker.delays.waiting_messages import AheadBudget, WaitingMessages
from goqueue.broker.machine_host import MachineHost
from goqueue.broker.storage.partition import Partition
from goqueue.broker.traces.moved_events import note_scheduled
from goqueue.broker.traces.requester import requester
from goqueue.delay import Copy, DelayMachine, Entry, source_offset
from goqueue.delay.batches import due_times, find_copies
from goqueue.delay.errors import DelayedMessageNotFound
from goqueue.log import DELAYS_PRODUCER, Appended, is_aborted
from goqueue.model import batch as batches
from goqueue.model.batch import BatchHeader
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset
from goqueue.model.record import Record
from goqueue.runtime import Clock

TAKE_MAX: Final = 5_000
INDEX_BYTES: Final = 1024 * 1024
DEFERRED_ENTRIES_MAX: Final = 100  # more of them are worth a write of their own
AHEAD_ENTRIES_MAX: Final = 100_000
AHEAD_SECONDS: Final = 0.5  # between two looks at what is due soon
SLEEP_SECONDS_MAX: Final = 1.0  # so long a jump of the clock may go unnoticed
RETRY_SECONDS: Final = 0.5
LISTED_AT_ONCE: Final = 20_000  # entries that are looked at without a pause
DELIVERED_UNTIL_SNAPSHOT: Final = 250_000

_log = structlog.get_logger("goqueue.delays")


class DelayLine:
    """Only the event loop's thread touches it."""

    def __init__(
        self,
        data: Partition,
        messages: Partition,
        timers: MachineHost[DelayMachine],
        chunks: ChunkFile | None,
        clock: Clock,
        budget: AheadBudget,
        take_room: Callable[[int], None],
        on_delivered: OnDelivered,
        want_snapshot: Callable[[], None],
    ) -> None:
        self.data = data
        self.messages = messages  # the delay log
        self.timers = timers
        self._chunks = chunks
        self._clock = clock
        self._waiting = WaitingMessages(messages, budget, self._place_of)
        self._delivery = Delivery(data, timers, self._waiting, clock, take_room, on_delivered)
        self._cleaner = DelayLogCleaner(messages, timers, self._waiting, self.append)
        self._want_snapshot = want_snapshot
        self._woken = asyncio.Event()
        self._indexing = asyncio.Lock()
        self._ahead_at = 0  # instant of the last look
        self._problem = ""  # that was told last
        self.task: asyncio.Task[None] | None = None

    def _place_of(self, offset: int) -> int:
        return self.timers.ahead.place_of(offset)

    @property
    def pending(self) -> int:
        """How many wait, with those that are not indexed yet; a few may be counted in excess."""
        machine = self.timers.ahead
        return machine.pending + max(0, self.messages.log.end_offset - machine.indexed_end)

    async def open(self) -> None:
        """After its timers were read: take in what was delivered and not noted."""
        machine = self.timers.ahead
        if machine.indexed_end > self.messages.log.end_offset:
            _log.error("the delay log lost its end", partition=str(self.data))
            end = self.messages.log.end_offset
            self.timers.write_or_defer(lambda machine: machine.index(end, (), ()))
        await self._delivery.recover()

    def close(self) -> None:
        self.messages.unsubscribe(self)
        if self.task is not None:
            self.task.cancel()
        self._waiting.close()
        if self._chunks is not None:
            self._chunks.close()

    # --- scheduling -------------------------------------------------------------------------------

    def append(self, data: bytearray, header: BatchHeader) -> Appended:
        """Write a batch to the delay log; a repetition of a producer's is known."""
        log = self.messages.log
        log.producers.takes_gaps = True  # the data has checked the sequence
        return self.messages.append(data, [header], self._clock.now())

    def wake(self) -> None:
        """The delay log has more, or something is due earlier."""
        self._woken.set()

    # --- running ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        requester.set(None)  # whoever published the first message does not ask for what follows
        self.messages.subscribe(self)
        while True:
            self._woken.clear()
            try:
                await self.index()
                await self._deliver()
                await self._read_ahead()
                self._problem = ""
                seconds = self._seconds_left()
            except GoQueueError as error:
                if self._problem != str(error):  # once: it may go on for long
                    self._problem = str(error)
                    _log.warning(
                        "delayed messages not delivered yet",
                        partition=str(self.data),
                        problem=self._problem,
                    )
                await self._clock.sleep(RETRY_SECONDS)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._woken.wait()

    def _seconds_left(self) -> float:
        machine = self.timers.ahead
        if machine.is_moving:
            return 0.0
        time = machine.next_time()
        if time is None:
            return SLEEP_SECONDS_MAX * 60  # until something is published
        return min(SLEEP_SECONDS_MAX, max(0.0, (time - self._clock.now()) / 1000))

    async def index(self) -> None:
        """Let the timers know of everything in the delay log that is committed."""
        async with self._indexing:
            limit = self.messages.read_limit(committed_only=True)
            while (start := self.timers.ahead.indexed_end) < limit:
                start = max(start, self.messages.log.start_offset)
                chunk = await self.messages.read(start, INDEX_BYTES, limit)
                aborted = self.messages.log.aborted.between(start, chunk.next_offset)
                dues, offsets, copies = list[int](), list[int](), list[Copy]()
                for header in batches.headers(chunk.data):
                    if header.producer_id == DELAYS_PRODUCER:
                        copies += find_copies(chunk.data, header)
                    elif not header.is_control and not is_aborted(header, aborted):
                        some = due_times(chunk.data, header)
                        dues += some[0]
                        offsets += some[1]
                self._note_indexed(chunk.next_offset, dues, offsets, copies)

    def _note_indexed(
        self, end: Offset, dues: list[int], offsets: list[int], copies: list[Copy]
    ) -> None:
        """Nobody waits for it: whatever is lost of it is read once more."""
        note_scheduled(self.messages.tracer, offsets, dues)
        is_small = len(dues) <= DEFERRED_ENTRIES_MAX
        (self.timers.defer if is_small else self.timers.write_or_defer)(
            lambda machine: machine.index(end, dues, offsets, copies)
        )

    async def _deliver(self) -> None:
        machine = self.timers.ahead
        while entries := machine.take(self._clock.now(), TAKE_MAX):
            await self._delivery.deliver(entries)
        least = max(DELIVERED_UNTIL_SNAPSHOT, machine.pending // 2)
        if machine.delivered_since_snapshot > least:
            machine.delivered_since_snapshot = 0
            self._want_snapshot()

    async def _read_ahead(self) -> None:
        instant = self._clock.instant()
        if instant - self._ahead_at >= AHEAD_SECONDS * 1e9:
            self._ahead_at = instant
            await self._waiting.read_ahead(self.timers.ahead.upcoming(AHEAD_ENTRIES_MAX))

    # --- looking ----------------------------------------------------------------------------------

    async def page(self, after: Entry, limit: int) -> list[Entry]:
        """What waits behind `after`, by due time and offset; the first `limit` of it."""
        await self.index()
        machine, found = self.timers.ahead, list[Entry]()
        for group in machine.groups(after[0]):
            some = list[Entry]()
            for dues, offsets in group:
                some += (
                    entry
                    for entry in zip(dues, offsets, strict=True)
                    if entry > after and not machine.is_over(entry[1])
                )
                if len(some) > LISTED_AT_ONCE:
                    some = heapq.nsmallest(limit, some)
                    await asyncio.sleep(0)
            found += heapq.nsmallest(limit - len(found), some)
            if len(found) >= limit:
                break
        await self.timers.wait_settled()
        return found

    async def find(self, offset: int) -> Record:
        """The message in the delay log, with its due time as timestamp.

        Raises `DelayedMessageNotFound`.
        """
        await self.index()
        log, place = self.messages.log, Offset(self._place_of(offset))
        if log.start_offset <= place < self.timers.ahead.indexed_end:
            chunk = await self.messages.read(place, 1, log.high_watermark)
            aborted = log.aborted.between(place, chunk.next_offset)
            for header in batches.headers(chunk.data):
                if not header.is_control and not is_aborted(header, aborted):
                    for record in batches.decode(chunk.data, header):
                        if record.offset == place and source_offset(record) == offset:
                            return record
        raise DelayedMessageNotFound(
            f"no delayed message {offset} in {self.data}: it was never there, or was delivered or"
            " cancelled long ago"
        )

    async def clean(self) -> None:
        """Remove what the delay log has no more need of."""
        await self._cleaner.clean()
