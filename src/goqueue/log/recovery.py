"""Opening a log: believe the checkpoint, verify what lies behind it, cut a torn end.

Sealed segments before the checkpoint's are not even opened.  From the checkpoint on every batch
is read and its checksum verified, the indexes are written anew, and the log is cut at the first
batch that is not sound: it was never acknowledged, since acknowledged bytes were synced whole.

What the checkpoint knows to be durable is never cut, and neither is anything while there is no
checkpoint to tell: damage there stays where it is, for readers to be told of.  When the end of the
log itself is gone, a new segment begins where the log ended: no offset is given out twice.

Blocking: run it in the background.
"""

import contextlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from goqueue.log import checkpoint as checkpoints
from goqueue.log import epochs as epoch_file
from goqueue.log import framed
from goqueue.log.aborted import AbortIndex
from goqueue.log.checkpoint import Checkpoint
from goqueue.log.epochs import EpochStart, LeaderEpochs
from goqueue.log.log import EPOCHS_FILE, Log, note_marker
from goqueue.log.producers import Producers
from goqueue.log.segment import LOG, DamageFound, Segment
from goqueue.log.swap import finish_swap
from goqueue.model import batch as batches
from goqueue.model import markers
from goqueue.model.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.model.errors import CorruptBatch, CorruptData, DiskFull, UnsupportedBatch
from goqueue.model.ids import NO_TIMESTAMP, Offset
from goqueue.model.settings import TopicSettings
from goqueue.runtime import Disk

READ_BYTES: Final = 1024 * 1024


class Recovery(msgspec.Struct):
    """What opening a log had to do, for the operator."""

    verified_bytes: int = 0
    cut_bytes: int = 0
    removed_segments: int = 0
    problems: list[str] = []

    def add(self, other: "Recovery") -> None:
        """Sum up; problems were told log by log."""
        self.verified_bytes += other.verified_bytes
        self.cut_bytes += other.cut_bytes
        self.removed_segments += other.removed_segments


def open_log(disk: Disk, directory: str, settings: TopicSettings) -> tuple[Log, Recovery]:
    """The log in `directory`, created when there is none."""
    report = Recovery()
    disk.make_directory(directory)
    finish_swap(disk, directory)
    saved = _load_checkpoint(disk, directory, report)
    start = saved.start_offset if saved else Offset(0)
    segments = _listed_segments(disk, directory)
    if not segments:
        segments = [Segment(disk, directory, start)]
        segments[0].create()
    if saved is None:
        start = segments[0].base_offset
    epochs = _load_epochs(disk, directory, report)
    aborted = AbortIndex(disk, directory)
    cleaned = saved.cleaned_offset if saved else Offset(0)
    # Without the abort index nothing is believed: it follows from the whole log, like the rest.
    believed = saved if _restore_aborted(aborted, saved, report) else None
    producers = Producers(believed.producers, believed.unsettled) if believed else Producers()
    known_end = believed.tail.next_offset if believed else Offset(0)
    durable_end = saved.tail.next_offset if saved else None
    taken_in = _TakenIn(settings, epochs, producers, aborted, known_end, durable_end, cleaned)
    segments, touched = _verify_tail(disk, segments, believed, taken_in, report)
    producers.settle(segments[-1].next_offset)
    segments = _drop_deleted(disk, segments, start)
    if durable_end is not None and segments[-1].next_offset < durable_end:
        touched.append(_resumed(disk, directory, segments, durable_end, report))
    epochs.cut_end(segments[-1].next_offset)
    start = max(start, segments[0].base_offset)
    log = Log(disk, directory, settings, segments, start, epochs, cleaned, producers, aborted)
    if believed is None or report.verified_bytes or report.cut_bytes or len(touched) > 1:
        log.settle(touched)
    return log, report


def _listed_segments(disk: Disk, directory: str) -> list[Segment]:
    bases = [
        Offset(int(name.removesuffix(LOG)))
        for name in disk.list_directory(directory)
        if name.endswith(LOG) and name.removesuffix(LOG).isdigit()
    ]
    bases.sort()
    sealed = [Segment.found(disk, directory, base, after) for base, after in pairwise(bases)]
    return sealed + [Segment(disk, directory, base) for base in bases[-1:]]


