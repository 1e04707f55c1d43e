"""Opening a log: trust the checkpoint, verify what comes after it, cut a torn end.

Sealed segments before the checkpoint's are not even opened.  From the checkpoint on every batch
is read, its checksum verified, and the indexes are rewritten.  A batch that is not sound is one
of two things:

    below what was synced    damage.  It was acknowledged, and so was what follows: it stays where
                             it is, for readers to be told of, and the sound batches behind it are
                             kept, from the first one that leads to the end of what was synced.
    above                    the torn end of what nobody was told of: the log is cut there.

How far the log was synced is known from the checkpoint and from the mark in `synced` (see there);
while there is no checkpoint, everything counts as synced that sound batches follow.  When the end
of what was synced is gone, a new segment begins where it was: no offset is given out twice.

One of several replicas need not keep damage: others have what it lost.  Its log is cut where the
damage begins, `Recovery.lost` says so, and it fetches the rest again.  What is cut is kept in
`*.log.lost`.

**What an earlier process left in memory** is written again and synced before it is served.  It may
be what a failed sync left: the kernel shows such bytes and no longer writes them.  Nothing below
the mark can be: it was synced with success.

Blocking: run it in the background.
"""

import contextlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from goqueue.log import checkpoint as checkpoints
from goqueue.log import epochs as epoch_file
from goqueue.log.aborted import AbortIndex
from goqueue.log.checkpoint import Checkpoint, ProducersAt
from goqueue.log.derived_state import note_batch
from goqueue.log.epochs import EpochStart, LeaderEpochs
from goqueue.log.log import Log
from goqueue.log.producers import Producers, copy_of
from goqueue.log.replica import Replica, ReplicaFile
from goqueue.log.segment import LOG, Damage, DamageFound, Segment, empty_tail
from goqueue.log.swap import finish_swap
from goqueue.log.synced import MarkFile, SyncedMark, durable_marks
from goqueue.log.truncation import finish_cut
from goqueue.model import batch as batches
from goqueue.model.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.model.errors import CorruptBatch, CorruptData, DiskFull, UnsupportedBatch
from goqueue.model.ids import NO_EPOCH, Epoch, Offset
from goqueue.model.settings import TopicSettings
from goqueue.runtime import Disk

READ_BYTES: Final = 1024 * 1024
LOST: Final = ".lost"  # after the name of a segment: its bytes from the damage on


class LostRange(msgspec.Struct, frozen=True):
    """Records that were synced, and that the log does not have any more."""

    first_offset: Offset
    next_offset: Offset


class Recovery(msgspec.Struct):
    """What opening a log had to do, for the operator."""

    verified_bytes: int = 0
    cut_bytes: int = 0
    removed_segments: int = 0
    problems: list[str] = []
    lost: LostRange | None = None  # of one of several replicas: to be fetched again
    is_new_replica: bool = False  # the directory did not say whose it is; see `replica.py`

    @property
    def is_changed(self) -> bool:
        """Whether the log's checkpoint does not describe what was found."""
        return bool(self.verified_bytes or self.cut_bytes or self.lost)

    def add(self, other: "Recovery") -> None:
        """Sum up; problems were told log by log."""
        self.verified_bytes += other.verified_bytes
        self.cut_bytes += other.cut_bytes
        self.removed_segments += other.removed_segments


