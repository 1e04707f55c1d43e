"""Compaction: of each key, a topic with `cleanup.policy=compact` keeps the last value.

                     dirty_from                                stable, synced
    |------ clean -------|------------ dirty ------------|----------|--- active ---|
      each key once        keys repeat, also those of      too young   never touched
                           the clean part                  or undecided

One run reads the dirty part and notes the last offset of each key, as many keys as the memory
given holds; then it rewrites all sealed segments up to there, without what is superseded.
What `sieve.py` says of one batch, this file does to a log; `swap.py` has how files are exchanged.
What follows the last key that fitted is copied unchanged, and `Log.cleaned_offset` says where the
next run goes on, so a log of any size is compacted in bounded memory.

Transactions are all decided there; records of aborted ones go, and supersede nothing.

Offsets never change.  A batch that lost its last record goes, and readers step over the gap.  Two
kinds of batch stay although empty: the last data of each producer, which tells its sequence to
whoever rebuilds the producers' state; and the last one that a run writes, so that there is always
a batch at or after every offset that may be asked for.

Small neighbours are merged into segments of up to `segment.bytes`.  The first segment keeps its
base offset, so the start of a log does not move.

The owner of a log goes through these steps; `plan` and `replace_segments` are quick and on the
loop, the others block:

    plan(log, now)                       None: nothing to do
    log.rewriting = True                 segments stay where they are until it is False again
    run(disk, plan, ...)                 writes the new segments beside the old ones
    log.announce_replacement(result)     the point of no return; from here on, again and again
    log.replace_segments(result)         serves them
    log.run_replacement(replacement)     exchanges the files and writes a checkpoint

Until the last step a crash leaves the log as it was; during it, its next opening finishes it.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from goqueue.log.aborted import AbortIndex
from goqueue.log.log import Log
from goqueue.log.segment import RELATIVE_OFFSET_MAX, Segment
from goqueue.log.sieve import (
    IsAborted,
    KeyOffsets,
    Sieve,
    SupersededOffsets,
    Superseding,
    is_aborted_data,
)
from goqueue.log.swap import CLEANED, depart, remove_cleaned
from goqueue.model import batch as batches
from goqueue.model.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.model.errors import CorruptBatch, CorruptData, DiskFull, UnsupportedBatch
from goqueue.model.ids import NO_TIMESTAMP, Offset, Timestamp
from goqueue.model.partial_batch import empty_batch
from goqueue.model.settings import TopicSettings
from goqueue.runtime import Disk

MEMORY_BYTES_MAX: Final = 128 * 1024 * 1024  # for keys, unless the caller says otherwise
PRODUCERS_MAX: Final = 100_000  # whose last batch is looked for; with more, all empty ones stay
READ_BYTES: Final = 1024 * 1024
WRITE_BYTES: Final = 1024 * 1024

ShouldStop = Callable[[], bool]


class Plan(msgspec.Struct, frozen=True):
    directory: str
    settings: TopicSettings
    segments: tuple[Segment, ...]  # the first ones of the log, sealed and old enough
    dirty_from: Offset
    dirty_ratio: float
    now: Timestamp
    is_aborted: IsAborted


class Report(msgspec.Struct, frozen=True):
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int
    segments_before: int
    dirty_ratio: float
    cleaned_offset: Offset  # where the next run goes on
    is_complete: bool  # False: memory was used up before all that was planned was looked at
    unreadable_batches: int  # sound by their checksum, but not records: kept as they are


class Result(msgspec.Struct, frozen=True):
    report: Report
    old: tuple[Segment, ...]
    new: tuple[Segment, ...]  # none after a dry run


class _Survey(msgspec.Struct):
    """What a run knows of the log before it writes."""

    offsets: Superseding
    segments: tuple[Segment, ...]  # to be rewritten
    end_offset: Offset  # the keys of everything dirty below are in `offsets`
    producers: dict[int, Offset] | None  # to the base offset of their last data; None: too many

    def may_drop(self, header: BatchHeader) -> bool:
        """Whether a batch that lost its records need not stay for its producer's sake."""
        if not header.has_producer:
            return True
        return (
            self.producers is not None and self.producers[header.producer_id] > header.base_offset
        )


class _Stopped(Exception):
    """The caller said so, or a segment was removed meanwhile."""


# --- on the loop ---------------------------------------------------------------------------------


def plan(log: Log, now: Timestamp, *, force: bool = False) -> Plan | None:
    """What to compact now, if it is worth it.  `force`: even when it is not."""
    if not log.settings.is_compacted or log.failed is not None or log.abandoned:
        return None
    dirty_from = max(log.cleaned_offset, log.start_offset)
    segments = _cleanable(log, dirty_from, now)
    dirty = [segment for segment in segments if segment.next_offset > dirty_from]
    ratio = _share(dirty, segments)
    is_due = bool(dirty) and (
        ratio >= log.settings.min_cleanable_dirty_ratio or _is_overdue(log.settings, dirty[0], now)
    )
    if not segments or not (is_due or force):
        return None
    return Plan(
        log.directory,
        log.settings,
        tuple(segments),
        dirty_from,
        ratio,
        now,
        functools.partial(_is_aborted, log.aborted),
    )