def _load_checkpoint(disk: Disk, directory: str, report: Recovery) -> Checkpoint | None:
    try:
        return checkpoints.load(disk, directory)
    except CorruptData as error:
        report.problems.append(str(error))
        return None


def _load_epochs(disk: Disk, directory: str, report: Recovery) -> LeaderEpochs:
    path = f"{directory}/{EPOCHS_FILE}"
    try:
        entries = framed.load(disk, path, epoch_file.KIND, epoch_file.VERSION, list[EpochStart])
    except CorruptData as error:
        report.problems.append(str(error))
        entries = None
    return LeaderEpochs(entries or [])


def _verify_tail(
    disk: Disk,
    segments: list[Segment],
    saved: Checkpoint | None,
    taken_in: "_TakenIn",
    report: Recovery,
) -> tuple[list[Segment], list[Segment]]:
    """The segments that are sound, and those of them that were looked at.

    What lies behind a cut is removed.
    """
    first = _first_unverified(segments, saved)
    for index in range(first, len(segments)):
        segment = segments[index]
        if index > first:
            before = segments[index - 1]
            if not taken_in.follows(segment.base_offset, before.next_offset):
                report.problems.append(
                    f"{segment.log.path}: does not follow the segment before it, which ends at"
                    f" offset {before.next_offset}"
                )
                overlaps = segment.base_offset < before.next_offset
                if overlaps or not taken_in.was_durable(before.next_offset):
                    segments = _remove_from(disk, segments, index, report)
                    break
                before.next_offset = segment.base_offset
            with contextlib.suppress(DiskFull):  # who misses an index entry makes it anew
                before.seal()
        start = _restored_size(segment, saved)
        is_last = index == len(segments) - 1
        if not _verify(segment, start, taken_in, report, is_last=is_last):
            segments = _remove_from(disk, segments, index + 1, report)
            break
    return segments, segments[first:]


def _first_unverified(segments: Sequence[Segment], saved: Checkpoint | None) -> int:
    if saved is None:
        return 0
    for index, segment in enumerate(segments):
        if segment.base_offset >= saved.segment:
            return index
    return len(segments) - 1


def _restored_size(segment: Segment, saved: Checkpoint | None) -> int:
    """Bring the segment to the checkpoint's state; gives the size that may be believed."""
    if saved is not None and saved.segment == segment.base_offset:
        tail = saved.tail
        if (
            segment.size >= tail.size
            and segment.offsets.is_sound(tail.offset_entries)
            and segment.times.is_sound(tail.time_entries)
        ):
            segment.offsets.cut(tail.offset_entries)
            segment.times.cut(tail.time_entries)
            segment.restore(tail)
            return tail.size
    segment.clear_indexes()
    return 0


class _TakenIn:
    """What the log knows besides its segments, brought up to date batch by batch."""

    def __init__(
        self,
        settings: TopicSettings,
        epochs: LeaderEpochs,
        producers: Producers,
        aborted: AbortIndex,
        known_end: Offset,
        durable_end: Offset | None,
        cleaned_offset: Offset,
    ) -> None:
        self.settings = settings
        self._epochs = epochs
        self._producers = producers
        self._aborted = aborted
        self._cleaned_offset = cleaned_offset  # compaction leaves gaps below
        self._known_end = known_end  # the checkpoint knows what was written below
        self._durable_end = durable_end  # None when no checkpoint says

    def was_durable(self, offset: Offset) -> bool:
        """Whether there was a durable batch at `offset`; when in doubt, yes."""
        return self._durable_end is None or offset < self._durable_end

    def follows(self, offset: Offset, expected: Offset) -> bool:
        """Whether a batch may come here.  What lies behind a lost one was not acked either."""
        may_skip = self.settings.is_compacted or expected < self._cleaned_offset
        return offset == expected or (offset > expected and may_skip)

    def take(self, data: Buffer, header: BatchHeader) -> None:
        self._epochs.assign(header.leader_epoch, header.base_offset)
        if not header.has_producer or header.base_offset < self._known_end:
            return
        if header.is_control:
            self._take_marker(data, header)
        else:  # also what compaction emptied: it stayed for its sequence
            append_time = header.max_timestamp if header.uses_append_time else -1
            self._producers.wrote(header, header.base_offset, header.last_offset, append_time)

    def _take_marker(self, data: Buffer, header: BatchHeader) -> None:
        marker = markers.decode(data, header)
        if marker is None:
            return
        commits, coordinator_epoch = marker
        note_marker(
            self._producers,
            self._aborted,
            header,
            commits=commits,
            coordinator_epoch=coordinator_epoch,
        )