def open_log(
    disk: Disk, directory: str, settings: TopicSettings, replica: Replica | None = None
) -> tuple[Log, Recovery]:
    """The log in `directory`, created when there is none.

    `replica` says that the log has more than one, and which it is.  Without it the log has one
    replica, and all that is found in it is committed.
    """
    report = Recovery()
    disk.make_directory(directory)
    replica_file = ReplicaFile(disk, directory)
    known = None if replica is None else _check_replica(replica_file, replica, report)
    finish_swap(disk, directory)
    saved = _load_checkpoint(disk, directory, report)
    segments = _listed_segments(disk, directory, saved)
    start = saved.start_offset if saved else segments[0].base_offset
    mark = MarkFile(disk, directory)
    knowledge = _Knowledge(
        settings,
        _load_epochs(disk, directory, report),
        AbortIndex(disk, directory),
        _Durable(saved, mark.load()),
        is_replicated=replica is not None,
    )
    stored_epochs = list(knowledge.epochs.entries)
    state, segments, touched = _verify_log(disk, segments, saved, knowledge, report)
    _resume(disk, directory, segments, start, touched, knowledge, report)
    segments = _drop_deleted(disk, segments, start)
    if replica is not None:
        _note_loss(segments[-1], knowledge.durable, report)
    end = segments[-1].next_offset
    knowledge.epochs.cut_end(end)
    start = max(start, segments[0].base_offset)
    watermark = end if replica is None else _kept_watermark(replica_file, saved, start, end)
    state.producers.settle(watermark)
    log = Log(
        disk,
        directory,
        settings,
        segments,
        start,
        knowledge.epochs,
        min(saved.cleaned_offset, end) if saved else Offset(0),
        state.producers,
        knowledge.aborted,
        replica_file if replica is not None else None,
        watermark,
        state.earlier if replica is not None else (),
    )
    log.gaps_below = state.gaps_below
    if knowledge.epochs.entries != stored_epochs:
        log.note_epochs_changed()
    if report.lost is not None:
        mark.clear()  # or it would name the lost records for ever
    mark.close()
    if state.is_new or report.is_changed or len(touched) > 1:
        log.settle(touched)
    if replica is not None:
        _keep_replica(replica_file, known, replica, watermark)
    return log, report


def _check_replica(file: ReplicaFile, replica: Replica, report: Recovery) -> Replica | None:
    """What the file says, if anything; raises `CorruptData` when the log is another replica's."""
    try:
        found = file.load()
    except CorruptData as error:
        report.problems.append(f"{error}: it is rebuilt")
        return None
    if found is None:
        report.is_new_replica = True
        return None
    is_moved = found.directory_id not in (None, replica.directory_id)
    if (found.topic_id, found.partition) != (replica.topic_id, replica.partition) or is_moved:
        raise CorruptData(f"{file.path}: the log is that of {found}, not of {replica}")
    return found


def _kept_watermark(
    file: ReplicaFile, saved: Checkpoint | None, start: Offset, end: Offset
) -> Offset:
    """The highest that is known, within the log.

    A checkpoint that knows none was written by the only replica: all of it was committed.
    """
    kept = max(start, file.load_watermark() or start)
    if saved is not None:
        committed = saved.high_watermark
        kept = max(kept, saved.tail.next_offset if committed is None else committed)
    return min(kept, end)


def _keep_replica(
    file: ReplicaFile, known: Replica | None, replica: Replica, watermark: Offset
) -> None:
    """Let the file say what holds; a lower watermark than before, durably."""
    if known != replica or (file.load_watermark() or 0) > watermark:
        file.store(replica, watermark)
    else:
        file.raise_watermark(watermark)


def _before_loss(
    saved: Checkpoint, segments: Sequence[Segment], aborted: AbortIndex
) -> Checkpoint | None:
    """What may be believed of a checkpoint that covers records which are gone.

    The newest state of before, where a segment starts that is still there; None without one.
    """
    end, bases = segments[-1].next_offset, {segment.base_offset for segment in segments}
    states = [each for each in saved.earlier if each.offset in bases and each.offset <= end]
    if not states:
        aborted.clear()
        return None
    state = states[-1]
    aborted.cut(aborted.count_before(state.offset))
    return msgspec.structs.replace(
        saved,
        segment=state.offset,
        tail=empty_tail(state.offset),
        aborted_entries=aborted.count,
        producers=[copy_of(producer) for producer in state.producers],
        unsettled=state.unsettled,
        earlier=states,
    )


