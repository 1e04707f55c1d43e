"""Runs a state machine on its own internal log: append, apply, answer when committed.

    submit(decide) ── decide(machine) ──> Decision(records, reply)
                         append records to the log, apply them          (one step, no await)
                         wait until they are committed ──> reply
    write(decide) ────── the same, and whoever wants it `durable` says so later
    defer(decide) ────── apply the records, write them with the next ones that are decided

After a restart the newest snapshot is applied and the log replayed behind it.  A snapshot is the
machine's state as records, so both go through the same `apply`.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog

from goqueue.broker.storage.partition import Partition
from goqueue.log import framed
from goqueue.model import batch as batches
from goqueue.model.errors import CorruptData, DiskFull, GoQueueError
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.machine import Decision, Machine
from goqueue.model.record import Record
from goqueue.runtime import Clock, Disk

MachineT = TypeVar("MachineT", bound=Machine)  # type: ignore[type-arg] # the record type is free here
RecordT = TypeVar("RecordT")
ReplyT = TypeVar("ReplyT")

SNAPSHOT_KIND: Final = b"S"
SNAPSHOT_VERSION: Final = 1
SNAPSHOT_RECORDS: Final = 10_000  # a snapshot after so many records …
SNAPSHOT_SECONDS: Final = 300.0  # … or so much time, when there is anything new
SNAPSHOTS_KEPT: Final = 3
DEFERRED_MAX: Final = 1_000  # records
RETRY_NANOSECONDS: Final = 1_000_000_000
BATCH_RECORDS_MAX: Final = 5_000
READ_BYTES: Final = 1024 * 1024
NEVER: Final = Timestamp(2**63 - 1)


Committed = asyncio.Future[None] | None  # None when there is nothing to wait for
Written = Offset | None  # of the last record; None when there was nothing to write

_log = structlog.get_logger("goqueue.host")


class Snapshot(msgspec.Struct, frozen=True):
    offset: Offset  # the first one that is not in it
    records: list[bytes]


class MachineHost(Generic[MachineT]):
    """The only one who changes its machine."""

    def __init__(
        self,
        machine: MachineT,
        partition: Partition,
        disk: Disk,
        clock: Clock,
        directory: str,
        on_deadline_reply: Callable[[Any, Committed], None] | None = None,
    ) -> None:
        self.machine = machine
        self._partition = partition
        self._disk = disk
        self._clock = clock
        self._directory = directory  # of the snapshots
        self._on_deadline_reply = on_deadline_reply
        self._records_since_snapshot = 0
        self._deferred: list[bytes] = []  # applied, and not in the log yet
        self._deadline_moved = asyncio.Event()
        self._awaited = Timestamp(0)  # the deadline that `run` sleeps towards
        self._retry_at = 0  # monotonic nanoseconds; before that a failed deadline is not retried

    # --- starting ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """Bring the machine to where it was."""
        snapshot = await self._disk.in_background(self._newest_snapshot)
        offset, end = self._partition.log.start_offset, self._partition.log.end_offset
        first = snapshot.offset if snapshot is not None else 0
        if not offset <= first <= end:
            raise CorruptData(
                f"{self._directory}: the newest readable snapshot goes up to offset {first}, and"
                f" {self._partition.topic} has {offset} to {end}: restore both from a copy"
            )
        if snapshot is not None:
            offset = snapshot.offset
            for data in snapshot.records:
                self.machine.apply(self.machine.decode(data))
        while offset < end:
            chunk = await self._partition.read(offset, READ_BYTES, end)
            for record in batches.decode_all(chunk.data):
                if record.offset >= offset and record.value is not None:
                    self.machine.apply(self.machine.decode(record.value))
                    self._records_since_snapshot += 1
            offset = chunk.next_offset

    # --- asking -----------------------------------------------------------------------------------

    @property
    def failed(self) -> str | None:
        """Why nothing more can be decided; the machine may be ahead of its log by then."""
        return self._partition.log.failed

    async def settled(self) -> None:
        """Return when everything decided so far is durable."""
        await self._partition.flush_visible()

    def demand_sync(self) -> None:
        """Somebody is going to want what was written `durable`."""
        self._partition.demand_flush()

    async def durable(self, written: Written) -> None:
        """Return when this is durable; None: everything so far, for it may repeat what is not."""
        if written is None:
            await self.settled()
        elif written >= self._partition.log.high_watermark:
            await self._partition.committed(written)

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
        return reply, None if last is None else self._partition.committed(last)

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
        return self._partition.committed(Offset(self._partition.log.end_offset - 1))

    def notice_deadline(self) -> None:
        """Wake `run` when it sleeps for too long now, and only then: verbs are many."""
        deadline = self.machine.next_deadline()
        is_sooner = deadline is not None and deadline < self._awaited
        if is_sooner or self._records_since_snapshot >= SNAPSHOT_RECORDS:
            self._deadline_moved.set()

    def _append(self, values: list[bytes]) -> Offset:
        now = self._clock.now()
        data, headers = bytearray(), []
        for some in _slices([*self._deferred, *values]):
            position = len(data)
            data += batches.encode([Record(0, now, None, value) for value in some])
            headers.append(batches.header_at(data, position))
        last = self._partition.append(data, headers, now).last_offset
        self._records_since_snapshot += len(self._deferred) + len(values)
        self._deferred.clear()
        return last

    # --- running ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fire deadlines and take snapshots, until cancelled."""
        snapshot_at = self._clock.instant() + int(SNAPSHOT_SECONDS * 1e9)
        while True:
            await self._wait_for_deadline(snapshot_at)
            now = self._clock.steady()
            deadline = self.machine.next_deadline()
            if deadline is not None and deadline <= now:
                self._fire(now)
            time_is_up = self._clock.instant() >= snapshot_at and self._records_since_snapshot > 0
            if time_is_up or self._records_since_snapshot >= SNAPSHOT_RECORDS:
                await self._try_snapshot()
            if self._clock.instant() >= snapshot_at:
                snapshot_at = self._clock.instant() + int(SNAPSHOT_SECONDS * 1e9)

    def _fire(self, now: Timestamp) -> None:
        try:
            reply, committed = self.submit_now(lambda machine: machine.on_deadline(now))
        except GoQueueError as error:
            # A full disk, say: what is due stays due, and is tried again a little later.
            _log.error("deadline not met", machine=self._partition.topic, problem=str(error))
            self._retry_at = self._clock.instant() + RETRY_NANOSECONDS
            return
        if self._on_deadline_reply is not None:
            self._on_deadline_reply(reply, committed)

    async def _wait_for_deadline(self, snapshot_at: int) -> None:
        seconds = max(0.0, (snapshot_at - self._clock.instant()) / 1e9)
        deadline = self.machine.next_deadline()
        self._awaited = NEVER if deadline is None else deadline
        if deadline is not None:
            retry_in = (self._retry_at - self._clock.instant()) / 1e9
            seconds = min(seconds, max(0.0, (deadline - self._clock.steady()) / 1e3, retry_in))
        self._deadline_moved.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._deadline_moved.wait()
        except TimeoutError:
            return

    # --- snapshots --------------------------------------------------------------------------------

    async def _try_snapshot(self) -> None:
        try:
            await self.take_snapshot()
        except GoQueueError as error:
            # The log has everything; it is only longer than it need be.
            _log.error("snapshot failed", machine=self._partition.topic, problem=str(error))

    async def take_snapshot(self) -> None:
        """Write the state down and let the log forget what the oldest kept snapshot holds."""
        self.write_deferred()
        records = [self.machine.encode(record) for record in self.machine.snapshot()]
        snapshot = Snapshot(self._partition.log.end_offset, records)
        self._records_since_snapshot = 0
        await self._partition.flush()
        oldest = await self._disk.in_background(lambda: self._store(snapshot))
        if oldest > self._partition.log.start_offset:
            await self._partition.remove_before(oldest)

    def _store(self, snapshot: Snapshot) -> Offset:
        """Blocking.  Gives the oldest snapshot's offset that is still kept."""
        self._disk.make_directory(self._directory)
        path = self._path(snapshot.offset)
        framed.store(self._disk, path, SNAPSHOT_KIND, SNAPSHOT_VERSION, snapshot)
        offsets = self._stored_offsets()
        for offset in offsets[SNAPSHOTS_KEPT:]:
            self._disk.remove(self._path(offset))
        kept = offsets[:SNAPSHOTS_KEPT]
        return kept[-1] if len(kept) == SNAPSHOTS_KEPT else Offset(0)

    def _newest_snapshot(self) -> Snapshot | None:
        """Blocking.  A damaged one is passed over: an older one and the log are still there."""
        for offset in self._stored_offsets():
            try:
                return framed.load(
                    self._disk, self._path(offset), SNAPSHOT_KIND, SNAPSHOT_VERSION, Snapshot
                )
            except CorruptData:
                continue
        return None

    def _stored_offsets(self) -> list[Offset]:
        """Newest first."""
        names = self._disk.list_directory(self._directory)
        found = [name.removesuffix(".snapshot") for name in names if name.endswith(".snapshot")]
        return sorted((Offset(int(name)) for name in found if name.isdigit()), reverse=True)

    def _path(self, offset: Offset) -> str:
        return f"{self._directory}/{offset:020d}.snapshot"


def _slices(values: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(values), BATCH_RECORDS_MAX):
        yield values[start : start + BATCH_RECORDS_MAX]
