"""A partition's log: segments of batches, and the offsets that bound what may be read.

    start          stable       high watermark      synced        end
      |--------------|---------------|-----------------|------------|
      deleted before  transactions    visible to        survives     written,
                      decided below   readers below     power loss   in memory

Only the owner's thread (the event loop) changes a log.  Blocking work is described by a *point*
(`SyncPoint`, `CheckpointPoint`, `Removal`): taken on the loop, run in the background, reported
back on the loop.  Reads may run in either place.
"""

import bisect
import itertools
from collections.abc import Iterable, Sequence

import msgspec

from goqueue.log import checkpoint as checkpoints
from goqueue.log import epochs as epoch_file
from goqueue.log.aborted import AbortIndex
from goqueue.log.checkpoint import Checkpoint, ProducersAt
from goqueue.log.derived_state import note_batch, note_marker
from goqueue.log.epochs import EpochStart, LeaderEpochs
from goqueue.log.fetched_batches import check_fetched
from goqueue.log.producers import Producers, WrittenBatch
from goqueue.log.reading import ReadableLog
from goqueue.log.replica import Replica, ReplicaFile
from goqueue.log.segment import RELATIVE_OFFSET_MAX, Segment
from goqueue.log.swap import announce, swap
from goqueue.log.synced import MarkFile, SyncedMark
from goqueue.model import batch as batches
from goqueue.model import markers
from goqueue.model.batch import BatchHeader, Buffer
from goqueue.model.errors import (
    DiskFull,
    FencedLeaderEpoch,
    GoQueueError,
    InvalidRecord,
    OffsetOutOfRange,
    StorageFailed,
    TopicNotFound,
)
from goqueue.model.ids import NO_TIMESTAMP, Epoch, Offset, Timestamp
from goqueue.model.markers import Marker
from goqueue.model.settings import TopicSettings
from goqueue.runtime import Disk


class Appended(msgspec.Struct, frozen=True, gc=False):
    first_offset: Offset
    last_offset: Offset
    append_time: Timestamp  # -1 when the records keep the producer's time stamps
    is_repeat: bool = False  # written earlier; nothing was written now


class SyncPoint(msgspec.Struct, frozen=True):
    mark: SyncedMark
    segments: tuple[Segment, ...]
    new_files: bool

    @property
    def end_offset(self) -> Offset:
        return self.mark.next_offset


class CheckpointPoint(msgspec.Struct, frozen=True):
    sync: SyncPoint
    written: tuple[Segment, ...]  # whose indexes changed since the last checkpoint
    epochs: tuple[EpochStart, ...] | None
    checkpoint: Checkpoint


class Removal(msgspec.Struct, frozen=True):
    checkpoint: CheckpointPoint
    segments: tuple[Segment, ...]


class Replacement(msgspec.Struct, frozen=True):
    checkpoint: CheckpointPoint
    old: tuple[Segment, ...]
    new: tuple[Segment, ...]