def _note_loss(last: Segment, durable: "_Durable", report: Recovery) -> None:
    """Say what one of several replicas has lost of what it had synced."""
    end = max(durable.marked_end, report.lost.next_offset if report.lost else Offset(0))
    if last.next_offset < end:
        report.lost = LostRange(last.next_offset, end)
        report.problems.append(
            f"{last.log.path}: ends before offset {last.next_offset}, {end - last.next_offset}"
            " records that were synced are missing: they are to be fetched from another replica"
        )


def _listed_segments(disk: Disk, directory: str, saved: Checkpoint | None) -> list[Segment]:
    bases = [
        Offset(int(name.removesuffix(LOG)))
        for name in disk.list_directory(directory)
        if name.endswith(LOG) and name.removesuffix(LOG).isdigit()
    ]
    bases.sort()
    if not bases:
        first = Segment(disk, directory, saved.start_offset if saved else Offset(0))
        first.create()
        return [first]
    sealed = [Segment.open_sealed(disk, directory, base, after) for base, after in pairwise(bases)]
    return [*sealed, Segment(disk, directory, bases[-1])]


def _load_checkpoint(disk: Disk, directory: str, report: Recovery) -> Checkpoint | None:
    try:
        saved = checkpoints.load(disk, directory)
    except CorruptData as error:
        report.problems.append(str(error))
        return None
    if saved is not None and saved.is_cut:
        return finish_cut(disk, directory, saved)
    return saved


def _load_epochs(disk: Disk, directory: str, report: Recovery) -> LeaderEpochs:
    try:
        entries = epoch_file.load(disk, directory)
    except CorruptData as error:
        report.problems.append(str(error))
        entries = []
    return LeaderEpochs(entries)


def _verify_log(
    disk: Disk,
    segments: list[Segment],
    saved: Checkpoint | None,
    knowledge: "_Knowledge",
    report: Recovery,
) -> tuple["_TakenIn", list[Segment], list[Segment]]:
    """As `_verify_tail`, from what may be believed on; and what was taken in."""
    # Without the abort index nothing is believed: it follows from the whole log, like the rest.
    believed = saved if _restore_aborted(knowledge.aborted, saved, report) else None
    gaps_below = max(saved.cleaned_offset, saved.gaps_below) if saved else Offset(0)
    taken_in = _TakenIn(knowledge, believed, gaps_below)
    segments, touched = _verify_tail(disk, segments, believed, taken_in, report)
    end = segments[-1].next_offset
    if knowledge.is_replicated and believed is not None and end < believed.tail.next_offset:
        believed = _before_loss(believed, segments, knowledge.aborted)
        taken_in = _TakenIn(knowledge, believed, gaps_below)
        segments, touched = _verify_tail(disk, segments, believed, taken_in, report)
    taken_in.finish()
    for segment in touched:
        _write_again(segment, knowledge.durable.position_in(segment), report)
    return taken_in, segments, touched


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
                if overlaps or not taken_in.keeps_damage_at(before.next_offset):
                    if taken_in.is_replicated and taken_in.durable.covers(before.next_offset):
                        report.lost = LostRange(before.next_offset, segment.base_offset)
                    segments = _remove_from(disk, segments, index, report)
                    break
                before.next_offset = segment.base_offset
            taken_in.note_gap(before.next_offset, segment.base_offset)
            with contextlib.suppress(DiskFull):  # a reader that misses an index entry rebuilds it
                before.seal()
            taken_in.note_segment(segment.base_offset)
        start = _restored_size(segment, saved)
        following = segments[index + 1].base_offset if index + 1 < len(segments) else None
        if not _verify(disk, segment, start, taken_in, report, following):
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