def should_roll(log: Log, now: Timestamp) -> bool:
    """Whether the active segment keeps records from compaction for too long: `log.roll()` it."""
    active = log.active
    if not log.settings.is_compacted or log.failed is not None or active.size == 0:
        return False
    return 0 <= active.first_timestamp <= now - log.settings.max_compaction_lag_ms


def _cleanable(log: Log, dirty_from: Offset, now: Timestamp) -> list[Segment]:
    end = min(log.stable_offset, log.high_watermark, log.synced_offset)
    lag_ms = log.settings.min_compaction_lag_ms
    found = []
    for segment in log.segments[:-1]:
        is_dirty = segment.next_offset > dirty_from
        if segment.next_offset > end or (is_dirty and lag_ms and segment.newest() > now - lag_ms):
            break
        found.append(segment)
    return found


def _share(dirty: Sequence[Segment], segments: Sequence[Segment]) -> float:
    size = sum(segment.size for segment in segments)
    return sum(segment.size for segment in dirty) / size if size else 0.0


def _is_overdue(settings: TopicSettings, oldest: Segment, now: Timestamp) -> bool:
    if settings.max_compaction_lag_ms > now:
        return False
    return 0 <= _first_timestamp(oldest) <= now - settings.max_compaction_lag_ms


def _first_timestamp(segment: Segment) -> Timestamp:
    """Of the first batch; a segment that was not written in this process asks its time index."""
    if segment.first_timestamp < 0 and segment.times.count:
        with contextlib.suppress(CorruptData):
            segment.first_timestamp = Timestamp(segment.times.entry(0)[0])
    return segment.first_timestamp


def _is_aborted(index: AbortIndex, producer_id: int, offset: Offset) -> bool:
    """Asks the file, for transactional batches only; so it costs no memory.  Blocking."""
    return any(
        aborted.producer_id == producer_id for aborted in index.between(offset, Offset(offset + 1))
    )


# --- in the background -------------------------------------------------------------------------


def run(
    disk: Disk,
    plan: Plan,
    *,
    memory_bytes_max: int = MEMORY_BYTES_MAX,
    free_bytes_min: int = 0,
    should_stop: ShouldStop = lambda: False,
    dry_run: bool = False,
    superseded: SupersededOffsets | None = None,
) -> Result | None:
    """Write the new segments beside the old ones; None when it was stopped.  Blocking.

    With `superseded` no keys are read: somebody else found out what goes.

    Raises `CorruptData` for a damaged batch: what cannot be read cannot be compacted around.
    Raises `DiskFull` also before less than `free_bytes_min` are left.  Neither leaves a trace.
    """
    output = None if dry_run else _Output(disk, plan, free_bytes_min)
    try:
        survey = _survey(plan, superseded or KeyOffsets(memory_bytes_max), should_stop)
        sieve = Sieve(
            survey.offsets,
            survey.end_offset,
            now=plan.now,
            delete_retention_ms=plan.settings.delete_retention_ms,
            is_aborted=plan.is_aborted,
        )
        report = _rewrite(plan, survey, sieve, output, should_stop)
        new = output.finish(survey.segments[-1].next_offset) if output else ()
    except BaseException as error:
        if output:
            output.discard()
        if isinstance(error, _Stopped):
            return None
        raise
    return Result(report, survey.segments, new)


def discard(disk: Disk, plan: Plan) -> None:
    """Remove what `run` wrote, when it is not to be used after all.  Blocking."""
    remove_cleaned(disk, plan.directory)


def _survey(plan: Plan, offsets: Superseding, should_stop: ShouldStop) -> _Survey:
    producers: dict[int, Offset] = {}
    full_at: Offset | None = None
    covered: tuple[Segment, ...] = ()
    for segment in plan.segments:
        covered = (*covered, segment)
        for data, header, _ in _batches(segment, should_stop):
            if header.is_control:  # it always stays, and has neither key nor sequence
                continue
            if header.has_producer and len(producers) <= PRODUCERS_MAX:
                producers[header.producer_id] = header.base_offset
            if header.last_offset < plan.dirty_from or full_at is not None:
                continue
            if not offsets.has_room(header):
                full_at = header.base_offset
            elif not is_aborted_data(header, plan.is_aborted):
                offsets.add(data, header)
        if full_at is not None:
            break
    end_offset = covered[-1].next_offset if full_at is None else full_at
    return _Survey(
        offsets, covered, end_offset, producers if len(producers) <= PRODUCERS_MAX else None
    )


