"""Keeps the delay log of a partition short: cuts it, and moves what would hold up the cut.

segments   |x.......|........|...x....|....active     x: waits, the others are over
copy       |x.......|........|...x....|....active xx   durable in the log and in the timers
cut                                   |....active xx   the next time
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from goqueue.broker.delays.delivery import next_sequence
from goqueue.broker.delays.waiting_messages import READ_BYTES, WaitingMessages
from goqueue.broker.machine_host import MachineHost
from goqueue.broker.storage.partition import Partition
from goqueue.delay import DelayMachine
from goqueue.delay.batches import moved_batch
from goqueue.delay.cleaning import LowestPlaces, choose_copies
from goqueue.model import batch as batches
from goqueue.model.batch import BatchHeader
from goqueue.model.ids import Offset
from goqueue.model.record import Record

CUT_BYTES_MIN: Final = 1024 * 1024
CHUNKS_AT_ONCE: Final = 16
COPY_BATCH_BYTES: Final = 256 * 1024
MOVED_MAX: Final = 200_000  # their places are in memory, some 100 bytes each

_log = structlog.get_logger("goqueue.delays")


class DelayLogCleaner:
    def __init__(
        self,
        messages: Partition,
        timers: MachineHost[DelayMachine],
        waiting: WaitingMessages,
        append: Callable[[bytearray, BatchHeader], object],
    ) -> None:
        self._messages = messages
        self._timers = timers
        self._waiting = waiting
        self._append = append

    async def clean(self) -> None:
        """Let the log begin with the first message that still waits, and move it if that pays."""
        log, machine = self._messages.log, self._timers.ahead
        if len(log.segments) < 2 and (machine.pending or log.size < CUT_BYTES_MIN):
            return  # nothing would be removed
        end = min(machine.indexed_end, log.high_watermark, self._waiting.lowest_in_use)
        lowest = LowestPlaces(machine.place_of)
        for number, offsets in enumerate(machine.needed_offsets()):
            lowest.note(offsets, are_moved=bool(machine.moved))
            if number % CHUNKS_AT_ONCE == 0:
                await asyncio.sleep(0)
        needed = lowest.find()
        first = Offset(min(end, needed[0][0])) if needed else end
        if first > log.start_offset:
            await self._cut(first)
        ends = [segment.base_offset for segment in log.segments[1:] if segment.base_offset <= end]
        if lowest.left_out:
            ends = ends[: bisect_left(ends, needed[-1][0])]
        count = choose_copies(needed, start=log.start_offset, ends=ends)
        if count and machine.moved + count <= MOVED_MAX:
            await self._move(sorted(place for place, _ in needed[:count]))

    async def _cut(self, end: Offset) -> None:
        """Once the timers' log has all that they know: where messages were moved to, too."""
        self._timers.write_deferred()
        self._timers.demand_sync()
        await self._timers.wait_settled()
        await self._messages.remove_before(end)

    async def _move(self, places: list[int]) -> None:
        """Copy the messages at these places; the timers find the copies when they read the log."""
        copied = 0
        while places:
            chunk = await self._messages.read(
                Offset(places[0]), READ_BYTES, self._messages.log.high_watermark
            )
            wanted = set(places[: bisect_left(places, chunk.next_offset)])
            found = [
                record
                for header in batches.headers(chunk.data)
                if not header.is_control
                for record in batches.decode(chunk.data, header)
                if record.offset in wanted
            ]
            for some in _runs(found):
                await self._copy(some)
            copied += len(found)
            places = places[len(wanted) :]
        _log.info("delayed messages moved", partition=str(self._messages), messages=copied)

    async def _copy(self, messages: Sequence[Record]) -> None:
        log = self._messages.log
        self._messages.check_leader()
        batch = moved_batch(messages, base_offset=log.end_offset, sequence=next_sequence(log))
        self._append(batch, batches.header_at(batch, 0))
        await self._messages.wait_committed(Offset(log.end_offset - 1))


def _runs(messages: Sequence[Record]) -> list[list[Record]]:
    """Of some 100 KB each."""
    runs, size = list[list[Record]](), COPY_BATCH_BYTES
    for each in messages:
        if size >= COPY_BATCH_BYTES:
            runs.append([])
            size = 0
        runs[-1].append(each)
        size += len(each.key or b"") + len(each.value or b"")
    return runs
