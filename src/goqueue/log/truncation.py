"""Cutting the end off a log, or all of it: a follower gives up what its leader does not have.

    1  announce   all that is kept is synced; then the checkpoint says that the log ends at the cut,
                  with the state it had there, and that what lies behind is to go (`is_cut`)
    2  cut        the log serves what is left; its files are cut
    3  finish     segments behind the cut are removed; files, names, epochs and the abort index are
                  synced, the `synced` mark is withdrawn; then the checkpoint says that it is done

The checkpoint of step 1 is the one commit point: before it a crash leaves the log as it was, after
it the next opening does the rest (`finish_cut`).  It holds all that a log knows beside its batches,
so nothing is derived again after a crash, and no mixture of before and after can be.

    producers     their state at the cut is that at the start of a segment, which checkpoints keep
                  (`Checkpoint.earlier`), and what follows from the batches between.  One segment at
                  most is read, as long as nothing below the high watermark is cut
    watermark     records below it are committed: to cut them takes a caller that says `unclean`
    mark          `synced` may name more than is left, and it is not synced itself: it is
                  removed before the last checkpoint, and not believed before that

Steps 1 and 3 block, step 2 is the loop's.  Nobody may write to the log between them, or compact it.
"""

import msgspec

from goqueue.log import checkpoint as checkpoints
from goqueue.log import epochs as epoch_file
from goqueue.log.aborted import AbortIndex
from goqueue.log.checkpoint import Checkpoint, ProducersAt
from goqueue.log.derived_state import note_batch
from goqueue.log.epochs import LeaderEpochs
from goqueue.log.log import CheckpointPoint, Log
from goqueue.log.producers import Producers, copy_of
from goqueue.log.segment import SUFFIXES, Damage, DamageFound, Segment, SegmentTail, empty_tail
from goqueue.log.synced import MarkFile
from goqueue.model.errors import CorruptData, DiskFull, OffsetOutOfRange, StorageFailed
from goqueue.model.ids import NO_TIMESTAMP, Offset, Timestamp
from goqueue.runtime import Disk


class Cut(msgspec.Struct, frozen=True):
    """What a log will be."""

    checkpoint: Checkpoint
    producers: Producers


# --- step 1 --------------------------------------------------------------------------------------


def announce_truncation(
    disk: Disk, log: Log, point: CheckpointPoint, offset: Offset, *, unclean: bool = False
) -> Cut:
    """Decide that the log ends before the batch that holds `offset`.  Blocking.

    `point` is one that was just taken.  Raises `OffsetOutOfRange` when committed records would go,
    `CorruptData` when what is kept is damaged, or `DiskFull`: then nothing has changed, and the
    point is to be put back.
    """
    assert offset < log.end_offset, "there is nothing to cut"
    if offset < log.segments[0].base_offset:
        return announce_reset(disk, log, point, offset, unclean=unclean)
    cut = _plan(log, offset)
    end, committed = cut.checkpoint.tail.next_offset, log.high_watermark
    if end < committed and not unclean:
        raise OffsetOutOfRange(
            f"{log.directory} is not cut at offset {end}: records below {committed} are committed"
        )
    return _announce(disk, log, point, cut)


def announce_reset(
    disk: Disk, log: Log, point: CheckpointPoint, start: Offset, *, unclean: bool = False
) -> Cut:
    """Decide that the log drops all it has and begins at `start`.  Blocking.

    Raises `OffsetOutOfRange` when it has committed records above, or `DiskFull`.
    """
    has_records = log.start_offset < log.end_offset
    if start < log.high_watermark and has_records and not unclean:
        raise OffsetOutOfRange(
            f"{log.directory} cannot start over at offset {start}: records below"
            f" {log.high_watermark} are committed"
        )
    checkpoint = Checkpoint(
        start, start, empty_tail(start), start, high_watermark=start, is_cut=True
    )
    return _announce(disk, log, point, Cut(checkpoint, Producers()))


def _announce(disk: Disk, log: Log, point: CheckpointPoint, cut: Cut) -> Cut:
    try:
        log.run_checkpoint(msgspec.structs.replace(point, checkpoint=cut.checkpoint))
    except DiskFull as error:
        saved = checkpoints.load(disk, log.directory)
        if saved is not None and saved.is_cut:  # an opening would find it
            raise StorageFailed(f"{log.directory}: half cut: {error}") from error
        raise
    return cut


def _plan(log: Log, offset: Offset) -> Cut:
    segment = next(each for each in reversed(log.segments) if each.base_offset <= offset)
    state = _state_before(log, offset)
    producers = Producers(map(copy_of, state.producers), state.unsettled)
    for earlier in log.segments:
        if state.offset < earlier.next_offset and earlier.base_offset < segment.base_offset:
            _take_in(log, earlier, state.offset, earlier.next_offset, producers)
    tail = _take_in(log, segment, state.offset, offset, producers)
    end = tail.next_offset
    committed = min(log.high_watermark, end)
    producers.settle(committed)
    checkpoint = Checkpoint(
        min(log.start_offset, end),
        segment.base_offset,
        tail,
        min(log.cleaned_offset, end),
        log.aborted.count_before(end),
        *producers.snapshot(),
        committed,
        min(log.gaps_below, end),
        [each for each in log.earlier_producers() if each.offset <= end],
        is_cut=True,
    )
    return Cut(checkpoint, producers)