class Log(ReadableLog):
    def __init__(
        self,
        disk: Disk,
        directory: str,
        settings: TopicSettings,
        segments: list[Segment],
        start_offset: Offset,
        epochs: LeaderEpochs,
        cleaned_offset: Offset,
        producers: Producers,
        aborted: AbortIndex,
        replica: ReplicaFile | None = None,
        high_watermark: Offset | None = None,
        earlier: Iterable[ProducersAt] = (),
    ) -> None:
        """Without `high_watermark` all of it is committed: the log has one replica."""
        super().__init__(directory, settings, segments, start_offset, epochs, cleaned_offset)
        self.producers = producers
        self.aborted = aborted
        self.synced_offset = self.end_offset  # invariant: everything below is on the device
        # Invariant: only rises, but for records that were lost or cut away; readers stop here.
        self.high_watermark = self.end_offset if high_watermark is None else high_watermark
        self.failed: str | None = None  # why the log is read-only
        self.rewriting = False  # compaction reads and replaces segments: none may be removed
        self.cut_waits = False  # for compaction to stop: what it reads may go
        self._disk = disk
        self.mark = MarkFile(disk, directory)
        self.replica = replica  # None: the log has one replica
        self._earlier = list(earlier)  # by offset; kept by one of several replicas only
        self._unsynced: list[Segment] = []
        self._written: dict[Segment, None] = {}  # in order: a seed must repeat what is done
        self._new_files = True
        self._epochs_changed = False
        self._checkpoint_due = False  # though nothing was written since

    def note_epochs_changed(self) -> None:
        """The file does not have what recovery found."""
        self._epochs_changed = True

    def settle(self, touched: list[Segment]) -> None:
        """Make what recovery verified or changed durable, and say so in a checkpoint.  Blocking."""
        self._unsynced = list(touched)
        self._written = dict.fromkeys(touched)
        self._epochs_changed = bool(self.epochs.entries)
        point = self.checkpoint_point()
        try:
            self.run_checkpoint(point)
        except DiskFull:
            self.put_back(point)  # all is synced; it can be read, and verified again if need be

    @property
    def stable_offset(self) -> Offset:
        """Below it every transaction is decided.  Without open ones it is the high watermark."""
        unstable = self.producers.first_unstable()
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    # --- append -----------------------------------------------------------------------------------

    def append(
        self,
        data: bytearray | memoryview,
        headers: list[BatchHeader],
        *,
        epoch: Epoch,
        now: Timestamp,
    ) -> Appended:
        """Stamp the batches with offsets and `epoch`, and write them behind the last ones.

        Raises `DiskFull` (nothing changed) or `StorageFailed` (the log is read-only from now on).
        """
        self._refuse_if_closed()
        repeat = self.find_repeat(headers)
        if repeat is not None:
            return repeat
        self._roll_if_due(len(data), headers, now)
        first = offset = self.end_offset
        stamps_time = self.settings.stamps_append_time
        for header in headers:
            batches.stamp(data, header, offset, epoch)
            if stamps_time:
                batches.stamp_append_time(data, header, now)
            offset = Offset(offset + header.last_offset_delta + 1)
        position = self._write(data)
        self._note_all(headers, first, position, now, stamps_time=stamps_time)
        self._epochs_changed |= self.epochs.assign(epoch, first)
        appended = Appended(first, Offset(offset - 1), now if stamps_time else Timestamp(-1))
        if headers[0].has_producer:
            self.producers.note_batch(
                headers[0], first, appended.last_offset, appended.append_time, now
            )
        return appended

    def find_repeat(self, headers: list[BatchHeader]) -> Appended | None:
        """Where `append` would say that these batches were written before; raises as it does."""
        repeat = self._checked_producer(headers)
        if repeat is None:
            return None
        return Appended(repeat.first_offset, repeat.last_offset, repeat.append_time, True)

    def _refuse_if_closed(self) -> None:
        if self.abandoned:
            raise TopicNotFound(f"{self.directory} was deleted")
        if self.failed is not None:
            raise StorageFailed(f"{self.directory} is read-only: {self.failed}")

    def _checked_producer(self, headers: list[BatchHeader]) -> WrittenBatch | None:
        """The earlier batch that this one repeats, if so; raises what is wrong with it."""
        if not any(header.has_producer or header.is_transactional for header in headers):
            return None
        if not headers[0].has_producer:
            raise InvalidRecord("a transactional batch names its producer")
        if len(headers) != 1:
            raise InvalidRecord("a producer with an id sends one batch a partition and request")
        return self.producers.check(headers[0])

    def append_marker(self, marker: Marker, *, epoch: Epoch, now: Timestamp) -> Offset:
        """End a transaction: write its control batch; gives that one's offset."""
        self._refuse_if_closed()
        self.producers.check_marker(marker)
        data = markers.encode(marker, now)
        headers = [batches.header_at(data, 0)]
        self._roll_if_due(len(data), headers, now)
        offset = self.end_offset
        batches.stamp(data, headers[0], offset, epoch)
        position = self._write(data)
        self._note_all(headers, offset, position, now, stamps_time=False)
        self._epochs_changed |= self.epochs.assign(epoch, offset)
        header = batches.header_at(data, 0)
        if not marker.commits:
            self._new_files |= self.aborted.is_new  # its name is durable before a checkpoint is
        try:
            note_marker(self.producers, self.aborted, header, marker, now)
        except (DiskFull, StorageFailed) as error:
            raise self._index_failed(error) from error
        return offset

    def _index_failed(self, error: GoQueueError) -> StorageFailed:
        """Without its entry the aborted records would show; recovery writes it again."""
        self.fail(f"abort index: {error}")
        return StorageFailed(f"{self.directory}: abort index: {error}")

    def begin_epoch(self, epoch: Epoch) -> tuple[EpochStart, ...]:
        """This node leads from the log's end on; `store_epochs` it before the first write.

        Then followers can be told where the epochs before it ended, whatever is written since.
        """
        if epoch < self.epochs.latest:
            raise FencedLeaderEpoch(
                f"{self.directory} has records of epoch {self.epochs.latest}, not led in {epoch}"
            )
        self._epochs_changed |= self.epochs.assign(epoch, self.end_offset)
        return tuple(self.epochs.entries)

    def store_epochs(self, entries: tuple[EpochStart, ...]) -> None:
        """Durably.  Blocking."""
        epoch_file.store(self._disk, self.directory, entries)

    def append_as_follower(self, data: Buffer, *, leader_epoch: Epoch, now: Timestamp) -> None:
        """Write batches of a leader behind the last ones, as they are.

        Raises what `check_fetched` does, and nothing changed; `DiskFull`, and those that
        `end_offset` tells were written; or `StorageFailed` (the log is read-only from now on).
        """
        self._refuse_if_closed()
        headers = check_fetched(data, self, leader_epoch)
        # This node may have led and written nothing: what it gets now is older than its epoch.
        self._epochs_changed |= self.epochs.cut_end(self.end_offset)
        self._note_gaps(headers)
        while headers:
            self._roll_before(headers[0], now)
            count = self._count_fitting(headers)
            self._append_fetched(data, headers[:count], now)
            headers = headers[count:]

    def allow_gaps(self, below: Offset) -> None:
        """The leader has compacted up to there, when the topic still was compacted.

        Take a checkpoint before the first batch behind such a gap: without it recovery would
        take the gap for damage.
        """
        self._checkpoint_due |= below > self.gaps_below
        self.gaps_below = max(self.gaps_below, below)

    def _note_gaps(self, headers: list[BatchHeader]) -> None:
        expected = self.end_offset
        for header in headers:
            if header.base_offset > expected:
                self.gaps_below = max(self.gaps_below, header.base_offset)
            expected = header.next_offset

    def _roll_before(self, header: BatchHeader, now: Timestamp) -> None:
        """By the rule of `append`, a batch at a time: what came together here did not there."""
        active = self.active
        is_far = header.next_offset - active.base_offset > RELATIVE_OFFSET_MAX
        is_full = active.size + header.size > self.settings.segment_bytes
        if is_far or (active.size and (is_full or self.is_old(now))):
            self.roll(header.base_offset)

    def _count_fitting(self, headers: list[BatchHeader]) -> int:
        """How many of them the active segment holds; at least one."""
        active, start = self.active, headers[0].position
        size_max = max(headers[0].size, self.settings.segment_bytes - active.size)
        offset_max = active.base_offset + RELATIVE_OFFSET_MAX
        fitting = itertools.takewhile(
            lambda each: each.end - start <= size_max and each.next_offset <= offset_max, headers
        )
        return sum(1 for _ in fitting)

    def _append_fetched(self, data: Buffer, headers: list[BatchHeader], now: Timestamp) -> None:
        start = headers[0].position
        position = self._write(memoryview(data)[start : headers[-1].end])
        segment = self.active
        if position == 0:
            segment.opened_at = now
        segment.written_at = now
        aborted_before = self.aborted.count
        try:
            for header in headers:
                at = position + header.position - start
                segment.note_header(header, at, self.settings.index_interval_bytes)
                self._epochs_changed |= self.epochs.assign(header.leader_epoch, header.base_offset)
                note_batch(self.producers, self.aborted, data, header, now)
        except (DiskFull, StorageFailed) as error:
            raise self._index_failed(error) from error
        self._new_files |= aborted_before == 0 < self.aborted.count

    def _write(self, data: Buffer) -> int:
        segment = self.active
        if segment not in self._written:
            self._written[segment] = None
        if not self._unsynced or self._unsynced[-1] is not segment:
            self._unsynced.append(segment)
        try:
            return segment.append(data)
        except StorageFailed as error:
            self.failed = str(error)
            raise

    def _note_all(
        self,
        headers: list[BatchHeader],
        offset: int,
        position: int,
        now: Timestamp,
        *,
        stamps_time: bool,
    ) -> None:
        segment = self.active
        if position == 0:
            segment.opened_at = now
        segment.written_at = now
        interval = self.settings.index_interval_bytes
        for header in headers:
            last = offset + header.last_offset_delta
            segment.note(
                base_offset=offset,
                last_offset=last,
                max_timestamp=_newest(header, now if stamps_time else header.max_timestamp),
                size=header.size,
                position=position + header.position,
                interval_bytes=interval,
            )
            offset = last + 1

    def _roll_if_due(self, size: int, headers: list[BatchHeader], now: Timestamp) -> None:
        active = self.active
        if active.size == 0:
            return
        count = sum(header.last_offset_delta + 1 for header in headers)
        if (
            active.size + size > self.settings.segment_bytes
            or active.next_offset + count - active.base_offset > RELATIVE_OFFSET_MAX
            or self.is_old(now)
        ):
            self.roll()

    def is_old(self, now: Timestamp) -> bool:
        """Whether the active segment has been open for longer than `segment.ms`.

        By the clock: by the records' own time, each batch of old ones would close a segment.
        """
        active = self.active
        since = active.first_timestamp if active.opened_at < 0 else active.opened_at
        return active.size > 0 and 0 <= since <= now - self.settings.segment_ms

    def roll(self, base_offset: Offset | None = None) -> None:
        """Seal the active segment and start a new one, at the log's end unless a gap follows.

        Raises `DiskFull` (nothing changed).
        """
        base = self.end_offset if base_offset is None else base_offset
        fresh = Segment(self._disk, self.directory, base)
        fresh.create()
        try:
            self.active.seal()
        except (DiskFull, StorageFailed):
            fresh.remove(self._disk)
            raise
        self._written[self.active] = None
        self.segments.append(fresh)
        self._new_files = True
        if self.replica is not None:
            state = ProducersAt(base, *self.producers.snapshot())
            self._earlier = [*self.earlier_producers(), state]

    # --- sync -------------------------------------------------------------------------------------

    @property
    def needs_sync(self) -> bool:
        return self.synced_offset < self.end_offset

    def sync_point(self) -> SyncPoint:
        active = self.active
        point = SyncPoint(
            SyncedMark(active.next_offset, active.base_offset, active.size),
            tuple(self._unsynced),
            self._new_files,
        )
        self._unsynced = []
        self._new_files = False
        return point

    def run_sync(self, point: SyncPoint) -> None:
        """Blocking; in the background.  Takes no room, so a full disk is no reason to fail."""
        for segment in point.segments:
            segment.sync()
        if point.new_files:
            self._disk.sync_directory(self.directory)
        if point.segments:
            self.mark.store(point.mark)

    def note_synced(self, point: SyncPoint) -> None:
        """The point was run: everything before it is durable."""
        self.synced_offset = max(self.synced_offset, point.end_offset)

    def put_back(self, point: "SyncPoint | CheckpointPoint") -> None:
        """The point was not run to its end, and may be tried again: the disk was full."""
        if isinstance(point, CheckpointPoint):
            self._written.update((segment, None) for segment in point.written if not segment.gone)
            self._epochs_changed |= point.epochs is not None
            self._checkpoint_due = True
            point = point.sync
        self._unsynced[:0] = [segment for segment in point.segments if not segment.gone]
        self._new_files |= point.new_files

    def fail(self, reason: str) -> None:
        """Accept no more.  What was never synced may be gone, and no later fsync can tell."""
        self.failed = self.failed or reason

    # --- checkpoint -------------------------------------------------------------------------------

    @property
    def needs_checkpoint(self) -> bool:
        return bool(self._written) or self._checkpoint_due

    def checkpoint_point(self) -> CheckpointPoint:
        written = tuple(self._written)
        epochs = tuple(self.epochs.entries) if self._epochs_changed else None
        self._written = {}
        self._epochs_changed = False
        self._checkpoint_due = False
        return CheckpointPoint(
            self.sync_point(),
            written,
            epochs,
            self.checkpoint_now(),
        )

    def checkpoint_now(self) -> Checkpoint:
        """What a checkpoint of this moment says; it holds once everything so far is synced."""
        return Checkpoint(
            self.start_offset,
            self.active.base_offset,
            self.active.tail(),
            self.cleaned_offset,
            self.aborted.count,
            *self.producers.snapshot(),
            self.high_watermark,
            self.gaps_below,
            self.earlier_producers(),
        )

    def earlier_producers(self) -> list[ProducersAt]:
        """The producers' states that a truncation may need.

        Nothing is cut below the high watermark, so the newest one there is the first.
        """
        below = bisect.bisect_right(self._earlier, self.high_watermark, key=_offset_of)
        return self._earlier[max(0, below - 1) :]

    def is_settled(self, segment: Segment) -> bool:
        """Whether the segment is sealed and the checkpoint on disk covers it: it stays as it is."""
        return segment.sealed and segment not in self._written

    def run_checkpoint(self, point: CheckpointPoint) -> None:
        """Blocking; in the background."""
        self.run_sync(point.sync)
        for segment in point.written:
            segment.sync_indexes()
        self.aborted.file.sync()
        if point.epochs is not None:
            epoch_file.store(self._disk, self.directory, point.epochs)
        checkpoints.store(self._disk, self.directory, point.checkpoint)

    def begin_replica(self, replica: Replica) -> None:
        """The log had one replica, and has others from now on: keep what is committed.  Blocking.

        Everything in it is committed: there was nobody else to wait for.
        """
        if self.replica is None:
            file = ReplicaFile(self._disk, self.directory)
            file.store(replica, self.high_watermark)
            self.replica = file

    def store_watermark(self) -> None:
        """Write the high watermark down, if it has risen and is not simply the log's end."""
        if self.replica is not None and not self.abandoned:
            self.replica.raise_watermark(self.high_watermark)

    # --- retention and removal --------------------------------------------------------------------

    @property
    def knows_times(self) -> bool:
        """Whether `retention_start` need not ask the disk."""
        return all(segment.has_state for segment in self.segments)

    def retention_start(self, now: Timestamp) -> Offset:
        """The start offset that retention by time and size asks for."""
        if not self.settings.deletes_old:
            return self.start_offset
        return max(self.start_offset, self._start_by_time(now), self._start_by_size())

    def _start_by_time(self, now: Timestamp) -> Offset:
        start = self.start_offset
        if self.settings.retention_ms < 0:
            return start
        oldest_kept = now - self.settings.retention_ms
        for segment in self.segments:
            if segment.size == 0 or segment.next_offset > self.high_watermark:
                break
            if segment.age_from(now) < oldest_kept:
                start = segment.next_offset
            elif segment.knows_age:
                break  # else: it is at least as old as a later one
        return start

    def _start_by_size(self) -> Offset:
        start = self.start_offset
        if self.settings.retention_bytes < 0:
            return start
        excess = self.size - self.settings.retention_bytes
        for segment in self.segments[:-1]:
            if segment.size > excess or segment.next_offset > self.high_watermark:
                break
            excess -= segment.size
            start = segment.next_offset
        return start

    def remove_before(self, offset: Offset) -> Removal:
        """Make `offset` the start.  The removal is durable once `run_removal` has returned."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"cannot delete up to offset {offset}, the last one readers see is"
                f" {self.high_watermark - 1}"
            )
        self.start_offset = max(self.start_offset, offset)
        if self.active.size and self.active.next_offset <= self.start_offset:
            self.roll()
        kept = next(
            index
            for index, segment in enumerate(self.segments)
            if segment.next_offset > self.start_offset or segment is self.active or self.rewriting
        )
        removed, self.segments = self.segments[:kept], self.segments[kept:]
        for segment in removed:
            segment.gone = True
        self.epochs.cut_start(self.start_offset)
        if not self.rewriting:  # compaction asks the index from another thread
            self.aborted.forget_before(self.start_offset)
        self.cleaned_offset = max(self.cleaned_offset, self.start_offset)
        self._forget(removed)
        self.forget_cursors()
        return Removal(self.checkpoint_point(), tuple(removed))

    def run_removal(self, removal: Removal) -> None:
        """Blocking; in the background.  The new start is durable before the first file goes.

        Unless there is no room to write it down: then the files make some.  A log whose first
        segments are missing starts behind them anyway.
        """
        try:
            self.run_checkpoint(removal.checkpoint)
        except DiskFull:
            self._remove_files(removal)
            self.run_checkpoint(removal.checkpoint)
        else:
            self._remove_files(removal)

    def _remove_files(self, removal: Removal) -> None:
        for segment in removal.segments:
            segment.remove(self._disk)

    # --- compaction -------------------------------------------------------------------------------

    def announce_replacement(
        self, old: Sequence[Segment], new: Sequence[Segment], cleaned_offset: Offset
    ) -> None:
        """Blocking.  Make it known to the next opening; raises `DiskFull` (nothing changed)."""
        kept = [segment for segment in new if segment.next_offset > self.start_offset]
        announce(self._disk, self.directory, old=old, new=kept, cleaned_offset=cleaned_offset)

    def replace_segments(
        self, old: Sequence[Segment], new: Sequence[Segment], cleaned_offset: Offset
    ) -> Replacement:
        """Serve `new`, which compaction made of the first segments `old`, from now on.

        Files are exchanged by `run_replacement`.  Until then both are whole (see `swap.py`).
        Before that `announce_replacement` must have succeeded.
        """
        assert all(mine is theirs for mine, theirs in zip(self.segments, old, strict=False))
        kept = [segment for segment in new if segment.next_offset > self.start_offset]
        self.segments = kept + self.segments[len(old) :]
        for segment in old:
            segment.gone = True  # after they were replaced: readers look again
        self.start_offset = max(self.start_offset, self.segments[0].base_offset)
        self.cleaned_offset = max(self.cleaned_offset, cleaned_offset)
        self._forget(old)
        self.forget_cursors()
        return Replacement(self.checkpoint_point(), tuple(old), tuple(kept))

    def run_replacement(self, replacement: Replacement) -> None:
        """Blocking; in the background.  Says so in a checkpoint when it is done, not before.

        May be repeated when it raised `DiskFull`.
        """
        swap(self._disk, self.directory, old=replacement.old, new=replacement.new)
        self.run_checkpoint(replacement.checkpoint)

    # --- truncation -------------------------------------------------------------------------------

    def go_back_to(
        self, saved: Checkpoint, segments: Sequence[Segment], producers: Producers
    ) -> tuple[Segment, ...]:
        """Become the log that `saved` describes, in these segments; gives those that are removed.

        For `truncation.py`, which has made that durable.
        """
        removed = tuple(segment for segment in self.segments if segment not in segments)
        self.segments = list(segments)
        for segment in removed:
            segment.gone = True  # after they were replaced: readers look again
        self.start_offset = saved.start_offset
        self.synced_offset = saved.tail.next_offset
        assert saved.high_watermark is not None
        self.high_watermark = saved.high_watermark
        self.cleaned_offset = saved.cleaned_offset
        self.gaps_below = saved.gaps_below
        self.producers = producers
        self.aborted.cut(saved.aborted_entries)
        self.epochs.cut_end(saved.epochs_end)
        self.damaged = {
            first: last for first, last in self.damaged.items() if last < saved.tail.next_offset
        }
        self._earlier = list(saved.earlier)
        self._forget(removed)
        self.forget_cursors()
        return removed

    def _forget(self, gone: Sequence[Segment]) -> None:
        """There is no need to sync what is removed or replaced."""
        for segment in gone:
            self._written.pop(segment, None)
        self._unsynced = [segment for segment in self._unsynced if segment not in gone]

    def close(self) -> None:
        for segment in self.segments:
            segment.close()
        self.aborted.file.close()
        self.mark.close()
        if self.replica is not None:
            self.store_watermark()
            self.replica.close()


def _newest(header: BatchHeader, timestamp: Timestamp) -> Timestamp:
    """No record has the time of a batch that is empty."""
    return timestamp if header.count else NO_TIMESTAMP


def _offset_of(state: ProducersAt) -> Offset:
    return state.offset
