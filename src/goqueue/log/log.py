"""A partition's log: segments of batches, and the offsets that bound what may be read.

    start          stable       high watermark      synced        end
      |--------------|---------------|-----------------|------------|
      deleted before  transactions    visible to        survives     written,
                      decided below   readers below     power loss   in memory

Only the owner's thread (the event loop) changes a log.  Blocking work is handed out as a *point*
(`SyncPoint`, `CheckpointPoint`, `Removal`): taken on the loop, run in the background, reported
back on the loop.  Reads may run in either place.
"""

import bisect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from goqueue.log import checkpoint as checkpoints
from goqueue.log import epochs as epoch_file
from goqueue.log import framed, markers
from goqueue.log.aborted import AbortedRange, AbortIndex
from goqueue.log.checkpoint import Checkpoint
from goqueue.log.epochs import EpochStart, LeaderEpochs
from goqueue.log.producers import Producers, WrittenBatch
from goqueue.log.segment import RELATIVE_OFFSET_MAX, Segment
from goqueue.log.swap import swap
from goqueue.model import batch as batches
from goqueue.model.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.model.errors import (
    CorruptBatch,
    CorruptData,
    DiskFull,
    InvalidRecord,
    OffsetOutOfRange,
    StorageFailed,
    TopicNotFound,
    UnsupportedBatch,
)
from goqueue.model.ids import Epoch, Offset, Timestamp
from goqueue.model.settings import TopicSettings
from goqueue.runtime import Disk, File

CURSORS_MAX: Final = 64  # sequential readers that need no index look-up
EPOCHS_FILE: Final = "leader-epochs"

T = TypeVar("T")
Reader = Callable[[File, int, int], Buffer | None]


class Appended(msgspec.Struct, frozen=True, gc=False):
    first_offset: Offset
    last_offset: Offset
    append_time: Timestamp  # -1 when the records keep the producer's time stamps
    is_repeat: bool = False  # written earlier; nothing was written now


class Chunk(msgspec.Struct, frozen=True):
    """Whole, verified batches from the one that holds the offset asked for."""

    data: Buffer
    next_offset: Offset


class TimedOffset(msgspec.Struct, frozen=True, gc=False):
    offset: Offset
    timestamp: Timestamp
    leader_epoch: Epoch


class SyncPoint(msgspec.Struct, frozen=True):
    end_offset: Offset
    segments: tuple[Segment, ...]
    new_files: bool
    epochs: tuple[EpochStart, ...] | None


class CheckpointPoint(msgspec.Struct, frozen=True):
    sync: SyncPoint
    written: tuple[Segment, ...]  # whose indexes changed since the last checkpoint
    checkpoint: Checkpoint


class Removal(msgspec.Struct, frozen=True):
    checkpoint: CheckpointPoint
    segments: tuple[Segment, ...]


class Replacement(msgspec.Struct, frozen=True):
    checkpoint: CheckpointPoint
    old: tuple[Segment, ...]
    new: tuple[Segment, ...]


