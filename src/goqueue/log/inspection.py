"""Inspecting a log of a stopped server, batch by batch, without changing anything.

Every batch is read and its checksum verified; so are the small files beside the segments.  What
recovery would repair by itself (an index, a checkpoint, a torn end behind it) is a warning; batches
that are damaged are not.  Blocking.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import msgspec

from goqueue.log import checkpoint as checkpoints
from goqueue.log import epochs as epoch_file
from goqueue.log.aborted import AbortIndex
from goqueue.log.checkpoint import Checkpoint
from goqueue.log.epochs import LeaderEpochs
from goqueue.log.replica import ReplicaFile
from goqueue.log.segment import LOG, Damage, Segment, Sound
from goqueue.log.synced import MarkFile, SyncedMark, durable_marks
from goqueue.model.errors import CorruptData
from goqueue.model.ids import NO_EPOCH, NO_TIMESTAMP, Epoch, Offset, Timestamp
from goqueue.runtime import Disk

END: Final = Offset(2**63 - 1)


class DamagedRange(msgspec.Struct, frozen=True):
    """Offsets that cannot be read, and between which times they were written."""

    path: str
    position: int
    bytes: int
    first_offset: Offset
    next_offset: Offset
    after: Timestamp  # of the sound batch before it; -1 when there is none
    before: Timestamp  # of the sound batch behind it; -1 when there is none

    @property
    def count(self) -> int:
        return self.next_offset - self.first_offset

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.bytes} damaged bytes at position {self.position}, offsets"
            f" {self.first_offset} to {max(self.first_offset, self.next_offset - 1)}"
        )


class LogReport(msgspec.Struct):
    directory: str
    start_offset: Offset = Offset(0)
    end_offset: Offset = Offset(0)
    bytes: int = 0
    batches: int = 0
    records: int = 0
    damage: list[DamagedRange] = []
    warnings: list[str] = []


def inspect_log(
    disk: Disk,
    directory: str,
    *,
    is_compacted: bool = False,
    on_batch: Callable[[Sound], None] = lambda _: None,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> LogReport:
    """Read all of it; `on_batch` gets each sound batch, `on_bytes` how much was read since."""
    report = LogReport(directory, damage=[], warnings=[])
    saved = _checkpoint(disk, directory, report)
    epochs = _epochs(disk, directory, report)
    _check_aborted(disk, directory, report)
    _check_replica(disk, directory, report)
    durable = durable_marks(saved, MarkFile(disk, directory).load())[-1] if saved else None
    segments = _segments(disk, directory, durable)
    if not segments:
        return report
    report.start_offset = segments[0].base_offset
    if saved is not None:
        report.start_offset = max(saved.start_offset, report.start_offset)
    gaps_below = max(saved.cleaned_offset, saved.gaps_below) if saved else Offset(0)
    rules = _Rules(is_compacted, gaps_below, epochs)
    inspection = _Inspection(report, rules, durable, on_batch)
    for segment in segments:
        inspection.look_at(segment, is_last=segment is segments[-1])
        on_bytes(segment.size)
        segment.close()
    report.end_offset = inspection.expected
    if durable is not None and report.end_offset < durable.next_offset:
        inspection.note(segments[-1].log.path, segments[-1].size, 0, durable.next_offset)
        report.end_offset = durable.next_offset
    return report


class _Rules:
    def __init__(self, is_compacted: bool, gaps_below: Offset, epochs: LeaderEpochs) -> None:
        self._is_compacted = is_compacted
        self._gaps_below = gaps_below
        self._epochs = epochs

    def may_skip(self, offset: Offset) -> bool:
        return self._is_compacted or offset < self._gaps_below

    def epoch_at(self, offset: Offset) -> Epoch:
        return self._epochs.epoch_of(offset) if self._epochs.entries else NO_EPOCH


class _Inspection:
    def __init__(
        self,
        report: LogReport,
        rules: _Rules,
        durable: SyncedMark | None,
        on_batch: Callable[[Sound], None],
    ) -> None:
        self.expected = Offset(0)
        self._report = report
        self._rules = rules
        self._durable = durable
        self._on_batch = on_batch
        self._newest = NO_TIMESTAMP  # of the last sound batch
        self._open: DamagedRange | None = None  # the sound batch behind it was not seen yet

    def look_at(self, segment: Segment, *, is_last: bool) -> None:
        self._check_indexes(segment)
        self._report.bytes += segment.size
        self.expected = segment.base_offset
        for found in segment.survey(0, segment.base_offset, self._rules):
            if isinstance(found, Sound):
                self._take(found)
            elif is_last and found.end >= segment.size and self._is_behind(segment, found):
                self._report.warnings.append(
                    f"{segment.log.path}: {segment.size - found.position} bytes at the end are no"
                    " whole batch: the server cuts them off when it starts"
                )
            else:
                end = max(found.next_offset, found.first_offset)
                self.note(segment.log.path, found.position, found.end - found.position, end)
                self.expected = end

    def _take(self, found: Sound) -> None:
        header = found.header
        if self._open is not None:
            self._report.damage[-1] = msgspec.structs.replace(
                self._open, before=header.max_timestamp
            )
            self._open = None
        self._newest = header.max_timestamp
        self.expected = header.next_offset
        if header.last_offset >= self._report.start_offset:
            self._report.batches += 1
            self._report.records += header.count
            self._on_batch(found)

    def note(self, path: str, position: int, size: int, next_offset: Offset) -> None:
        """Damage from the offset expected up to `next_offset`; below the start nobody misses it."""
        if next_offset <= self._report.start_offset and next_offset > self.expected:
            return
        self._open = DamagedRange(
            path, position, size, self.expected, next_offset, self._newest, NO_TIMESTAMP
        )
        self._report.damage.append(self._open)

    def _is_behind(self, segment: Segment, damage: Damage) -> bool:
        """Whether these bytes were never synced: they may never have been whole."""
        durable = self._durable
        if durable is None or segment.base_offset < durable.segment:
            return False
        return segment.base_offset > durable.segment or damage.position >= durable.size

    def _check_indexes(self, segment: Segment) -> None:
        for index in (segment.offsets, segment.times):
            try:
                if not index.is_sound(0):
                    raise CorruptData(f"{index.path}: its head is damaged")
                for place in range(index.count):
                    index.entry(place)
            except CorruptData as error:
                self._report.warnings.append(f"{error}: the server rebuilds the index")


def _segments(disk: Disk, directory: str, durable: SyncedMark | None) -> list[Segment]:
    names = [name.removesuffix(LOG) for name in disk.list_directory(directory) if LOG in name]
    bases = sorted(Offset(int(name)) for name in names if name.isdigit())
    sealed = [Segment.open_sealed(disk, directory, base, after) for base, after in pairwise(bases)]
    active = [Segment(disk, directory, base) for base in bases[-1:]]
    for segment in active:
        if durable is not None and durable.segment == segment.base_offset:
            segment.next_offset = durable.next_offset
    return sealed + active


def _checkpoint(disk: Disk, directory: str, report: LogReport) -> Checkpoint | None:
    try:
        return checkpoints.load(disk, directory)
    except CorruptData as error:
        report.warnings.append(f"{error}: the server verifies the whole log when it starts")
        return None


def _check_aborted(disk: Disk, directory: str, report: LogReport) -> None:
    try:
        AbortIndex(disk, directory).between(Offset(0), END)
    except CorruptData as error:
        report.warnings.append(f"{error}: the server rebuilds the abort index")


def _check_replica(disk: Disk, directory: str, report: LogReport) -> None:
    file = ReplicaFile(disk, directory)
    try:
        if file.load() is not None and file.load_watermark() is None:
            raise CorruptData(f"{file.path}: the high watermark is damaged")
    except CorruptData as error:
        report.warnings.append(f"{error}: the server rebuilds it from the checkpoint")


def _epochs(disk: Disk, directory: str, report: LogReport) -> LeaderEpochs:
    try:
        return LeaderEpochs(epoch_file.load(disk, directory))
    except CorruptData as error:
        report.warnings.append(f"{error}: the server rebuilds it")
        return LeaderEpochs([])