def _rewrite(
    plan: Plan, survey: _Survey, sieve: Sieve, output: "_Output | None", should_stop: ShouldStop
) -> Report:
    records_before = records_after = bytes_before = bytes_after = 0
    for segment in survey.segments:
        is_last_segment = segment is survey.segments[-1]
        for data, header, end in _batches(segment, should_stop):
            records_before += header.count
            bytes_before += header.size
            kept = sieve.sift(data, header)
            if kept is None:
                if survey.may_drop(header) and not (is_last_segment and end == segment.size):
                    continue
                kept = empty_batch(header)
            if isinstance(kept, bytearray):  # not the same bytes
                header = batches.header_at(kept, 0)
            records_after += header.count
            bytes_after += header.size
            if output:
                output.add(kept, header)
    return Report(
        records_before=records_before,
        records_after=records_after,
        bytes_before=bytes_before,
        bytes_after=bytes_after,
        segments_before=len(survey.segments),
        dirty_ratio=plan.dirty_ratio,
        cleaned_offset=survey.end_offset,
        is_complete=survey.end_offset == plan.segments[-1].next_offset,
        unreadable_batches=sieve.unreadable_batches,
    )


# --- reading ---------------------------------------------------------------------------------


def _batches(segment: Segment, should_stop: ShouldStop) -> Iterator[tuple[bytes, BatchHeader, int]]:
    """The segment's batches: the bytes each lies in, its header, and where it ends in the file."""
    position = 0
    while position < segment.size:
        if should_stop() or segment.gone:
            raise _Stopped
        data = _read_batches(segment, position)
        end = 0
        for header in _headers(data, segment, position):
            end = header.end
            yield data, header, position + end
        position += end


def _read_batches(segment: Segment, position: int) -> bytes:
    """A stretch of the file that holds at least one whole batch."""
    data = segment.log.read(position, READ_BYTES)
    if len(data) >= HEADER_BYTES:
        size = batches.batch_size_at(data, 0)
        if len(data) < size <= segment.size - position:
            data = segment.log.read(position, size)
    return data


def _headers(data: bytes, segment: Segment, position: int) -> Iterator[BatchHeader]:
    """Of the whole batches in `data`, at least one."""
    at = 0
    while True:
        try:
            header = batches.verified_header_at(data, at)
        except (CorruptBatch, UnsupportedBatch) as error:
            if segment.gone:
                raise _Stopped from error
            raise CorruptData(
                f"{segment.log.path}: damaged batch at position {position + at},"
                " the log cannot be compacted"
            ) from error
        yield header
        at = header.end
        if len(data) - at < HEADER_BYTES or at + batches.batch_size_at(data, at) > len(data):
            return


# --- writing ---------------------------------------------------------------------------------


class _Output:
    """New segments, under names that no log reads."""

    def __init__(self, disk: Disk, plan: Plan, free_bytes_min: int) -> None:
        self._disk = disk
        self._directory = plan.directory
        self._settings = plan.settings
        self._free_bytes_min = free_bytes_min
        self._next_base = plan.segments[0].base_offset  # the log's start must not move
        self._segments: list[Segment] = []
        self._pending = bytearray()  # not written yet; belongs to the last segment
        remove_cleaned(disk, plan.directory)

    def add(self, data: Buffer, header: BatchHeader) -> None:
        position = self._place_for(header)
        self._segments[-1].note(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            # An empty batch keeps its time for its producer's sake; no record has it.
            max_timestamp=header.max_timestamp if header.count else NO_TIMESTAMP,
            size=header.size,
            position=position,
            interval_bytes=self._settings.index_interval_bytes,
        )
        self._pending += data
        if len(self._pending) >= WRITE_BYTES:
            self._write()

    def finish(self, end_offset: Offset) -> tuple[Segment, ...]:
        """Make everything durable, names included; gives segments that may be served."""
        self._seal()
        self._disk.sync_directory(self._directory)
        ends = [segment.base_offset for segment in self._segments[1:]] + [end_offset]
        for segment, end in zip(self._segments, ends, strict=True):
            segment.next_offset = end
            depart(self._disk, self._directory, segment)
        return tuple(self._segments)

    def discard(self) -> None:
        for segment in self._segments:
            segment.close()
        remove_cleaned(self._disk, self._directory)

    def _place_for(self, header: BatchHeader) -> int:
        """Where the batch comes to lie in the last segment, which may be a new one."""
        if self._segments:
            base_offset = self._segments[-1].base_offset
            position = self._segments[-1].size + len(self._pending)
            if (
                position + header.size <= self._settings.segment_bytes
                and header.last_offset - base_offset <= RELATIVE_OFFSET_MAX
            ):
                return position
            self._seal()
            self._next_base = header.base_offset
        elif header.last_offset - self._next_base > RELATIVE_OFFSET_MAX:
            self._next_base = header.base_offset  # no index spans so many offsets, all empty
        self._segments.append(Segment(self._disk, self._directory, self._next_base, CLEANED))
        return 0

    def _write(self) -> None:
        if self._disk.free_bytes(self._directory) - len(self._pending) < self._free_bytes_min:
            raise DiskFull(
                f"compaction of {self._directory} would leave less than"
                f" {self._free_bytes_min} bytes free"
            )
        self._segments[-1].append(self._pending)
        self._pending = bytearray()

    def _seal(self) -> None:
        segment = self._segments[-1]
        self._write()
        segment.seal()
        for index in (segment.offsets, segment.times):
            if index.file.size == 0:
                index.file.truncate(0)  # creates it: the swap exchanges all three files
        segment.sync()
        segment.sync_indexes()
        segment.close()
