"""Runs a state machine on its own internal log: append, apply, answer when committed.

    submit(decide) ── decide(machine) ──> Decision(records, reply)
                         append records to the log, apply them          (one step, no await)
                         wait until they are committed ──> reply
    write(decide) ────── the same, and whoever wants it `durable` says so later
    defer(decide) ────── apply the records, write them with the next ones that are decided

After a restart the newest snapshot is applied and the log replayed behind it.  A snapshot is the
machine's state as records, so both go through the same `apply`.  It is encoded and written in
slices, and between them deadlines fire and others decide; the next one is due when the log has
grown by a good part of the state, so their cost does not grow with it.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

import structlog

from goqueue.broker.host_upkeep import NEVER, HostUpkeep
from goqueue.broker.journal import Journal
from goqueue.model.errors import DiskFull, GoQueueError
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.machine import Decision, Machine
from goqueue.runtime import Clock

MachineT = TypeVar("MachineT", bound=Machine)  # type: ignore[type-arg] # the record type is free here
RecordT = TypeVar("RecordT")
ReplyT = TypeVar("ReplyT")

# A snapshot is due after so many records that are so large in relation to the last snapshot.
SNAPSHOT_RECORDS: Final = 10_000
SNAPSHOT_GROWTH: Final = 0.5
# So much of a snapshot is encoded without a pause, and one record more.
SLICE_NANOSECONDS: Final = 1_000_000
SLICE_RECORDS: Final = 250
SLICE_BYTES: Final = 64 * 1024
DEFERRED_MAX: Final = 1_000  # records
RETRY_MS: Final = 1_000


Committed = asyncio.Future[None] | None  # None when there is nothing to wait for
Written = Offset | None  # of the last record; None when there was nothing to write

_log = structlog.get_logger("goqueue.host")


class MachineHost(Generic[MachineT]):
    """The only one who changes its machine."""

    def __init__(
        self,
        machine: MachineT,
        journal: Journal,
        clock: Clock,
        on_deadline_reply: Callable[[Any, Committed], None] | None = None,
        upkeep: HostUpkeep | None = None,
    ) -> None:
        self.machine = machine
        self._journal = journal
        self._clock = clock
        self._on_deadline_reply = on_deadline_reply
        self._upkeep = upkeep or HostUpkeep(clock)
        self._deferred: list[bytes] = []  # applied, and not in the log yet
        self.awaited = NEVER  # the deadline that the upkeep watches
        self._retry_at = Timestamp(0)  # before that a failed deadline is not retried
        self.records_since_snapshot = 0
        self._bytes_since_snapshot = 0
        self._snapshot_bytes = 0  # of the newest
        self._snapshot_lock = asyncio.Lock()  # a machine reads out one at a time

    # --- starting ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """Bring the machine to where it was."""
        offset = Offset(0)
        snapshot = await self._journal.newest_snapshot()
        if snapshot is not None:
            offset = snapshot.offset
            self._snapshot_bytes = snapshot.bytes
            async for records in self._journal.read_snapshot(snapshot):
                self._replay(records)
        async for piece in self._journal.read(offset):
            self._replay(piece.values)
            self._grown(len(piece.values), piece.bytes)
        self._upkeep.add(self)
        self.notice_deadline()

    def _replay(self, values: Iterable[bytes]) -> None:
        machine = self.machine
        for value in values:
            machine.apply(machine.decode(value))

    # --- asking -----------------------------------------------------------------------------------

    @property
    def failed(self) -> str | None:
        """Why nothing more can be decided; the machine may be ahead of its log by then."""
        return self._journal.failed

    async def settled(self) -> None:
        """Return when everything decided so far is durable."""
        await self._journal.settled()

    def demand_sync(self) -> None:
        """Somebody is going to want what was written `durable`."""
        self._journal.demand_sync()

    async def durable(self, written: Written) -> None:
        """Return when this is durable; None: everything so far, for it may repeat what is not."""
        if written is None:
            await self.settled()
        elif not self._journal.is_committed(written):
            await self._journal.committed(written)

    # --- deciding ---------------------------------------------------------------------------------

    async def submit(self, decide: Callable[[MachineT], Decision[RecordT, ReplyT]]) -> ReplyT:
        """Let the machine decide, make it so, and answer once that is durable."""
        reply, committed = self.submit_now(decide)
        if committed is not None:
            await committed
        return reply

    def submit_now(
        self, decide: Callable[[MachineT], Decision[RecordT, ReplyT]]
    ) -> tuple[ReplyT, Committed]:
        """As `submit`, for callers who wait for the commit themselves."""
        reply, last = self.write(decide)
        return reply, None if last is None else self._journal.committed(last)

    def write(
        self, decide: Callable[[MachineT], Decision[RecordT, ReplyT]]
    ) -> tuple[ReplyT, Written]:
        """As `submit_now`, for callers who have more to do before anybody is told.

        No sync is asked for: that is done by `durable`, by others who write, or by a timer.
        """
        try:
            decision = decide(self.machine)
        finally:
            self.notice_deadline()  # a refusal may have set one too
        if not decision.records:
            return decision.reply, None
        last = self._append([self.machine.encode(record) for record in decision.records])
        for record in decision.records:
            self.machine.apply(record)
        self.notice_deadline()
        return decision.reply, last

    def defer(self, decide: Callable[[MachineT], Decision[RecordT, ReplyT]]) -> ReplyT:
        """As `submit_now`, for what may be lost in a crash: nobody pays for its way to disk."""
        decision = decide(self.machine)
        for record in decision.records:
            self._deferred.append(self.machine.encode(record))
            self.machine.apply(record)
        if len(self._deferred) >= DEFERRED_MAX:
            self.write_deferred()
        self.notice_deadline()
        return decision.reply

    async def submit_or_defer(
        self, decide: Callable[[MachineT], Decision[RecordT, ReplyT]]
    ) -> ReplyT:
        """As `submit`; on a full disk as `defer`, for what a start must not fail over."""
        try:
            return await self.submit(decide)
        except DiskFull:
            return self.defer(decide)

    def write_deferred(self) -> None:
        if self._deferred:
            self._append([])

    def all_committed(self) -> asyncio.Future[None]:
        """Done when everything that was decided up to now is durable, deferred or not."""
        self.write_deferred()
        return self._journal.committed(Offset(self._journal.end_offset - 1))

    def notice_deadline(self) -> None:
        """Have it watched unless an earlier one is: verbs are many."""
        deadline = self.machine.next_deadline()
        if deadline is not None and deadline < self.awaited:
            deadline = max(deadline, self._retry_at)
            if deadline < self.awaited:
                self._upkeep.watch(self, deadline)

    def _append(self, values: list[bytes]) -> Offset:
        if self._deferred:
            values = [*self._deferred, *values]
        last = self._journal.append(values)
        self._deferred.clear()
        self._grown(len(values), sum(map(len, values)))
        return last

    # --- running ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fire deadlines and take snapshots, until cancelled; not for who shares its upkeep."""
        await self._upkeep.run()

    def fire(self, now: Timestamp) -> None:
        """Do what is due by now, and watch the next deadline."""
        deadline = self.machine.next_deadline()
        if deadline is not None and deadline <= now:
            self._fire(now)
        self.notice_deadline()

    def _fire(self, now: Timestamp) -> None:
        try:
            reply, committed = self.submit_now(lambda machine: machine.on_deadline(now))
        except GoQueueError as error:
            # A full disk, say: what is due stays due, and is tried again a little later.
            _log.error("deadline not met", machine=self._journal.name, problem=str(error))
            self._retry_at = Timestamp(now + RETRY_MS)
            return
        if self._on_deadline_reply is not None:
            self._on_deadline_reply(reply, committed)

    # --- snapshots --------------------------------------------------------------------------------

    async def try_snapshot(self) -> None:
        try:
            await self.take_snapshot()
        except GoQueueError as error:
            # The log has everything; it is only longer than it need be.
            _log.error("snapshot failed", machine=self._journal.name, problem=str(error))

    async def take_snapshot(self) -> None:
        """Write the state down and let the log forget what the oldest kept snapshot holds."""
        async with self._snapshot_lock:
            self.write_deferred()
            offset = self._journal.end_offset
            self.records_since_snapshot = self._bytes_since_snapshot = 0
            with contextlib.closing(self.machine.snapshot()) as records:
                slices = self._slices(records)
                first = next(slices)  # what has begun can be closed
                slices = itertools.chain((first,), slices)
                stored = await self._journal.store_snapshot(offset, slices)
            self._snapshot_bytes = stored.bytes

    def _slices(self, records: Iterable[Any]) -> Iterator[list[bytes]]:
        """At least one, and each is soon there."""
        encode, instant = self.machine.encode, self._clock.instant
        some, size, ends_at = list[bytes](), 0, instant() + SLICE_NANOSECONDS
        for record in records:
            data = encode(record)
            some.append(data)
            size += len(data)
            if size >= SLICE_BYTES or len(some) >= SLICE_RECORDS or instant() >= ends_at:
                yield some
                some, size, ends_at = [], 0, instant() + SLICE_NANOSECONDS
        yield some

    def _grown(self, records: int, size: int) -> None:
        """The log has; see whether a snapshot is due."""
        self.records_since_snapshot += records
        self._bytes_since_snapshot += size
        if (
            self.records_since_snapshot >= SNAPSHOT_RECORDS
            and self._bytes_since_snapshot >= self._snapshot_bytes * SNAPSHOT_GROWTH
        ):
            self._upkeep.want_snapshot(self)