def _state_before(log: Log, offset: Offset) -> ProducersAt:
    """The newest known one; without any, all follows from the log's first batch."""
    first = log.segments[0].base_offset
    known = [each for each in log.earlier_producers() if first <= each.offset <= offset]
    return known[-1] if known else ProducersAt(first)


def _take_in(
    log: Log, segment: Segment, start: Offset, offset: Offset, producers: Producers
) -> SegmentTail:
    """Take in the batches from `start` to before `offset`; gives the segment's tail there."""
    position, next_offset = 0, segment.base_offset
    newest, newest_at, first_time = NO_TIMESTAMP, segment.base_offset, NO_TIMESTAMP
    batches = segment.survey(0, segment.base_offset, log, offset)
    for found in batches if segment.base_offset < offset else ():
        if isinstance(found, Damage):
            raise DamageFound(segment.log.path, found)
        header = found.header
        if header.last_offset >= offset:
            break
        if header.base_offset >= start:
            note_batch(producers, None, found.data, header)
        time = header.max_timestamp if header.count else NO_TIMESTAMP
        if time > newest:
            newest, newest_at = time, header.last_offset
        if first_time < 0:
            first_time = Timestamp(time)
        position, next_offset = found.position + header.size, header.next_offset
    relative = next_offset - segment.base_offset
    return SegmentTail(
        next_offset,
        position,
        segment.offsets.count_below(relative),
        segment.times.count_below(relative, value=True),
        newest,
        newest_at,
        first_time,
        segment.opened_at if position else NO_TIMESTAMP,
        segment.written_at if position else NO_TIMESTAMP,
    )


# --- steps 2 and 3 -------------------------------------------------------------------------------


def cut(disk: Disk, log: Log, announced: Cut) -> tuple[Segment, ...]:
    """Serve what is left; gives the segments that `finish` removes."""
    saved = announced.checkpoint
    kept = [each for each in log.segments if not _goes(each.base_offset, saved)]
    active = _cut_segment(disk, log.directory, saved)
    kept = [each for each in kept if each.base_offset != active.base_offset]
    return log.go_back_to(saved, [*kept, active], announced.producers)


def finish(disk: Disk, log: Log, announced: Cut, removed: tuple[Segment, ...]) -> None:
    """Blocking.  When it fails, nothing may be written any more; the next opening finishes it."""
    for segment in removed:
        segment.close()
    if log.replica is not None:
        log.replica.lower_watermark(log.high_watermark)
    _finish(disk, log.directory, announced.checkpoint, log.active, log.aborted, log.mark)


def finish_cut(disk: Disk, directory: str, saved: Checkpoint) -> Checkpoint:
    """Finish what a crash interrupted; gives the checkpoint that holds then.  Blocking."""
    aborted, mark = AbortIndex(disk, directory), MarkFile(disk, directory)
    aborted.restore(saved.aborted_entries)
    active = _cut_segment(disk, directory, saved)
    done = _finish(disk, directory, saved, active, aborted, mark)
    active.close()
    aborted.file.close()
    mark.close()
    return done


def _cut_segment(disk: Disk, directory: str, saved: Checkpoint) -> Segment:
    """The segment that becomes the last one; another object, for its files are cut."""
    segment, tail = Segment(disk, directory, saved.segment), saved.tail
    if segment.size > tail.size or tail.size == 0:
        segment.log.truncate(tail.size)
    segment.offsets.cut(tail.offset_entries)
    segment.times.cut(tail.time_entries)
    segment.restore(tail)
    return segment


def _finish(
    disk: Disk,
    directory: str,
    saved: Checkpoint,
    active: Segment,
    aborted: AbortIndex,
    mark: MarkFile,
) -> Checkpoint:
    for name in disk.list_directory(directory):
        base, dot, suffix = name.partition(".")
        if base.isdigit() and dot + suffix in SUFFIXES and _goes(Offset(int(base)), saved):
            disk.remove(f"{directory}/{name}")
    _cut_epochs(disk, directory, saved)
    active.sync()
    active.sync_indexes()
    aborted.file.sync()
    mark.clear()
    disk.sync_directory(directory)
    done = msgspec.structs.replace(saved, is_cut=False)
    checkpoints.store(disk, directory, done)
    return done


def _goes(base_offset: Offset, saved: Checkpoint) -> bool:
    """Whether the segment lies behind the cut, or before a log that begins in its last one."""
    if base_offset < saved.segment:
        return saved.start_offset >= saved.segment
    return base_offset > saved.segment


def _cut_epochs(disk: Disk, directory: str, saved: Checkpoint) -> None:
    try:
        entries = epoch_file.load(disk, directory)
    except CorruptData:
        entries = []  # they follow from the log
    epochs = LeaderEpochs(list(entries))
    epochs.cut_end(saved.epochs_end)
    if epochs.entries != entries:
        epoch_file.store(disk, directory, epochs.entries)