class _Durable:
    """How far the log is known to have been synced: the checkpoint's tail, and a later mark."""

    def __init__(self, saved: Checkpoint | None, mark: SyncedMark | None) -> None:
        self._marks = durable_marks(saved, mark)
        self.marked_end = self._marks[-1].next_offset if self._marks else Offset(0)
        self.end = self.marked_end if saved is not None else None  # None: not known

    def covers(self, offset: Offset) -> bool:
        """Whether there was a durable batch at `offset`; when in doubt, yes."""
        return self.end is None or offset < self.end

    def anchor(
        self, segment: Segment, position: int, following: Offset | None
    ) -> tuple[int, Offset] | None:
        """The next place behind `position` where a batch surely ends, and the offset there."""
        for mark in self._marks:
            if mark.segment == segment.base_offset and position < mark.size <= segment.size:
                return mark.size, mark.next_offset
        return None if following is None else (segment.size, following)

    def position_in(self, segment: Segment) -> int:
        """How much of the segment's file is surely on the device."""
        if not self._marks or segment.base_offset > self._marks[-1].segment:
            return 0
        is_before = segment.base_offset < self._marks[-1].segment
        return segment.size if is_before else self._marks[-1].size


class _Knowledge(msgspec.Struct, frozen=True):
    """What is known of a log besides its checkpoint and its batches."""

    settings: TopicSettings
    epochs: LeaderEpochs
    aborted: AbortIndex
    durable: _Durable
    is_replicated: bool


class _TakenIn:
    """What the log knows besides its segments, brought up to date batch by batch."""

    def __init__(
        self, knowledge: _Knowledge, believed: Checkpoint | None, gaps_below: Offset
    ) -> None:
        self.settings = knowledge.settings
        self.durable = knowledge.durable
        self.is_replicated = knowledge.is_replicated
        self.is_new = believed is None
        self.gaps_below = gaps_below  # compaction left some there
        self.producers = Producers()
        self.earlier: list[ProducersAt] = []
        self._known_end = Offset(0)  # the checkpoint knows what was written below
        if believed is not None:
            self.producers = Producers(believed.producers, believed.unsettled)
            self.earlier = list(believed.earlier)
            self._known_end = believed.tail.next_offset
            # Batches tell the rest; a leader may have noted an epoch and written nothing in it.
            knowledge.epochs.cut_end(self._known_end)
        self._raised: EpochStart | None = None  # a new epoch, until the next batch confirms it
        self._epochs = knowledge.epochs
        self._aborted = knowledge.aborted

    def follows(self, offset: Offset, expected: Offset) -> bool:
        """Whether a batch may come here."""
        return offset == expected or (offset > expected and self.may_skip(expected))

    def may_skip(self, offset: Offset) -> bool:
        return self.settings.is_compacted or offset < self.gaps_below

    def keeps_damage_at(self, offset: Offset) -> bool:
        """Whether a batch that is not sound there stays: it was durable, and there is no other."""
        return not self.is_replicated and self.durable.covers(offset)

    def note_gap(self, expected: Offset, found: Offset) -> None:
        if found > expected:
            self.gaps_below = max(self.gaps_below, found)

    def note_segment(self, base_offset: Offset) -> None:
        if self.is_replicated and base_offset >= self._known_end:
            self.earlier.append(ProducersAt(base_offset, *self.producers.snapshot()))

    def epoch_at(self, offset: Offset) -> Epoch:
        """Not known yet: these are the batches that tell."""
        return NO_EPOCH

    def take(self, data: Buffer, header: BatchHeader) -> None:
        self._take_epoch(header)
        if header.base_offset >= self._known_end:
            note_batch(self.producers, self._aborted, data, header)

    def _take_epoch(self, header: BatchHeader) -> None:
        """Epochs never fall, and lie outside the checksum: one that is followed by a smaller one
        is damaged, and must not speak for the batches behind it.
        """
        if self._raised is not None and header.leader_epoch >= self._raised.epoch:
            self.finish()
        self._raised = None
        if header.leader_epoch > self._epochs.latest:
            self._raised = EpochStart(header.leader_epoch, header.base_offset)

    def finish(self) -> None:
        """No batch follows."""
        if self._raised is not None:
            self._epochs.assign(self._raised.epoch, self._raised.start_offset)