class Log:
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
    ) -> None:
        assert segments, "a log has at least its active segment"
        self.directory = directory
        self.settings = settings
        self.segments = segments  # by base offset; the last one is active
        self.epochs = epochs
        self.producers = producers
        self.aborted = aborted
        self.start_offset = start_offset  # invariant: segments[0].base <= start <= end
        self.cleaned_offset = cleaned_offset  # compaction has seen everything below
        self.synced_offset = self.end_offset  # invariant: everything below is on the device
        self.high_watermark = self.end_offset  # invariant: only rises; readers stop here
        self.failed: str | None = None  # why the log is read-only
        self.rewriting = False  # compaction reads and replaces segments: none may be removed
        self.abandoned = False  # deleted: its files may be gone at any time
        self.damaged: dict[Offset, Offset] = {}  # first to last offset of batches with a bad CRC
        self._disk = disk
        self._unsynced: list[Segment] = []
        self._written: set[Segment] = set()
        self._new_files = True
        self._epochs_changed = False
        self._cursors: OrderedDict[Offset, tuple[Segment, int]] = OrderedDict()

    def settle(self, touched: list[Segment]) -> None:
        """Make what recovery verified or changed durable, and say so in a checkpoint.  Blocking."""
        self._unsynced = list(touched)
        self._written = set(touched)
        self._epochs_changed = bool(self.epochs.entries)
        self.run_checkpoint(self.checkpoint_point())

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def end_offset(self) -> Offset:
        return self.segments[-1].next_offset

    @property
    def stable_offset(self) -> Offset:
        """Below it every transaction is decided.  Without open ones it is the high watermark."""
        unstable = self.producers.first_unstable()
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

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
        if self.failed is not None:
            raise StorageFailed(f"{self.directory} is read-only: {self.failed}")
        repeat = self._checked_producer(headers)
        if repeat is not None:
            return Appended(repeat.first_offset, repeat.last_offset, repeat.append_time, True)
        self._roll_if_due(len(data), headers, now)
        first = offset = self.end_offset
        stamps_time = self.settings.stamps_append_time
        for header in headers:
            batches.stamp(data, header, offset, epoch)
            if stamps_time:
                batches.stamp_append_time(data, header, now)
            offset = Offset(offset + header.last_offset_delta + 1)
        position = self._write(data)
        self._note_all(headers, first, position, now if stamps_time else None)
        self._epochs_changed |= self.epochs.assign(epoch, first)
        appended = Appended(first, Offset(offset - 1), now if stamps_time else Timestamp(-1))
        if headers[0].has_producer:
            self.producers.wrote(headers[0], first, appended.last_offset, appended.append_time)
        return appended

    def _checked_producer(self, headers: list[BatchHeader]) -> WrittenBatch | None:
        """The earlier batch that this one repeats, if so; raises what is wrong with it."""
        if not any(header.has_producer for header in headers):
            return None
        if len(headers) != 1:
            raise InvalidRecord("a producer with an id sends one batch a partition and request")
        return self.producers.check(headers[0])

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commits: bool,
        epoch: Epoch,
        now: Timestamp,
    ) -> Offset:
        """End a transaction: write its control batch; gives the marker's offset."""
        if self.failed is not None:
            raise StorageFailed(f"{self.directory} is read-only: {self.failed}")
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch)
        data = markers.encode(
            producer_id, producer_epoch, coordinator_epoch, commits=commits, now=now
        )
        headers = [batches.header_at(data, 0)]
        self._roll_if_due(len(data), headers, now)
        marker = self.end_offset
        batches.stamp(data, headers[0], marker, epoch)
        position = self._write(data)
        self._note_all(headers, marker, position, None)
        self._epochs_changed |= self.epochs.assign(epoch, marker)
        header = batches.header_at(data, 0)
        try:
            note_marker(
                self.producers,
                self.aborted,
                header,
                commits=commits,
                coordinator_epoch=coordinator_epoch,
            )
        except (DiskFull, StorageFailed) as error:
            # Without its entry the aborted records would show; recovery writes it anew.
            self.fail(f"abort index: {error}")
            raise StorageFailed(f"{self.directory}: abort index: {error}") from error
        return marker

    def _write(self, data: Buffer) -> int:
        segment = self.active
        if segment not in self._written:
            self._written.add(segment)
        if not self._unsynced or self._unsynced[-1] is not segment:
            self._unsynced.append(segment)
        try:
            return segment.append(data)
        except StorageFailed as error:
            self.failed = str(error)
            raise

    def _note_all(
        self, headers: list[BatchHeader], offset: int, position: int, append_time: int | None
    ) -> None:
        segment = self.active
        interval = self.settings.index_interval_bytes
        for header in headers:
            last = offset + header.last_offset_delta
            segment.note(
                base_offset=offset,
                last_offset=last,
                max_timestamp=header.max_timestamp if append_time is None else append_time,
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
        """Whether the active segment has been open for longer than `segment.ms`."""
        active = self.active
        return active.size > 0 and 0 <= active.first_timestamp <= now - self.settings.segment_ms

    def roll(self) -> None:
        """Seal the active segment and start a new one."""
        self.active.seal()
        self.segments.append(Segment(self._disk, self.directory, self.end_offset))
        self._new_files = True

    # --- read -------------------------------------------------------------------------------------

    def read_cached(self, offset: Offset, bytes_max: int, limit: Offset) -> Chunk | None:
        """As `read`, or None when that would have to wait for the device."""
        return self._read(offset, bytes_max, limit, _read_cached)

    def read(self, offset: Offset, bytes_max: int, limit: Offset) -> Chunk:
        """Batches from `offset` up to `limit`, about `bytes_max` of them but at least one.

        Raises `OffsetOutOfRange`, or `CorruptData` when the batch that holds `offset` is damaged.
        """
        chunk = self._undisturbed(lambda: self._read(offset, bytes_max, limit, _read_blocking))
        assert chunk is not None
        return chunk

    def _undisturbed(self, look: Callable[[], T]) -> T:
        """Look again when segments were removed or replaced meanwhile: files change after that."""
        while True:
            segments = self.segments
            try:
                found = look()
            except CorruptData:
                if segments is self.segments:
                    raise
            else:
                if segments is self.segments:
                    return found

    def _read(self, offset: Offset, bytes_max: int, limit: Offset, reader: Reader) -> Chunk | None:
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is outside {self.start_offset} to {self.end_offset}"
            )
        if offset >= limit:
            return Chunk(b"", offset)
        cursor = self._cursors.get(offset)
        segment, position = cursor if cursor else self._find(offset)
        wanted = min(max(bytes_max, HEADER_BYTES), segment.size - position)
        data = reader(segment.log, position, wanted)
        if data is None:
            return None
        length, next_offset, first_size = self._verified_length(data, segment, offset, limit)
        if length == 0 and first_size > len(data):
            data = reader(segment.log, position, first_size)
            if data is None:
                return None
            length, next_offset, _ = self._verified_length(data, segment, offset, limit)
        if self.abandoned:
            raise TopicNotFound(f"{self.directory} was deleted")
        if segment.gone:
            return self._read(offset, bytes_max, limit, reader)
        if length == 0:
            raise self._damage(segment, position, offset)
        if reader is _read_cached:  # the only one that surely runs on the loop's thread
            self._keep_cursor(next_offset, segment, position + length)
        return Chunk(data if length == len(data) else memoryview(data)[:length], next_offset)

    def _find(self, offset: Offset) -> tuple[Segment, int]:
        """The first batch that ends at or after `offset`: compaction may have left a gap there."""
        segments = self.segments  # one list throughout: another thread may replace it
        for segment in segments[_segment_index(segments, offset) :]:
            position = segment.position_of(offset)
            if position < segment.size:
                return segment, position
        raise CorruptData(f"{self.directory}: nothing sound at or after offset {offset}")

    def _verified_length(
        self, data: Buffer, segment: Segment, offset: Offset, limit: Offset
    ) -> tuple[int, Offset, int]:
        """Bytes of sound batches below `limit`; the offset after them; the first batch's size."""
        position, next_offset, first_size = 0, offset, 0
        while len(data) - position >= HEADER_BYTES:
            size = batches.batch_size_at(data, position)
            first_size = first_size or size
            if size < HEADER_BYTES or position + size > len(data):
                break
            try:
                header = batches.verified_header_at(data, position)
            except (CorruptBatch, UnsupportedBatch):
                break
            if header.base_offset >= limit:
                break
            position = header.end
            next_offset = header.next_offset
        if first_size > segment.size:
            first_size = 0  # a damaged length, not a batch to read more of
        return position, next_offset, first_size

    def _damage(self, segment: Segment, position: int, offset: Offset) -> CorruptData:
        """Remember and describe a damaged batch, so that it can be told and stepped over."""
        after = segment.position_after_damage(position)
        if after < segment.size:
            next_offset = segment.header_at(after).base_offset
        else:
            next_offset = segment.next_offset
        self.damaged[offset] = Offset(next_offset - 1)
        return CorruptData(
            f"{segment.log.path}: damaged batch at position {position}, offsets {offset} to"
            f" {next_offset - 1} cannot be read; continue at offset {next_offset}"
        )

    def _keep_cursor(self, offset: Offset, segment: Segment, position: int) -> None:
        if position < segment.size or segment is self.active:
            self._cursors[offset] = (segment, position)
            if len(self._cursors) > CURSORS_MAX:
                self._cursors.popitem(last=False)

    def forget_cursors(self) -> None:
        """After segments were removed or replaced."""
        self._cursors.clear()

    # --- time -------------------------------------------------------------------------------------

    def offset_for_time(self, timestamp: Timestamp, limit: Offset) -> TimedOffset | None:
        """The first record below `limit` whose timestamp is `timestamp` or later.  May block."""
        return self._undisturbed(lambda: self._offset_for_time(timestamp, limit))

    def _offset_for_time(self, timestamp: Timestamp, limit: Offset) -> TimedOffset | None:
        for segment in list(self.segments):
            if segment.next_offset <= self.start_offset or segment.newest() < timestamp:
                continue
            found = self._first_record(
                segment, segment.position_after_time(timestamp), timestamp, limit
            )
            if found is not None:
                return found
        return None

    def newest_record(self, limit: Offset) -> TimedOffset | None:
        """The first record with the largest timestamp.  May block."""
        return self._undisturbed(lambda: self._newest_record(limit))

    def _newest_record(self, limit: Offset) -> TimedOffset | None:
        segments = [segment for segment in self.segments if segment.newest() >= 0]
        if not segments:
            return None
        newest = max(segments, key=lambda segment: segment.newest())
        position = newest.position_of(newest.max_timestamp_offset)
        return self._first_record(newest, position, newest.newest(), limit)

    def _first_record(
        self, segment: Segment, position: int, timestamp: Timestamp, limit: Offset
    ) -> TimedOffset | None:
        while position < segment.size:
            header = segment.header_at(position)
            if header.base_offset >= limit:
                return None
            if header.max_timestamp >= timestamp and header.last_offset >= self.start_offset:
                data = segment.log.read(position, header.size)
                for record in batches.decode(data, batches.verified_header_at(data, 0)):
                    if record.timestamp >= timestamp and record.offset >= self.start_offset:
                        return TimedOffset(
                            Offset(record.offset), Timestamp(record.timestamp), header.leader_epoch
                        )
            position = header.end
        return None

    # --- sync -------------------------------------------------------------------------------------

    @property
    def needs_sync(self) -> bool:
        return self.synced_offset < self.end_offset

    def sync_point(self) -> SyncPoint:
        point = SyncPoint(
            self.end_offset,
            tuple(self._unsynced),
            self._new_files,
            tuple(self.epochs.entries) if self._epochs_changed else None,
        )
        self._unsynced = []
        self._new_files = False
        self._epochs_changed = False
        return point

    def run_sync(self, point: SyncPoint) -> None:
        """Blocking; in the background."""
        for segment in point.segments:
            segment.sync()
        if point.epochs is not None:
            path = f"{self.directory}/{EPOCHS_FILE}"
            framed.store(self._disk, path, epoch_file.KIND, epoch_file.VERSION, point.epochs)
        if point.new_files:
            self._disk.sync_directory(self.directory)

    def synced(self, point: SyncPoint) -> None:
        """The point was run: everything before it is durable."""
        self.synced_offset = max(self.synced_offset, point.end_offset)

    def fail(self, reason: str) -> None:
        """Accept no more.  What was never synced may be gone, and no later fsync can tell."""
        self.failed = self.failed or reason

    # --- checkpoint -------------------------------------------------------------------------------

    @property
    def needs_checkpoint(self) -> bool:
        return bool(self._written)

    def checkpoint_point(self) -> CheckpointPoint:
        written = tuple(self._written)
        self._written = set()
        return CheckpointPoint(
            self.sync_point(),
            written,
            Checkpoint(
                self.start_offset,
                self.active.base_offset,
                self.active.tail(),
                self.cleaned_offset,
                self.aborted.count,
                *self.producers.snapshot(),
            ),
        )

    def run_checkpoint(self, point: CheckpointPoint) -> None:
        """Blocking; in the background."""
        self.run_sync(point.sync)
        for segment in point.written:
            segment.sync_indexes()
        self.aborted.file.sync()
        checkpoints.store(self._disk, self.directory, point.checkpoint)

    # --- retention and removal --------------------------------------------------------------------

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
            if segment.newest() >= oldest_kept:
                break
            start = segment.next_offset
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
        self.cleaned_offset = max(self.cleaned_offset, self.start_offset)
        self._written.difference_update(removed)
        self._unsynced = [segment for segment in self._unsynced if segment not in removed]
        self.forget_cursors()
        return Removal(self.checkpoint_point(), tuple(removed))

    def run_removal(self, removal: Removal) -> None:
        """Blocking; in the background.  The new start is durable before the first file goes."""
        self.run_checkpoint(removal.checkpoint)
        for segment in removal.segments:
            segment.remove(self._disk)

    # --- compaction -------------------------------------------------------------------------------

    def replace_segments(
        self, old: Sequence[Segment], new: Sequence[Segment], cleaned_offset: Offset
    ) -> Replacement:
        """Serve `new`, which compaction made of the first segments `old`, from now on.

        Files are exchanged by `run_replacement`.  Until then both are whole (see `swap.py`).
        """
        assert all(mine is theirs for mine, theirs in zip(self.segments, old, strict=False))
        kept = [segment for segment in new if segment.next_offset > self.start_offset]
        self.segments = kept + self.segments[len(old) :]
        for segment in old:
            segment.gone = True  # after they were replaced: readers look again
        self.start_offset = max(self.start_offset, self.segments[0].base_offset)
        self.cleaned_offset = max(self.cleaned_offset, cleaned_offset)
        self._written.difference_update(old)
        self._unsynced = [segment for segment in self._unsynced if segment not in old]
        self.forget_cursors()
        return Replacement(self.checkpoint_point(), tuple(old), tuple(kept))

    def run_replacement(self, replacement: Replacement) -> None:
        """Blocking; in the background.  Says so in a checkpoint when it is done, not before."""
        swap(
            self._disk,
            self.directory,
            old=replacement.old,
            new=replacement.new,
            cleaned_offset=replacement.checkpoint.checkpoint.cleaned_offset,
        )
        self.run_checkpoint(replacement.checkpoint)

    def close(self) -> None:
        for segment in self.segments:
            segment.close()
        self.aborted.file.close()


def note_marker(
    producers: Producers,
    aborted: AbortIndex,
    header: BatchHeader,
    *,
    commits: bool,
    coordinator_epoch: int,
) -> None:
    """Take a written marker into the producers' state and the abort index."""
    ended = producers.ended(
        header.producer_id,
        header.producer_epoch,
        coordinator_epoch,
        header.base_offset,
        header.max_timestamp,
    )
    if ended is not None and not commits:
        unstable = producers.first_unstable_but(ended)
        stable = Offset(header.next_offset) if unstable is None else unstable
        aborted.append(
            AbortedRange(header.producer_id, ended.first_offset, header.base_offset, stable)
        )


def _segment_index(segments: Sequence[Segment], offset: Offset) -> int:
    """Of the segment that holds `offset`, or would."""
    after = bisect.bisect_right(segments, offset, key=lambda segment: segment.base_offset)
    return max(0, after - 1)


def _read_cached(file: File, position: int, length: int) -> Buffer | None:
    return file.read_cached(position, length)


def _read_blocking(file: File, position: int, length: int) -> Buffer | None:
    return file.read(position, length)
