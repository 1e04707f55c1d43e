"""Runs a state machine on its own internal log: append, apply, answer when committed.

    submit(decide) ── decide(machine) ──> Decision(records, reply)
                         append records to the log, apply them          (one step, no await)
                         wait until they are committed ──> reply
    write(decide) ────── the same, and whoever wants it `durable` says so later
    defer(decide) ────── apply the records, write them with the next ones that are decided
    read(look) ───────── look(machine), wait until all that it saw is committed ──> what it saw

The machine runs ahead of its log.  A reply, a refusal among them, shows what is committed, so it
waits for everything that was in the log when it was made: also when it wrote nothing itself, for
it may repeat or contradict what a power cut can still take back.  Mostly there is nothing to wait
for, and then it costs nothing.  Deferred records are not waited for: they say that something has
been done which a restart finds undone and does again.

    log     ───────────────────────┬─ ─ ─ ─ ─ ┐─ ─ ─ ─ ─ ─
                          committed │ appended │ deferred
    machine ────────────────────────┴──────────┴──────────▶  decisions; `ahead`
    read    ────────────────────────▶ waits ──▶
    image   ────────────────────────▶                        looks that must not wait

After a restart the newest snapshot is applied and the log replayed behind it.  A snapshot is the
machine's state as records, so both go through the same `apply`.  It is encoded and written in
slices, and between them deadlines fire and others decide; the next one is due when the log has
grown by a good part of the state, so their cost does not grow with it.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import structlog

from goqueue.broker.host_upkeep import NEVER, HostUpkeep
from goqueue.broker.image import Image
from goqueue.broker.journal import Journal, ResignedJournal, WarmStart
from goqueue.model.errors import DiskFull, GoQueueError, NotEnoughReplicas
from goqueue.model.ids import Epoch, Offset, Timestamp
from goqueue.model.machine import Decision, Machine
from goqueue.runtime import Clock

MachineT = TypeVar("MachineT", bound=Machine)  # type: ignore[type-arg] # the record type is free here
RecordT = TypeVar("RecordT")
SeenT = TypeVar("SeenT")
ReplyT = TypeVar("ReplyT")

# A snapshot is due after so many records that are so large in relation to the last snapshot.
SNAPSHOT_RECORDS: Final = 10_000
SNAPSHOT_GROWTH: Final = 0.5
# So much of a snapshot is encoded without a pause, and one record more.
SLICE_NANOSECONDS: Final = 1_000_000
SLICE_RECORDS: Final = 250
SLICE_BYTES: Final = 64 * 1024
REPLAY_RECORDS: Final = 250  # applied before others have their turn
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
        self._machine = machine
        self._image: Image[MachineT] | None = None
        self._journal = journal
        self._clock = clock
        self._on_deadline_reply = on_deadline_reply
        self._upkeep = upkeep or HostUpkeep(clock)
        # Sees records that are in the log, or deferred, before they are applied; not in replay.
        self.on_records: Callable[[MachineT, Sequence[Any]], None] | None = None
        self._deferred: list[bytes] = []  # applied, and not in the log yet
        self.awaited = NEVER  # the deadline that the upkeep watches
        self._retry_at = Timestamp(0)  # before that a failed deadline is not retried
        self.records_since_snapshot = 0
        self._bytes_since_snapshot = 0
        self._snapshot_bytes = 0  # of the newest
        self._snapshot_lock = asyncio.Lock()  # a machine reads out one at a time

    # --- starting ---------------------------------------------------------------------------------

    async def open(self, warm: WarmStart | None = None) -> None:
        """Bring the machine to where it was; it is new, or as far as `warm` says."""
        offset, has_file = Offset(0), False
        if warm is not None:
            offset, self._snapshot_bytes = warm.offset, warm.snapshot_bytes
            self._check_growth(warm.records, warm.bytes)
        elif (snapshot := await self._journal.newest_snapshot()) is not None:
            offset, has_file = snapshot.offset, snapshot.is_file
            self._snapshot_bytes = snapshot.bytes
            async for records in self._journal.read_snapshot(snapshot):
                await replay(self._machine, records)
        async for piece in self._journal.read(offset):
            await replay(self._machine, piece.values)
            self._check_growth(len(piece.values), piece.bytes)
        self._upkeep.add(self)
        if has_file:
            self._upkeep.want_snapshot(self)  # that the log has, for those who copy it
        self.notice_deadline()

    def resume(self, machine: MachineT, journal: Journal) -> None:
        """Go on after the journal failed, with a machine that is as far as the new journal."""
        self._machine = machine
        self._journal = journal
        self._deferred.clear()
        if self._image is not None:
            self._image.await_commits_of(journal)
        # Nobody takes a snapshot of a log that another node writes.
        (self._upkeep.add if journal.failed is None else self._upkeep.remove)(self)
        self.awaited = NEVER
        self.notice_deadline()

    def resign(self, refusal: Callable[[], GoQueueError], lost: Callable[[], GoQueueError]) -> None:
        """Another node runs the machine from now on; whoever still asks this host hears so.

        Whoever wants to decide hears the `refusal`.  Whoever asks what became of a decision hears
        that it is `lost`; those who wait for a commit already hear it from the log.
        """
        self._upkeep.remove(self)
        self._deferred.clear()
        self._journal = ResignedJournal(self._journal.name, refusal, lost)

    # --- asking -----------------------------------------------------------------------------------

    async def read(self, look: Callable[[MachineT], SeenT]) -> SeenT:
        """What `look` sees, or its refusal, once all that it may have seen is committed.

        It sees one moment, and gives values or copies: what lives on in the machine would show
        what was decided while this waited.
        """
        try:
            seen = look(self._machine)
        except GoQueueError:
            await self.wait_settled()
            raise
        committed = self.pending_commit()
        if committed is not None:
            await committed
        return seen

    @property
    def ahead(self) -> MachineT:
        """The machine as it is, ahead of its log: for what never reaches a reply.

        Wake-ups, metrics, and the choice of what to `submit`, which decides again.
        """
        return self._machine

    def keep_image(self, copy: MachineT, apply: Callable[[MachineT, Any], None]) -> Image[MachineT]:
        """An image that follows the log from now on; `copy` is one of the machine as it is."""
        assert not self._deferred, "they would be missing"
        self._image = Image(copy, self._journal, apply)
        return self._image

    @property
    def epoch(self) -> Epoch:
        """Under which the machine decides here; what it tells others carries it."""
        return self._journal.epoch

    @property
    def failed(self) -> str | None:
        """Why nothing more can be decided; the machine may be ahead of its log by then."""
        return self._journal.failed

    async def wait_settled(self) -> None:
        """Return when everything decided so far is durable, but for what was deferred."""
        committed = self.pending_commit()
        if committed is not None:
            await committed

    def pending_commit(self) -> Committed:
        """Done when all that is in the log by now is committed; None when it is."""
        if not self._journal.has_uncommitted:
            return None
        committed = self._journal.wait_committed(Offset(self._journal.end_offset - 1))
        if committed.done():
            committed.exception()  # of a log that failed; there may be no waiter
        return committed

    def demand_sync(self) -> None:
        """Somebody is going to want what was written `durable`."""
        self._journal.demand_sync()

    async def durable(self, written: Written) -> None:
        """Return when this is durable; None: everything so far, for it may repeat what is not."""
        if written is None:
            await self.wait_settled()
        elif not self._journal.is_committed(written):
            await self._journal.wait_committed(written)

    # --- deciding ---------------------------------------------------------------------------------

    async def submit(self, decide: Callable[[MachineT], Decision[RecordT, ReplyT]]) -> ReplyT:
        """Let the machine decide, make it so, and answer or refuse once that is durable."""
        try:
            reply, committed = self.submit_now(decide)
        except GoQueueError:
            await self.wait_settled()
            raise
        if committed is not None:
            await committed
        return reply

    def submit_now(
        self, decide: Callable[[MachineT], Decision[RecordT, ReplyT]]
    ) -> tuple[ReplyT, Committed]:
        """As `submit`, for callers who wait for the commit themselves.

        A refusal is raised at once: who passes it on to a client waits until all is `settled`.
        """
        reply, last = self.write(decide)
        return reply, self.pending_commit() if last is None else self._journal.wait_committed(last)

    def write(
        self, decide: Callable[[MachineT], Decision[RecordT, ReplyT]]
    ) -> tuple[ReplyT, Written]:
        """As `submit_now`, for callers who have more to do before anybody is told.

        No sync is asked for: that is done by `durable`, by others who write, or by a timer.
        """
        try:
            decision = decide(self._machine)
        finally:
            self.notice_deadline()  # a refusal may have set one too
        if not decision.records:
            return decision.reply, None
        last = self._append([self._machine.encode(record) for record in decision.records])
        if self.on_records is not None:
            self.on_records(self._machine, decision.records)
        for record in decision.records:
            self._machine.apply(record)
        self.notice_deadline()
        return decision.reply, last

    def write_through(self, decide: Callable[[MachineT], Decision[RecordT, ReplyT]]) -> ReplyT:
        """As `write`, and it is synced although nobody will ask whether it is `durable`."""
        reply, _ = self.write(decide)
        self.demand_sync()
        return reply

    def defer(self, decide: Callable[[MachineT], Decision[RecordT, ReplyT]]) -> ReplyT:
        """As `submit_now`, for what may be lost in a crash: nobody pays for its way to disk."""
        decision = decide(self._machine)
        for record in decision.records:
            value = self._machine.encode(record)
            self._deferred.append(value)
            self._machine.apply(record)
            if self._image is not None:
                self._image.expect(None, [value])
        if len(self._deferred) >= DEFERRED_MAX:
            self.write_deferred()
        self.notice_deadline()
        return decision.reply

    def write_or_defer(self, decide: Callable[[MachineT], Decision[RecordT, ReplyT]]) -> ReplyT:
        """As `write_through`; as `defer` on a full disk, or while too few replicas are in sync.

        For what a start must not wait for: the other replicas may wait for this node to start.
        """
        try:
            return self.write_through(decide)
        except (DiskFull, NotEnoughReplicas):
            return self.defer(decide)

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
        return self._journal.wait_committed(Offset(self._journal.end_offset - 1))

    def notice_deadline(self) -> None:
        """Have it watched unless an earlier one is: verbs are many."""
        deadline = self._machine.next_deadline()
        if deadline is not None and deadline < self.awaited:
            deadline = max(deadline, self._retry_at)
            if deadline < self.awaited:
                self._upkeep.watch(self, deadline)

    def _append(self, values: list[bytes]) -> Offset:
        written = [*self._deferred, *values] if self._deferred else values
        last = self._journal.append(written)
        self._deferred.clear()
        if self._image is not None:
            self._image.expect(last, values)
        self._check_growth(len(written), sum(map(len, written)))
        return last

    # --- running ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fire deadlines and take snapshots, until cancelled; not for who shares its upkeep."""
        await self._upkeep.run()

    def fire(self, now: Timestamp) -> None:
        """Do what is due by now, and watch the next deadline."""
        deadline = self._machine.next_deadline()
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
            with contextlib.closing(self._machine.snapshot()) as records:
                slices = self._slices(records)
                first = next(slices)  # what has begun can be closed
                slices = itertools.chain((first,), slices)
                stored = await self._journal.store_snapshot(offset, slices)
            self._snapshot_bytes = stored.bytes

    def _slices(self, records: Iterable[Any]) -> Iterator[list[bytes]]:
        """At least one, and each is soon there."""
        encode, instant, journal = self._machine.encode, self._clock.instant, self._journal
        some, size, ends_at = list[bytes](), 0, instant() + SLICE_NANOSECONDS
        for record in records:
            data = encode(record)
            some.append(data)
            size += len(data)
            if size >= SLICE_BYTES or len(some) >= SLICE_RECORDS or instant() >= ends_at:
                yield some
                if journal is not self._journal:  # the rest of the state may be gone
                    raise GoQueueError("the machine was dropped meanwhile")
                some, size, ends_at = [], 0, instant() + SLICE_NANOSECONDS
        yield some

    def _check_growth(self, records: int, size: int) -> None:
        """The log has; see whether a snapshot is due."""
        self.records_since_snapshot += records
        self._bytes_since_snapshot += size
        if (
            self.records_since_snapshot >= SNAPSHOT_RECORDS
            and self._bytes_since_snapshot >= self._snapshot_bytes * SNAPSHOT_GROWTH
        ):
            self._upkeep.want_snapshot(self)


async def replay(machine: Machine[Any], values: Iterable[bytes]) -> None:
    """In slices: a node that takes over a long log still answers and sends heartbeats."""
    for number, value in enumerate(values, start=1):
        machine.apply(machine.decode(value))
        if number % REPLAY_RECORDS == 0:
            await asyncio.sleep(0)
