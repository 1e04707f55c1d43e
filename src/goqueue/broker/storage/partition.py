"""A partition at work: its role, its log, group commit, and those who wait for it.

Visible means durable: with `flush=commit` readers see a batch once it is synced, so a consumer
can never commit an offset that a power cut takes back.  Nobody pays for a sync that nobody waits
for: it starts at once when a producer with acks=all or a reader at the end of the log asks, and
otherwise within `flush.ms` by a timer.  One sync serves all who wait when it starts.

Only its leader writes to a partition, and what is committed is a rule of its in-sync replicas
(`goqueue.cluster.replication`).  A node without peers leads all its partitions, and its own syncs
decide.  The role is replaced whole, and ends with all that waits for it.

A wait for a commit may have a time-out.  There is no timer for it: its owner looks several times a
second at the partitions that said `on_wait`, and calls `end_overdue`.  Whoever has a time-out is
also told when the role ends and the next leader commits the record: this node follows it, and its
watermark says so, or leads once more itself.  A record that is cut off, since the next leader lacks
it, is as one that was never written.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Container, Iterable
from typing import Final, Protocol, TypeVar

from goqueue.broker.storage.commit_waits import CommitWaits
from goqueue.broker.storage.file_hold import FileHold
from goqueue.broker.storage.log_rewrites import HANDLE_RETRY_SECONDS, LogRewrites
from goqueue.broker.storage.refused_producers import Refusal, RefusedProducers
from goqueue.broker.traces.recorder import PartitionTracer
from goqueue.cluster.replication import (
    Assessment,
    Follower,
    FollowerFetch,
    Leader,
    LostData,
    Offline,
    ReplicaProgress,
    Replicas,
    Role,
    choose_read_replica,
)
from goqueue.log import (
    Appended,
    CheckpointPoint,
    Chunk,
    Log,
    SyncPoint,
    TimedOffset,
)
from goqueue.log.compaction import Result
from goqueue.model.batch import BatchHeader, Buffer, RecordReader, record_block
from goqueue.model.errors import (
    BatchTooLarge,
    DiskFull,
    GoQueueError,
    LeadershipLost,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    OffsetNotAvailable,
    OutOfHandles,
    StorageFailed,
    TimedOut,
    TopicNotFound,
)
from goqueue.model.ids import Epoch, Instant, NodeId, Offset, PartitionId, Timestamp, TopicId
from goqueue.model.markers import Marker
from goqueue.model.settings import TopicSettings
from goqueue.runtime import Disk

KEPT_SECONDS: Final = 1.0  # what a former leader was asked for may be committed by the next one
DECOMPRESSED_INLINE_BYTES: Final = 1024 * 1024  # more than this is decompressed on a thread

T = TypeVar("T")


class Waiter(Protocol):
    """Somebody who wants to know when one of several partitions has something new."""

    def wake(self) -> None: ...


class Partition:
    """Only the event loop's thread touches it; blocking work goes to the disk's threads."""

    def __init__(
        self,
        topic: str,
        topic_id: TopicId | None,
        index: PartitionId,
        log: Log,
        role: Role,
        disk: Disk,
        on_dirty: Callable[["Partition"], None],
        on_flush: Callable[["Partition", float, GoQueueError | None], None],
        on_wait: Callable[["Partition"], None],
        files: FileHold | None = None,
        kind: str = "",
    ) -> None:
        self.kind = kind  # of a log beside the partition's data; empty: the data itself
        self.delays: Partition | None = None  # of its data: the delay log beside it, if it is open
        self.tracer: PartitionTracer | None = None  # of its messages, if that is wanted
        self.topic = topic
        self.topic_id = topic_id  # None for the broker's own
        self.index = index
        self.log = log
        self.role = role
        self.leader_epoch = role.epoch
        self._replicas = self._track_replicas(role)  # None for a node that does not lead
        self.has_enough_replicas = True  # in sync, for a commit; see `check_enough_replicas`
        self._has_followers = False
        self._count_replicas()
        self._disk = disk
        self._on_dirty = on_dirty
        self._on_flush = on_flush
        self._on_wait = on_wait
        self._files = files or FileHold()
        self._rewrites = LogRewrites(disk, self._files, self)
        self._waiters: dict[Waiter, None] = {}  # in order: a seed must repeat what is done
        self._follower_waiters: dict[Waiter, None] = {}  # are also told what is not committed
        self._waits = CommitWaits()
        self._refused = RefusedProducers()
        self._is_watched = False  # the owner looks for waits that are overdue
        self.unclean_cuts = 0  # that may have taken committed records
        self.messages_in = 0
        self.bytes_in = 0
        self.messages_out = 0
        self.bytes_out = 0
        self.messages_copied = 0  # of those that came in, by the fetcher of a follower
        self.bytes_copied = 0
        self._work: asyncio.Future[None] | None = None  # what a disk thread does for this log
        self._flush_again = False
        self._retry: asyncio.TimerHandle | None = None  # of a sync that had no file handle
        self._upkeep_waits = 0  # checkpoints and the like that wait for their turn
        self._failure_told = False

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}{self.kind and f' ({self.kind})'}"

    # --- role -------------------------------------------------------------------------------------

    def take_role(self, role: Role) -> None:
        """From now on this is so; whoever waits for a commit of another epoch hears of it."""
        assert role.epoch >= self.leader_epoch, f"{self}: epoch {role.epoch} is over"
        if isinstance(role, Leader) and self._replicas and role.epoch == self.leader_epoch:
            self._replicas.take_role(role, _instant())  # other replicas, or another ISR
            self.role = role
        else:
            self.role = role
            self.leader_epoch = role.epoch
            self._replicas = self._track_replicas(role)
            if self.tracer is not None:
                self.tracer.note_role(role)
            self._end_waits()
            self.wake_readers()
        self._count_replicas()
        self._advance()

    def _end_waits(self) -> None:
        """At the end of a role; see the head of the module."""
        if self._waits:
            latest = asyncio.get_running_loop().time() + KEPT_SECONDS
            self._waits.keep_until(latest, self._refusal)

    async def note_epoch(self, epoch: Epoch) -> None:
        """Return when it is durable where the epoch starts, which this node is about to lead.

        Then it can tell its followers where their logs and its own part, whatever it has written
        since, and whatever becomes of that.
        """
        await self.ready_for_work()
        if self.leader_epoch != epoch:
            raise self.not_leader()
        entries, point = self.log.begin_epoch(epoch), self.log.sync_point()

        def store() -> None:
            self.log.store_epochs(entries)
            self.log.run_sync(point)

        await self.run(store, point)

    @property
    def leads(self) -> bool:
        """Whether this node takes its writes."""
        return self._replicas is not None

    def _track_replicas(self, role: Role) -> Replicas | None:
        if not isinstance(role, Leader):
            return None
        return Replicas(
            role,
            min_insync_replicas=self.log.settings.min_insync_replicas,
            epoch_start=self.log.end_offset,
            now=_instant(),
        )

    def apply_settings(self, settings: TopicSettings) -> None:
        self.log.settings = settings
        if self.tracer is not None:
            self.tracer.apply_settings(settings)
        if self._replicas is not None:
            self._replicas.set_min_insync_replicas(settings.min_insync_replicas)
            self._count_replicas()
            self._advance()

    def _count_replicas(self) -> None:
        self.has_enough_replicas = self._replicas is None or self._replicas.has_enough
        self._has_followers = self._replicas is not None and bool(self._replicas.followers)

    def check_leader(self) -> None:
        """Raise `NotLeader` on a node that only copies, or does not serve."""
        if self._replicas is None:
            raise self.not_leader()

    def check_watermark(self) -> None:
        """Raise `OffsetNotAvailable` while a leader before this one may have shown a higher one."""
        watermark = self.log.high_watermark
        if self._replicas is not None and not self._replicas.knows_committed(watermark):
            raise OffsetNotAvailable(
                f"this node has begun to lead {self}, and does not know yet what is committed"
            )

    def check_enough_replicas(self) -> None:
        """Raise `NotEnoughReplicas` when a commit could not be waited for."""
        replicas = self._replicas
        if replicas is not None and not replicas.has_enough:
            raise NotEnoughReplicas(self._too_few(replicas))

    def ack(self, fetch: FollowerFetch) -> LostData | None:
        """A follower asks for more, so all before that is on its disk.  Raises `NotLeader`."""
        self.check_leader()
        assert self._replicas is not None
        lost = self._replicas.ack(fetch, leader_end=self.log.end_offset, now=_instant())
        self._advance()
        return lost

    def assess_replicas(self, now: Instant, ineligible: Container[NodeId]) -> Assessment:
        """For a leader: who is in sync on this log; see `Bundle.propose`."""
        assert self._replicas is not None, f"{self} is not led here"
        log = self.log
        return self._replicas.assess(
            high_watermark=log.high_watermark,
            leader_end=log.end_offset,
            now=now,
            ineligible=ineligible,
        )

    def note_left_out(self, slow: frozenset[NodeId], now: Instant) -> None:
        """See `Bundle.note_left_out`."""
        if self._replicas is not None:
            self._replicas.note_left_out(slow, now)

    def note_served(self, node: NodeId) -> None:
        """Records are on their way to a follower: from now on its ack is awaited."""
        if self._replicas is not None:
            self._replicas.note_served(node, _instant())

    def note_copied(self, node: NodeId, size: int) -> None:
        """Records are on their way to a follower that is not in sync."""
        if self._replicas is not None:
            self._replicas.note_copied(node, size, _instant())

    @property
    def followers(self) -> Collection[ReplicaProgress]:
        """How far those have come that follow this log; none where it is not led."""
        return () if self._replicas is None else self._replicas.followers.values()

    def choose_read_replica(self, offset: Offset, in_rack: Container[NodeId]) -> NodeId | None:
        """A follower that a consumer should read from instead, if this node leads."""
        if self._replicas is None or not self._has_followers:
            return None
        return choose_read_replica(self._replicas, offset=offset, in_rack=in_rack)

    def _too_few(self, replicas: Replicas) -> str:
        role = replicas.role
        return (
            f"{len(role.isr)} of the {len(role.replicas)} replicas of {self} are in sync, and"
            f" acks=all needs {self.log.settings.min_insync_replicas}"
            " (topic setting min.insync.replicas)"
        )

    def not_leader(self) -> NotLeader:
        return not_leader(str(self), self.role)

    # --- append and commit ------------------------------------------------------------------------

    def append(
        self, data: bytearray | memoryview, headers: list[BatchHeader], now: Timestamp
    ) -> Appended:
        """Write checked batches.  They survive this process, not yet a power cut.

        Whoever will wait for `committed` asks `check_enough_replicas` first.
        """
        if self._replicas is None:
            raise self.not_leader()
        if self._has_followers:
            self._replicas.note_append(self.log.end_offset, _instant())
        was_synced = not self.log.needs_sync
        if self._refused:
            self._refused.check(headers[0], asyncio.get_running_loop().time())
        try:
            appended = self.log.append(data, headers, epoch=self.leader_epoch, now=now)
        except StorageFailed:
            self.tell_if_failed()
            raise
        except DiskFull as error:
            self.note_refused(headers[0], error)
            raise
        if self._refused:
            self._refused.note_appended(headers[0])
        if appended.is_repeat:
            return appended
        self._note_written(was_synced)
        self.messages_in += appended.last_offset - appended.first_offset + 1
        self.bytes_in += len(data)
        if self.tracer is not None:
            self.tracer.note_appended(appended, data)
        return appended

    def note_refused(self, header: BatchHeader, refusal: Refusal) -> None:
        """A batch is not appended now, and would be a little later; see `RefusedProducers`."""
        self._refused.note(header, refusal, asyncio.get_running_loop().time())

    def append_marker(self, marker: Marker, now: Timestamp) -> Offset:
        """End a producer's transaction in this partition; `committed` tells when it is visible."""
        if self._replicas is None:
            raise self.not_leader()
        if self._has_followers:
            self._replicas.note_append(self.log.end_offset, _instant())
        was_synced = not self.log.needs_sync
        start = self.log.producers.open_transactions.get(marker.producer_id)
        try:
            offset = self.log.append_marker(marker, epoch=self.leader_epoch, now=now)
        except StorageFailed:
            self.tell_if_failed()
            raise
        if self.tracer is not None and start is not None:
            self.tracer.note_marker(marker, start, offset)
        self._note_written(was_synced)
        return offset

    def _note_written(self, was_synced: bool) -> None:
        log = self.log
        if log.settings.flush != "commit":
            self._advance()
        elif self._waiters:
            self.demand_flush()
        if log.end_offset - log.synced_offset >= log.settings.flush_messages:
            self.demand_flush()
        if self._follower_waiters:
            _wake(self._follower_waiters)
        if was_synced:
            self._on_dirty(self)

    def wait_committed(
        self, offset: Offset, timeout_seconds: float = math.inf
    ) -> asyncio.Future[None]:
        """Done when `offset` is durable and visible.

        Fails with `StorageFailed`; with `TimedOut` soon after the time is over; `LeadershipLost`
        when another node leads, and has not committed it soon: after these two it may still be
        committed.  With `NotLeader` when it was cut off: it never will be.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if offset < self.log.high_watermark:
            future.set_result(None)
        elif self.log.failed is not None or self.log.abandoned or self._replicas is None:
            future.set_exception(self._refusal())
        else:
            self._waits.add(offset, future, loop.time() + timeout_seconds)
            if not self._is_watched and timeout_seconds != math.inf:
                self._is_watched = True
                self._on_wait(self)
            self.demand_flush()
        return future

    def end_overdue(self, now: float) -> bool:
        """Fail the waits whose time is over; whether there are others that have a time-out."""
        self._is_watched = self._waits.end_overdue(now, self._overdue)
        return self._is_watched

    def _overdue(self, offset: Offset) -> GoQueueError:
        replicas = self._replicas
        if replicas is None:
            return self._refusal()
        if not replicas.has_enough:
            return NotEnoughReplicasAfterAppend(
                f"offset {offset} is written and may still be committed: {self._too_few(replicas)}"
            )
        return TimedOut(
            f"offset {offset} of {self} was not committed in time, since a disk is slow; it is"
            " written and may still be"
        )

    def demand_flush(self) -> None:
        """Somebody waits: sync now, or again right after the sync that is under way."""
        if not self.log.needs_sync or self.log.failed is not None or self.log.abandoned:
            return
        if self._work is not None or self._upkeep_waits or self._retry is not None:
            self._flush_again = True
            return
        point = self.log.sync_point()
        self._start(lambda: self.log.run_sync(point), point)

    async def flush(self) -> None:
        """Return when everything written so far is durable, whatever the topic's flush setting."""
        written = self.log.end_offset
        while self.log.synced_offset < written:
            self.demand_flush()
            if self._work is not None:
                await asyncio.wait([self._work])
            elif self._upkeep_waits:
                await asyncio.sleep(0)  # it begins now, and syncs too
            elif self._retry is not None:
                await asyncio.sleep(HANDLE_RETRY_SECONDS)
            else:
                raise self._refusal()

    async def flush_visible(self) -> None:
        """Return when everything written so far is visible to readers."""
        if self.log.high_watermark < self.log.end_offset:
            await self.flush()

    async def settle(self) -> None:
        """Return when readers see the end of every transaction that has one."""
        if self.log.producers.has_unsettled and self.log.failed is None:
            await self.flush_visible()

    def _start(self, work: Callable[[], None], point: SyncPoint | CheckpointPoint) -> None:
        """Run blocking work on the log; one at a time, or a sync could be believed too early."""
        assert self._work is None
        started = asyncio.get_running_loop().time()
        # Ledgers write little, and many of them at the same time.
        is_short = bool(self.kind) and isinstance(point, SyncPoint)
        run = self._disk.in_shared_turn if is_short else self._disk.in_background
        self._work = run(work)
        self._work.add_done_callback(lambda done: self._finish(done, point, started))

    def _finish(
        self, done: asyncio.Future[None], point: SyncPoint | CheckpointPoint, started: float
    ) -> None:
        self._work = None
        error = None if done.cancelled() else done.exception()
        took = done.get_loop().time() - started
        if isinstance(error, OutOfHandles):
            self.log.put_back(point)  # nothing failed: it is tried again
            self._retry = done.get_loop().call_later(HANDLE_RETRY_SECONDS, self._flush_retried)
        elif isinstance(error, DiskFull):
            self.log.put_back(point)  # no room for a checkpoint or an epoch; syncs need none
        elif done.cancelled() or error is not None:
            self.log.fail(str(error) if error else "the disk was closed")
        else:
            sync = point.sync if isinstance(point, CheckpointPoint) else point
            self.log.note_synced(sync)
            self._on_flush(self, took, None)
            if self._has_followers and self._replicas is not None:
                self._replicas.note_own_sync(int(took * 1e9), _instant())
                if self.tracer is not None:
                    self.tracer.note_synced(self.log.synced_offset)
            self._advance()
        self.tell_if_failed()
        if self._flush_again or self._waits:
            self._flush_again = False
            self.demand_flush()  # unless upkeep waits: it would never get between two syncs

    def _flush_retried(self) -> None:
        self._retry = None
        if self._flush_again or self._waits:
            self._flush_again = False
            self.demand_flush()

    def tell_if_failed(self) -> None:
        """Once the log is read-only, nobody need wait: nothing more becomes visible.

        A sync that still runs may yet succeed for what was written before.
        """
        if self.log.failed is None or self._work is not None:
            return
        if not self._failure_told:
            self._failure_told = True
            self._on_flush(self, 0.0, StorageFailed(self.log.failed))
        self._waits.refuse(self._refusal)

    def _refusal(self) -> GoQueueError:
        if self.log.abandoned:
            return TopicNotFound(f"topic {self.topic!r} was deleted")
        if self.log.failed is not None:
            return StorageFailed(f"{self} is read-only: {self.log.failed}")
        not_leader = self.not_leader()
        return LeadershipLost(str(not_leader), not_leader.leader)

    def _advance(self) -> None:
        """Raise the high watermark as far as the replicas allow, and tell everyone."""
        log, replicas = self.log, self._replicas
        if replicas is None:
            return
        counts_synced = log.settings.flush == "commit"
        own = log.synced_offset if counts_synced else log.end_offset
        before = log.high_watermark
        offset = replicas.high_watermark(own, before, counts_synced)
        if offset == before:
            return
        log.high_watermark = offset
        log.producers.settle(offset)
        if self.tracer is not None:
            self.tracer.note_committed(offset, replicas.role)
        if self._waits:
            self._waits.release(offset)
        if self._waiters or self._follower_waiters:
            self.wake_readers()

    def wake_readers(self) -> None:
        """Something is new, or may be: let them look."""
        _wake(self._waiters)
        _wake(self._follower_waiters)

    # --- following --------------------------------------------------------------------------------

    def append_as_follower(self, data: Buffer, now: Timestamp) -> None:
        """Write what the leader sent, as it is.  Raises what `Log.append_as_follower` does."""
        assert isinstance(self.role, Follower), f"{self} is not a follower's"
        was_synced, before = not self.log.needs_sync, self.log.end_offset
        try:
            self.log.append_as_follower(data, leader_epoch=self.leader_epoch, now=now)
        except StorageFailed:
            self.tell_if_failed()
            raise
        count = self.log.end_offset - before
        self.messages_in += count
        self.bytes_in += len(data)
        self.messages_copied += count
        self.bytes_copied += len(data)
        if was_synced:
            self._on_dirty(self)

    def follow_watermark(self, leader_watermark: Offset) -> None:
        """What the leader says is committed is so here, as far as this node has it."""
        assert isinstance(self.role, Follower), f"{self} is not a follower's"
        log = self.log
        own = log.synced_offset if log.settings.flush == "commit" else log.end_offset
        offset = min(leader_watermark, own)
        if offset > log.high_watermark:
            log.high_watermark = offset
            log.producers.settle(offset)
            self._waits.release(offset)
            self.wake_readers()

    async def truncate_to(self, offset: Offset, *, unclean: bool = False) -> None:
        """Give up the batch that holds `offset` and all that follow, durably.

        Raises `OffsetOutOfRange` when they are committed and nobody says that the election was
        `unclean`, `NotLeader` when the role is another by then, `CorruptData` or `DiskFull`: then
        nothing has changed.
        """
        assert self._replicas is None, f"{self}: what a leader has is only added to"
        self.unclean_cuts += unclean
        await self._rewrites.truncate_to(offset, unclean=unclean)
        self._waits.refuse(self.not_leader, self.log.end_offset)  # no leader has them

    async def reset_to(self, start: Offset, *, unclean: bool = False) -> None:
        """Drop everything and begin at `start`, durably; raises what `truncate_to` does."""
        assert self._replicas is None, f"{self}: what a leader has is only added to"
        self._waits.refuse(self._refusal)
        self.unclean_cuts += unclean
        await self._rewrites.reset_to(start, unclean=unclean)

    # --- reading ----------------------------------------------------------------------------------

    def read_limit(self, *, committed_only: bool) -> Offset:
        return self.log.stable_offset if committed_only else self.log.high_watermark

    def read_cached(self, offset: Offset, bytes_max: int, limit: Offset) -> Chunk | None:
        return self.log.read_cached(offset, bytes_max, limit)

    async def read(self, offset: Offset, bytes_max: int, limit: Offset) -> Chunk:
        """Batches from `offset`; leaves the loop only when the bytes are not in memory."""
        chunk = self.log.read_cached(offset, bytes_max, limit)
        if chunk is not None:
            return chunk
        return await self._disk.in_background(lambda: self.log.read(offset, bytes_max, limit))

    async def record_reader(self, data: Buffer, header: BatchHeader) -> RecordReader:
        """Reads a batch's records; leaves the loop to decompress what unfolds to a lot.

        Raises `CorruptBatch`, `BatchTooLarge` or `UnsupportedBatch`.
        """
        try:
            block = record_block(data, header, DECOMPRESSED_INLINE_BYTES)
        except BatchTooLarge:
            block = await self._disk.in_background(lambda: record_block(data, header))
        return RecordReader(header, block)

    async def offset_for_time(self, timestamp: Timestamp, limit: Offset) -> TimedOffset | None:
        return await self._disk.in_background(lambda: self.log.offset_for_time(timestamp, limit))

    async def newest_record(self, limit: Offset) -> TimedOffset | None:
        return await self._disk.in_background(lambda: self.log.newest_record(limit))

    def subscribe(self, waiter: Waiter) -> None:
        """Wake `waiter` whenever more becomes visible; asks for a sync if that is missing.

        Not on a follower: its syncs are its fetcher's, and what is visible its leader says.
        """
        self._waiters[waiter] = None
        if self._replicas is not None and self.log.high_watermark < self.log.end_offset:
            self.demand_flush()

    def subscribe_follower(self, waiter: Waiter) -> None:
        """Wake `waiter` whenever there is more to copy, or to say."""
        self._follower_waiters[waiter] = None

    def unsubscribe(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        self._follower_waiters.pop(waiter, None)

    # --- upkeep -----------------------------------------------------------------------------------

    async def checkpoint(self) -> None:
        """Bring recovery's starting point up to now."""
        await self.ready_for_work()
        point = self.log.checkpoint_point()
        await self.run(lambda: self.log.run_checkpoint(point), point)

    async def remove_before(self, offset: Offset) -> int:
        """Delete records below `offset`, durably; gives the number of segments removed."""
        async with self._files.removing():
            await self.ready_for_work()
            removal = self.log.remove_before(offset)
            _wake(self._follower_waiters)
            await self.run(lambda: self.log.run_removal(removal), removal.checkpoint)
            return len(removal.segments)

    async def replace_segments(self, compacted: Result) -> None:
        """Serve what compaction wrote instead of what it read.

        Raises `DiskFull` when there is no room to say so: nothing has changed then.  Once it is
        said, it is tried until it is done.
        """
        await self._rewrites.replace_segments(compacted)

    # --- turns on disk threads --------------------------------------------------------------------

    async def ready_for_work(self) -> None:
        self._upkeep_waits += 1
        try:
            await self._idle()
            if self.log.abandoned or self.log.failed is not None:
                raise self._refusal()
        except BaseException:
            self._upkeep_waits -= 1
            if self._flush_again and self._work is None:
                self._flush_again = False
                self.demand_flush()
            raise
        self._upkeep_waits -= 1

    async def _idle(self) -> None:
        while self._work is not None:
            await asyncio.wait([self._work])

    async def run(self, work: Callable[[], None], point: SyncPoint | CheckpointPoint) -> None:
        self._start(work, point)
        assert self._work is not None
        await asyncio.shield(self._work)

    async def take_turn(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do several things on disk threads with nobody else's in between."""
        await self.ready_for_work()
        self._work = turn = asyncio.get_running_loop().create_future()
        try:
            await work()
        finally:
            self._work = None
            turn.set_result(None)
            self.tell_if_failed()

    def abandon(self) -> None:
        """The topic is being deleted: write nothing more, and let nobody wait."""
        self.log.abandoned = True
        self._waits.refuse(self._refusal)
        self.wake_readers()

    async def wait_idle(self) -> None:
        """After `abandon`: return when no thread uses the files."""
        await self._idle()
        self.log.close()

    async def close(self) -> None:
        """Checkpoint, so that the next start has nothing to verify, and let go of the files."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        await self._idle()
        if self.log.failed is None and (self.log.needs_checkpoint or self.log.needs_sync):
            await self.checkpoint()
        self.log.close()


def _wake(waiters: Iterable[Waiter]) -> None:
    for waiter in waiters:
        waiter.wake()


def not_leader(what: str, role: Role) -> NotLeader:
    """Why a node with this role does not lead, or has just begun to."""
    match role:
        case Follower(leader=leader, epoch=epoch):
            return NotLeader(f"node {leader} leads {what}, in epoch {epoch}", (leader, epoch))
        case Offline(leader=int(leader), epoch=epoch):
            return NotLeader(f"node {leader} leads {what}, in epoch {epoch}", (leader, epoch))
        case Offline(reason=reason):
            return NotLeader(f"{what} is offline here: {reason}")
        case Leader(node=node, epoch=epoch):
            return NotLeader(f"{what} has a new leader, in epoch {epoch}", (node, epoch))


def _instant() -> Instant:
    return Instant(int(asyncio.get_running_loop().time() * 1e9))