def _restore_aborted(aborted: AbortIndex, saved: Checkpoint | None, report: Recovery) -> bool:
    """Bring the index to the checkpoint's state; False when its entries are not there."""
    if saved is None:
        aborted.clear()
        return False
    if aborted.restore(saved.aborted_entries):
        return True
    report.problems.append(f"{aborted.file.path}: damaged or old, made anew from the whole log")
    return False


def _verify(
    segment: Segment, position: int, taken_in: _TakenIn, report: Recovery, *, is_last: bool
) -> bool:
    """Take in the batches from `position` on; False when what follows is not to be kept."""
    size = segment.size
    report.verified_bytes += size - position
    while position < size:
        data = _read_batches(segment, position)
        headers = _sound_headers(data, segment, taken_in)
        for header in headers:
            segment.note(
                base_offset=header.base_offset,
                last_offset=header.last_offset,
                # What compaction emptied has no record with that time.
                max_timestamp=header.max_timestamp if header.count else NO_TIMESTAMP,
                size=header.size,
                position=position + header.position,
                interval_bytes=taken_in.settings.index_interval_bytes,
            )
            taken_in.take(data, header)
        if not headers:
            was_durable = taken_in.was_durable(segment.next_offset)
            damage = segment.damage_at(position, segment.next_offset, None)
            if was_durable and damage.end < size:
                report.problems.append(str(DamageFound(segment.log.path, damage)))
                position, segment.next_offset = damage.end, damage.next_offset
                continue
            if was_durable and not is_last:
                return True  # the next segment tells how much is missing
            report.cut_bytes += size - position
            report.problems.append(f"{segment.log.path}: cut at {position} of {size} bytes")
            segment.log.truncate(position)
            return False
        position += headers[-1].end
    return True


def _read_batches(segment: Segment, position: int) -> bytes:
    """A stretch of the file that holds at least one whole batch, if one is there."""
    data = segment.log.read(position, READ_BYTES)
    if len(data) >= HEADER_BYTES:
        size = batches.batch_size_at(data, 0)
        if len(data) < size <= segment.size - position:
            data = segment.log.read(position, size)
    return data


def _sound_headers(data: Buffer, segment: Segment, taken_in: _TakenIn) -> list[BatchHeader]:
    """The sound batches at the start of `data`, whose offsets follow on."""
    found: list[BatchHeader] = []
    position, next_offset = 0, segment.next_offset
    while position < len(data):
        try:
            header = batches.verified_header_at(data, position)
        except (CorruptBatch, UnsupportedBatch):
            break
        if not taken_in.follows(header.base_offset, next_offset):
            break
        found.append(header)
        position, next_offset = header.end, header.next_offset
    return found


def _resumed(
    disk: Disk, directory: str, segments: list[Segment], end: Offset, report: Recovery
) -> Segment:
    """A new active segment, where a log ended that has lost its last records."""
    last = segments[-1]
    report.problems.append(
        f"{last.log.path}: ends before offset {last.next_offset}, {end - last.next_offset} records"
        " that were synced are missing"
    )
    last.next_offset = end
    with contextlib.suppress(DiskFull):
        last.seal()
    segments.append(Segment(disk, directory, end))
    segments[-1].create()
    return segments[-1]


def _remove_from(
    disk: Disk, segments: list[Segment], index: int, report: Recovery
) -> list[Segment]:
    for segment in segments[index:]:
        report.cut_bytes += segment.size
        report.removed_segments += 1
        segment.remove(disk)
    return segments[:index]


def _drop_deleted(disk: Disk, segments: list[Segment], start: Offset) -> list[Segment]:
    """Finish a removal that a crash interrupted."""
    while len(segments) > 1 and segments[0].next_offset <= start:
        segments.pop(0).remove(disk)
    return segments
