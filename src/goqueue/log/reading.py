"""The reading side of a log: batches from an offset on, and records by their time.

A reader may be on the loop or on a disk thread, while the log's owner removes or replaces
segments: what was read of a segment that is `gone` is thrown away and read again.
"""

import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from goqueue.log.epochs import LeaderEpochs
from goqueue.log.segment import Damage, DamageFound, Segment
from goqueue.model import batch as batches
from goqueue.model.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.model.errors import (
    CorruptBatch,
    CorruptData,
    GoQueueError,
    OffsetOutOfRange,
    TopicNotFound,
    UnsupportedBatch,
)
from goqueue.model.ids import NO_EPOCH, Epoch, Offset, Timestamp
from goqueue.model.settings import TopicSettings
from goqueue.runtime import File

CURSORS_MAX: Final = 64  # sequential readers that need no index look-up

T = TypeVar("T")
Reader = Callable[[File, int, int], Buffer | None]


class Chunk(msgspec.Struct, frozen=True):
    """Whole, verified batches from the one that holds the offset asked for."""

    data: Buffer
    next_offset: Offset


class TimedOffset(msgspec.Struct, frozen=True, gc=False):
    offset: Offset
    timestamp: Timestamp
    leader_epoch: Epoch


class ReadableLog:
    """Segments, and what a reader must know of them.  `Log` is one that is written to."""

    def __init__(
        self,
        directory: str,
        settings: TopicSettings,
        segments: list[Segment],
        start_offset: Offset,
        epochs: LeaderEpochs,
        cleaned_offset: Offset,
    ) -> None:
        assert segments, "a log has at least its active segment"
        self.directory = directory
        self.settings = settings
        self.segments = segments  # by base offset; the last one is active
        self.epochs = epochs
        self.start_offset = start_offset  # invariant: segments[0].base <= start <= end
        self.cleaned_offset = cleaned_offset  # compaction has seen everything below
        self.gaps_below = Offset(0)  # a leader may have compacted what was fetched from it there
        self.abandoned = False  # deleted: its files may be gone at any time
        self.damaged: dict[Offset, Offset] = {}  # first to last offset of batches with a bad CRC
        self._cursors: dict[Offset, tuple[Segment, int]] = {}  # the oldest first

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def end_offset(self) -> Offset:
        return self.segments[-1].next_offset

    @property
    def last_epoch(self) -> Epoch:
        """Of the last record; `NO_EPOCH` without any.  What a follower tells its leader."""
        is_empty = self.start_offset >= self.end_offset
        return NO_EPOCH if is_empty else self.epochs.epoch_of(Offset(self.end_offset - 1))

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    # --- by offset --------------------------------------------------------------------------------

    def bytes_from(self, offset: Offset) -> int:
        """How much there is from there on, to within the segment that has it."""
        segments = self.segments
        first = max(0, _segment_index(segments, offset))
        segment, left = segments[first], sum(each.size for each in segments[first + 1 :])
        count = segment.next_offset - segment.base_offset
        if count <= 0 or offset >= segment.next_offset:
            return left
        share = (segment.next_offset - max(offset, segment.base_offset)) / count
        return left + int(segment.size * share)

    def read_cached(self, offset: Offset, bytes_max: int, limit: Offset) -> Chunk | None:
        """As `read`, or None when that would have to wait for the device."""
        return self._read(offset, bytes_max, limit, _read_cached)

    def read(self, offset: Offset, bytes_max: int, limit: Offset) -> Chunk:
        """Batches from `offset` up to `limit`, about `bytes_max` of them but at least one.

        Raises `OffsetOutOfRange`, or `CorruptData` when the batch that holds `offset` is damaged.
        """
        chunk = self._retry_disturbed(lambda: self._read(offset, bytes_max, limit, _read_blocking))
        assert chunk is not None
        return chunk

    def _retry_disturbed(self, look: Callable[[], T]) -> T:
        """Look again when segments were removed or replaced meanwhile: files change after that."""
        while True:
            segments = self.segments
            try:
                found = look()
            except CorruptData:
                if self.abandoned:
                    raise TopicNotFound(f"{self.directory} was deleted") from None
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
        is_cached = reader is _read_cached
        place = self._cursor(offset) or self._find(offset, careful=not is_cached)
        if place is None:
            return None if is_cached else Chunk(b"", limit)
        segment, position = place
        found = self._read_at(segment, position, offset, bytes_max, limit, reader)
        if self.abandoned:
            raise TopicNotFound(f"{self.directory} was deleted")
        if segment.gone:
            return self._read(offset, bytes_max, limit, reader)
        if found is None and is_cached:
            return None  # not in memory, or in need of a closer look
        if found is None:
            position = self._survey(segment, offset)
            found = self._read_at(segment, position, offset, bytes_max, limit, reader)
        if found is None:
            raise CorruptData(
                f"{segment.log.path}: position {position} reads differently each time"
            )
        if is_cached:  # the only reader that surely runs on the loop's thread
            self._keep_cursor(found.next_offset, segment, position + len(found.data))
        return found

    def _read_at(
        self,
        segment: Segment,
        position: int,
        offset: Offset,
        bytes_max: int,
        limit: Offset,
        reader: Reader,
    ) -> Chunk | None:
        """What `_read` gives; None when it is not in memory, or there is no sound batch."""
        wanted = min(max(bytes_max, HEADER_BYTES), segment.size - position)
        data = reader(segment.log, position, wanted)
        if data is not None and len(data) >= HEADER_BYTES:
            size = batches.batch_size_at(data, 0)
            if len(data) < size <= segment.size - position:
                data = reader(segment.log, position, size)
        if data is None:
            return None
        is_start = self._cursors.get(offset) == (segment, position)
        return self._verify(data, segment, offset, limit, is_start=is_start)

    def _verify(
        self, data: Buffer, segment: Segment, offset: Offset, limit: Offset, *, is_start: bool
    ) -> Chunk | None:
        """The sound batches below `limit` at the start of `data`; None when there is none."""
        position, next_offset = 0, offset
        while len(data) - position >= HEADER_BYTES:
            try:
                header = batches.verified_header_at(data, position)
            except (CorruptBatch, UnsupportedBatch):
                break
            expected = next_offset if position or is_start else min(offset, header.base_offset)
            if header.last_offset < offset or not segment.fits(header, expected, self):
                break
            if header.base_offset >= limit:
                return Chunk(memoryview(data)[:position], limit)
            position, next_offset = header.end, header.next_offset
        if position == 0:
            return None
        return Chunk(data if position == len(data) else memoryview(data)[:position], next_offset)

    def _find(self, offset: Offset, *, careful: bool) -> tuple[Segment, int] | None:
        """The first batch that ends at or after `offset`: compaction may have left a gap there.

        None when there is none; without `careful`, also when that would take a closer look.
        """
        segments = self.segments  # one list throughout: another thread may replace it
        for segment in segments[_segment_index(segments, offset) :]:
            try:
                position = segment.position_of(offset, self, careful=careful)
            except DamageFound as error:
                raise self._note_damage(error) from None
            if position is None:
                return None
            if position < segment.size:
                return segment, position
        return None

    def _survey(self, segment: Segment, offset: Offset) -> int:
        try:
            return segment.surveyed_position(offset, self)
        except DamageFound as error:
            raise self._note_damage(error) from None

    def _note_damage(self, error: DamageFound) -> DamageFound:
        """Remember damage, so that it can be told and counted."""
        self.damaged[error.damage.first_offset] = Offset(error.damage.next_offset - 1)
        return error

    def may_skip(self, offset: Offset) -> bool:
        """Whether there may be a gap at `offset`: only compaction leaves any."""
        if self.settings.is_compacted:
            return True
        return offset < self.cleaned_offset or offset < self.gaps_below

    def epoch_at(self, offset: Offset) -> Epoch:
        entries = self.epochs.entries
        if entries and offset >= entries[-1].start_offset:  # nearly always, and on every read
            return entries[-1].epoch
        return self.epochs.epoch_of(offset)

    def _cursor(self, offset: Offset) -> tuple[Segment, int] | None:
        cursor = self._cursors.get(offset)
        if cursor is not None and cursor[1] < cursor[0].size:
            return cursor
        return None  # none, or at the end of a segment that was sealed since

    def _keep_cursor(self, offset: Offset, segment: Segment, position: int) -> None:
        if position < segment.size or segment is self.active:
            self._cursors[offset] = (segment, position)
            if len(self._cursors) > CURSORS_MAX:
                del self._cursors[next(iter(self._cursors))]

    def forget_cursors(self) -> None:
        """After segments were removed or replaced."""
        self._cursors.clear()

    # --- by time ----------------------------------------------------------------------------------

    def offset_for_time(self, timestamp: Timestamp, limit: Offset) -> TimedOffset | None:
        """The first record below `limit` whose timestamp is `timestamp` or later.  May block."""
        return self._retry_disturbed(lambda: self._offset_for_time(timestamp, limit))

    def _offset_for_time(self, timestamp: Timestamp, limit: Offset) -> TimedOffset | None:
        for segment in list(self.segments):
            if segment.next_offset <= self.start_offset or segment.newest() < timestamp:
                continue
            found = self._first_record(segment, timestamp, limit)
            if found is not None:
                return found
        return None

    def _first_record(
        self, segment: Segment, timestamp: Timestamp, limit: Offset
    ) -> TimedOffset | None:
        for header, data in self._readable(segment, segment.place_before_time(timestamp), limit):
            if header.max_timestamp >= timestamp:
                for record in _timed_records(header, data):
                    if record.timestamp >= timestamp and self.start_offset <= record.offset:
                        return record
        return None

    def newest_record(self, limit: Offset) -> TimedOffset | None:
        """The first of the records with the largest timestamp.  May block."""
        return self._retry_disturbed(lambda: self._newest_record(limit))

    def _newest_record(self, limit: Offset) -> TimedOffset | None:
        newest: TimedOffset | None = None
        for segment in sorted(self.segments, key=lambda segment: -segment.newest()):
            if segment.newest() < 0 or (newest and segment.newest() < newest.timestamp):
                break
            found = self._newest_in(segment, limit)
            if found and (
                newest is None
                or found.timestamp > newest.timestamp
                or (found.timestamp == newest.timestamp and found.offset < newest.offset)
            ):
                newest = found
        return newest

    def _newest_in(self, segment: Segment, limit: Offset) -> TimedOffset | None:
        if self.start_offset <= segment.base_offset and segment.next_offset <= limit:
            found = self._first_record(segment, segment.newest(), limit)
            if found is not None:  # a batch may count as newer than its records are
                return found
        newest: TimedOffset | None = None  # the time index speaks of more than is readable
        for header, data in self._readable(segment, (0, segment.base_offset), limit):
            if header.max_timestamp > (newest.timestamp if newest else -1):
                for record in _timed_records(header, data):
                    if record.offset >= self.start_offset and (
                        newest is None or record.timestamp > newest.timestamp
                    ):
                        newest = record
        return newest

    def _readable(
        self, segment: Segment, place: tuple[int, Offset], limit: Offset
    ) -> Iterator[tuple[BatchHeader, Buffer]]:
        """The batches from `place` on that are neither deleted nor at or after `limit`."""
        for found in segment.survey(*place, self, limit):
            if isinstance(found, Damage):
                if found.next_offset > self.start_offset and found.first_offset < limit:
                    raise self._note_damage(DamageFound(segment.log.path, found))
            elif found.header.base_offset >= limit:
                return
            elif found.header.last_offset >= self.start_offset:
                yield found.header, found.data


def _timed_records(header: BatchHeader, data: Buffer) -> Iterator[TimedOffset]:
    """The records' offsets and timestamps; the batch's own when they cannot be decoded."""
    try:
        for some in batches.decode_slices(data, header):
            for record in some:
                yield TimedOffset(
                    Offset(record.offset), Timestamp(record.timestamp), header.leader_epoch
                )
    except GoQueueError:
        yield TimedOffset(header.base_offset, header.max_timestamp, header.leader_epoch)


def _segment_index(segments: Sequence[Segment], offset: Offset) -> int:
    """Of the segment that holds `offset`, or would."""
    after = bisect.bisect_right(segments, offset, key=lambda segment: segment.base_offset)
    return max(0, after - 1)


def _read_cached(file: File, position: int, length: int) -> Buffer | None:
    return file.read_cached(position, length)


def _read_blocking(file: File, position: int, length: int) -> Buffer | None:
    return file.read(position, length)