def _restore_aborted(aborted: AbortIndex, saved: Checkpoint | None, report: Recovery) -> bool:
    """Bring the index to the checkpoint's state; False when its entries are not there."""
    if saved is None:
        aborted.clear()
        return False
    if aborted.restore(saved.aborted_entries):
        return True
    report.problems.append(f"{aborted.file.path}: damaged or old, rebuilt from the whole log")
    return False


def _verify(
    disk: Disk,
    segment: Segment,
    position: int,
    taken_in: _TakenIn,
    report: Recovery,
    following: Offset | None,
) -> bool:
    """Take in the batches from `position` on; False when what follows is not to be kept.

    `following` is the base offset of the next segment, if there is one.
    """
    size = segment.size
    report.verified_bytes += size - position
    while position < size:
        data = _read_batches(segment, position)
        headers = _sound_headers(data, segment, taken_in)
        for header in headers:
            taken_in.note_gap(segment.next_offset, header.base_offset)
            segment.note_header(
                header, position + header.position, taken_in.settings.index_interval_bytes
            )
            taken_in.take(data, header)
        if not headers:
            damage = _durable_damage(segment, position, taken_in, following)
            if damage is not None and taken_in.is_replicated:
                report.lost = LostRange(damage.first_offset, damage.next_offset)
                _set_aside(disk, segment, position, report)
            elif damage is not None:
                report.problems.append(str(DamageFound(segment.log.path, damage)))
                position, segment.next_offset = damage.end, damage.next_offset
                continue
            report.cut_bytes += size - position
            report.problems.append(f"{segment.log.path}: cut at {position} of {size} bytes")
            segment.log.truncate(position)
            return False
        position += headers[-1].end
    return True


def _durable_damage(
    segment: Segment, position: int, taken_in: _TakenIn, following: Offset | None
) -> Damage | None:
    """The damage at `position`; None when nothing durable lies there: a torn end."""
    expected = segment.next_offset
    if not taken_in.durable.covers(expected):
        return None
    anchor = taken_in.durable.anchor(segment, position, following)
    damage = segment.damage_at(position, expected, taken_in, anchor)
    return damage if anchor is not None or damage.end < segment.size else None


def _write_again(segment: Segment, position: int, report: Recovery) -> None:
    """What an earlier process wrote and did not sync with success."""
    try:
        while position < segment.size:
            data = segment.log.read(position, READ_BYTES)
            segment.log.overwrite(position, data)
            position += len(data)
    except DiskFull as error:  # some file systems need room for it
        report.problems.append(str(error))


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


def _resume(
    disk: Disk,
    directory: str,
    segments: list[Segment],
    start: Offset,
    touched: list[Segment],
    knowledge: _Knowledge,
    report: Recovery,
) -> None:
    """Go on where a log ended that has lost its end.

    One of several replicas fetches what is missing, unless it was deleted.
    """
    end = start if knowledge.is_replicated else knowledge.durable.end
    if end is not None and segments[-1].next_offset < end:
        touched.append(_add_segment(disk, directory, segments, end, report))


def _add_segment(
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


def _set_aside(disk: Disk, segment: Segment, position: int, report: Recovery) -> None:
    """Keep a copy of what goes although it was synced: it may be the last one there is."""
    copy = disk.open(segment.log.path + LOST)
    try:
        copy.truncate(0)
        for at in range(position, segment.size, READ_BYTES):
            copy.append(segment.log.read(at, READ_BYTES))
        copy.sync()
    except DiskFull as error:
        report.problems.append(str(error))
    copy.close()


def _remove_from(
    disk: Disk, segments: list[Segment], index: int, report: Recovery
) -> list[Segment]:
    for segment in segments[index:]:
        report.cut_bytes += segment.size
        report.removed_segments += 1
        if report.lost is not None and segment.size:
            disk.rename(segment.log.path, segment.log.path + LOST)
        segment.remove(disk)
    return segments[:index]


def _drop_deleted(disk: Disk, segments: list[Segment], start: Offset) -> list[Segment]:
    """Finish a removal that a crash interrupted."""
    while len(segments) > 1 and segments[0].next_offset <= start:
        segments.pop(0).remove(disk)
    return segments
