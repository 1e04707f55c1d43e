"""One stretch of a log: a `.log` file of batches and its two sparse indexes.

The last segment of a log is active and grows; the others are sealed and only read, replaced by
compaction, or removed.  A sealed segment costs no handle until it is read.

**Finding** a batch starts at an index entry and walks over headers, 61 bytes each, without
reading what they head.  Whatever looks wrong there, be it a header, an offset that does not follow
on, or an index entry, is looked into by a `survey`: it reads every byte, verifies checksums, and
says where damage starts and ends.  So a sound log is found through quickly, and a damaged one is
never skipped over.
"""

import contextlib
import copy
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

import msgspec

from goqueue.log.sparse_index import (
    OFFSET_INDEX,
    SEALED,
    TIME_INDEX,
    MemoryFile,
    SparseIndex,
)
from goqueue.model import batch as batches
from goqueue.model.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.model.errors import (
    CorruptBatch,
    CorruptData,
    DiskFull,
    StorageFailed,
    UnsupportedBatch,
)
from goqueue.model.ids import NO_EPOCH, NO_TIMESTAMP, Epoch, Offset, Timestamp
from goqueue.runtime import Disk

LOG: Final = ".log"
OFFSETS: Final = ".index"
TIMES: Final = ".timeindex"
SUFFIXES: Final = (LOG, OFFSETS, TIMES)

WALK_BYTES: Final = 8192  # one read of a header walk; an index interval fits
SURVEY_BYTES: Final = 1024 * 1024
REBUILT_INTERVAL_BYTES: Final = 4096
RELATIVE_OFFSET_MAX: Final = 2**31 - 1

_MAGIC_AT: Final = 16  # in a batch


def stem(directory: str, base_offset: int) -> str:
    return f"{directory}/{base_offset:020d}"


class SegmentTail(msgspec.Struct, frozen=True):
    """What is known of a segment's content beyond its files' sizes."""

    next_offset: Offset
    size: int
    offset_entries: int
    time_entries: int
    max_timestamp: Timestamp
    max_timestamp_offset: Offset
    first_timestamp: Timestamp
    opened_at: Timestamp = NO_TIMESTAMP
    written_at: Timestamp = NO_TIMESTAMP


def empty_tail(base_offset: Offset) -> SegmentTail:
    return SegmentTail(base_offset, 0, 0, 0, NO_TIMESTAMP, base_offset, NO_TIMESTAMP)


class Rules(Protocol):
    """What is known of a log's batches besides: their checksums leave out offset and epoch."""

    def may_skip(self, offset: Offset) -> bool:
        """Whether compaction may have removed the batch at this offset."""

    def epoch_at(self, offset: Offset) -> Epoch:
        """The epoch in which it was written; `NO_EPOCH` when that is not known."""


class Sound(NamedTuple):
    position: int
    header: BatchHeader  # its position is the one in `data`
    data: bytes


class Damage(NamedTuple):
    """A stretch without a sound batch."""

    position: int
    end: int
    first_offset: Offset
    next_offset: Offset  # from here on there is something to read again


class DamageFound(CorruptData):
    def __init__(self, path: str, damage: Damage) -> None:
        self.damage = damage
        super().__init__(
            f"{path}: damaged batch at position {damage.position}, offsets {damage.first_offset}"
            f" to {damage.next_offset - 1} cannot be read; continue at offset {damage.next_offset}"
        )


class Segment:
    __slots__ = (
        "_noted_timestamp",
        "_unindexed_bytes",
        "base_offset",
        "first_timestamp",
        "gone",
        "has_state",
        "log",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "offsets",
        "opened_at",
        "sealed",
        "seen_at",
        "times",
        "written_at",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: Offset, suffix: str = "") -> None:
        path = stem(directory, base_offset)
        self.base_offset = base_offset
        self.gone = False  # removed or replaced: what a reader in another thread got may be stale
        self.log = disk.open(path + LOG + suffix)
        self.offsets = SparseIndex(disk.open(path + OFFSETS + suffix), OFFSET_INDEX, base_offset)
        self.times = SparseIndex(disk.open(path + TIMES + suffix), TIME_INDEX, base_offset)
        self._forget()

    @classmethod
    def open_sealed(
        cls, disk: Disk, directory: str, base_offset: Offset, next_offset: Offset
    ) -> "Segment":
        """A sealed one, as it was left by an earlier process."""
        segment = cls(disk, directory, base_offset)
        segment.next_offset = next_offset
        segment.sealed = True
        segment.has_state = False
        return segment

    def _forget(self) -> None:
        self.sealed = False
        self.has_state = True  # timestamps are known; otherwise the time index is to be asked
        self.next_offset = self.base_offset
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self.first_timestamp = NO_TIMESTAMP  # of the first batch
        self.opened_at = NO_TIMESTAMP  # when the first batch was written, if that is known
        self.seen_at = NO_TIMESTAMP  # when retention first looked at it, without knowing its age
        self.written_at = NO_TIMESTAMP  # when the last batch was, if that is known
        self._unindexed_bytes = 0
        self._noted_timestamp = NO_TIMESTAMP  # in the time index; it may have a larger one

    @property
    def size(self) -> int:
        return self.log.size

    # --- writing ---------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the file: an empty segment, too, tells where its log ends.

        A log that was cut may have had one of this name, whose indexes a crash left.
        """
        self.offsets.cut(0)
        self.times.cut(0)
        self.log.truncate(0)

    def append(self, data: Buffer) -> int:
        """Append whole batches, stamped already; all or nothing.  Gives their position."""
        return self.log.append(data)

    def note(
        self,
        *,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        size: int,
        position: int,
        interval_bytes: int,
    ) -> None:
        """Take a batch that lies at `position` into the segment's state and its indexes."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = Timestamp(max_timestamp)
            self.max_timestamp_offset = Offset(last_offset)
        if self.first_timestamp < 0:
            self.first_timestamp = Timestamp(max_timestamp)
        self.next_offset = Offset(last_offset + 1)
        self._unindexed_bytes += size
        if self._unindexed_bytes >= interval_bytes or position == 0:
            self._unindexed_bytes = 0
            # A sparse index may miss an entry; the log itself has the bytes already.
            with contextlib.suppress(DiskFull, StorageFailed):
                self.offsets.append(base_offset - self.base_offset, position)
                self._note_time()

    def note_header(self, header: BatchHeader, position: int, interval_bytes: int) -> None:
        """As `note`, of a batch that has its offsets and timestamps already."""
        self.note(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            # What compaction emptied has no record with that time.
            max_timestamp=header.max_timestamp if header.count else NO_TIMESTAMP,
            size=header.size,
            position=position,
            interval_bytes=interval_bytes,
        )

    def _note_time(self) -> None:
        if self.max_timestamp > self._noted_timestamp:
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            self._noted_timestamp = self.max_timestamp

    def seal(self) -> None:
        """Write down what a reader of a sealed segment needs.  Raises `DiskFull`.

        Records without a timestamp count as old as their last one was appended.
        """
        self._note_time()
        is_timed = self.max_timestamp >= 0
        self.times.append(self.max_timestamp if is_timed else self.written_at, SEALED)
        self.sealed = True

    def tail(self) -> SegmentTail:
        return SegmentTail(
            self.next_offset,
            self.size,
            self.offsets.count,
            self.times.count,
            self.max_timestamp,
            self.max_timestamp_offset,
            self.first_timestamp,
            self.opened_at,
            self.written_at,
        )

    def restore(self, tail: SegmentTail) -> None:
        self.next_offset = tail.next_offset
        self.max_timestamp = tail.max_timestamp
        self.max_timestamp_offset = tail.max_timestamp_offset
        self.first_timestamp = tail.first_timestamp
        self.opened_at = tail.opened_at
        self.written_at = tail.written_at
        self._unindexed_bytes = 0
        self.has_state = True
        self.sealed = False

    def age_from(self, now: Timestamp) -> Timestamp:
        """The time that retention counts from; when it is not known, `now`, and from now on."""
        if self.knows_age:
            return self.max_timestamp if self.max_timestamp >= 0 else self.written_at
        if self.seen_at < 0:
            self.seen_at = now
        return self.seen_at

    @property
    def knows_age(self) -> bool:
        """Whether its records have timestamps, or it is known when they were appended."""
        return self.newest() >= 0 or self.written_at >= 0

    def newest(self) -> Timestamp:
        """The largest timestamp in the segment; a sealed one asks its time index, once."""
        if not self.has_state:
            try:
                self._load_state()
            except CorruptData:
                self._rebuild_indexes()
        return self.max_timestamp

    def _load_state(self) -> None:
        count = self.times.count
        last = self.times.entry(count - 1) if count else None
        if last is None or last[1] != SEALED:
            raise CorruptData(f"{self.times.file.path}: its last entries are missing")
        if count > 1:
            self.max_timestamp_offset = Offset(self.base_offset + self.times.entry(count - 2)[1])
        self.max_timestamp = Timestamp(last[0])
        self.has_state = True

    def clear_indexes(self) -> None:
        self.offsets.cut(0)
        self.times.cut(0)
        self._forget()

    def sync(self) -> None:
        self.log.sync()

    def sync_indexes(self) -> None:
        self.offsets.file.sync()
        self.times.file.sync()

    def close(self) -> None:
        for file in (self.log, self.offsets.file, self.times.file):
            file.close()

    def remove(self, disk: Disk) -> None:
        self.gone = True
        self.close()
        for file in (self.log, self.offsets.file, self.times.file):
            disk.remove(file.path)

    # --- finding ---------------------------------------------------------------------------------

    def position_of(self, offset: Offset, rules: Rules, *, careful: bool = True) -> int | None:
        """Position of the batch that holds `offset`, or of the first one after it.

        Gives the file's size when there is none.  Raises `DamageFound` when `offset` cannot be
        read.  Without `careful`, gives None when that would take a closer look.
        """
        try:
            start, expected = self._floor(offset)
        except CorruptData:
            if not careful:
                return None
            self._rebuild_indexes()
            start, expected = self._floor(offset)
        position = self._walk(offset, start, expected, rules)
        if position is None and careful:
            return self.surveyed_position(offset, rules)
        return position

    def surveyed_position(self, offset: Offset, rules: Rules) -> int:
        """As `position_of`, believing nothing."""
        start, expected = self._sound_floor(offset, rules)
        for found in self.survey(start, expected, rules):
            if isinstance(found, Damage):
                if offset < found.next_offset:
                    raise DamageFound(self.log.path, found)
            elif found.header.last_offset >= offset:
                return found.position
        return self.size

    def _sound_floor(self, offset: Offset, rules: Rules) -> tuple[int, Offset]:
        """As `_floor`, and a sound batch is there."""
        with contextlib.suppress(CorruptData):
            start, expected = self._floor(offset)
            data = self._read_batches(start)
            if start == 0 or self._sound(data, 0, expected, rules) is not None:
                return start, expected
        self._rebuild_indexes()
        return self._floor(offset)

    def place_before_time(self, timestamp: Timestamp) -> tuple[int, Offset]:
        """Position and offset of a batch before which every record is older than `timestamp`."""
        try:
            entry = self.times.floor(timestamp - 1)
            if entry is None or entry[1] == SEALED:
                return self._floor(self.base_offset)
            return self._floor(Offset(self.base_offset + entry[1]))
        except CorruptData:
            self._rebuild_indexes()
            return 0, self.base_offset

    def survey(
        self, position: int, expected: Offset, rules: Rules | None, limit: Offset | None = None
    ) -> Iterator[Sound | Damage]:
        """What lies from `position` on, where a batch with offset `expected` should be.

        Stops before `limit`: what another thread appends meanwhile lies behind it.
        """
        size = self.size
        while position < size and (limit is None or expected < limit):
            data = self._read_batches(position)
            at = 0
            while (header := self._sound(data, at, expected, rules)) is not None:
                yield Sound(position + at, header, data)
                at, expected = header.end, header.next_offset
                if limit is not None and expected >= limit:
                    return
            if at == 0:
                damage = self.damage_at(position, expected, rules)
                yield damage
                position, expected = damage.end, damage.next_offset
            position += at
        if self.sealed and expected < self.next_offset and not _may_skip(rules, expected):
            yield Damage(position, position, expected, self.next_offset)

    def _floor(self, offset: Offset) -> tuple[int, Offset]:
        """Position and offset of a batch at or before `offset`, as the index has it."""
        if self.offsets.count == 0 and self.size > 0:
            raise CorruptData(f"{self.offsets.file.path}: it is empty, the segment is not")
        entry = self.offsets.floor(offset - self.base_offset)
        if entry is None:
            return 0, self.base_offset
        return entry[1], Offset(self.base_offset + entry[0])

    def _walk(self, offset: Offset, position: int, expected: Offset, rules: Rules) -> int | None:
        """Where the batch with `offset` starts; None when something on the way looks wrong."""
        block, block_at = b"", position
        while position < self.size:
            at = position - block_at
            if at + HEADER_BYTES > len(block):
                block, block_at, at = self.log.read(position, WALK_BYTES), position, 0
            header = self._plausible(block, at, position, expected, rules)
            if header is None:
                return None
            if header.last_offset >= offset:
                return position if header.base_offset <= offset else None
            position, expected = header.end, header.next_offset
        return None

    def _plausible(
        self, block: bytes, at: int, position: int, expected: Offset, rules: Rules | None
    ) -> BatchHeader | None:
        """The header at `at`, if it may be the one of the batch that follows on here."""
        head = block[at : at + HEADER_BYTES]
        try:
            header = batches.header_in_part(head, position)
        except (CorruptBatch, UnsupportedBatch):
            return None
        return header if header.end <= self.size and self.fits(header, expected, rules) else None

    def fits(self, header: BatchHeader, expected: Offset, rules: Rules | None) -> bool:
        """Whether a batch with this offset and epoch may follow where `expected` should be."""
        skips = header.base_offset > expected and _may_skip(rules, expected)
        if header.base_offset != expected and not skips:
            return False
        if self.sealed and header.next_offset > self.next_offset:
            return False
        epoch = NO_EPOCH if rules is None else rules.epoch_at(header.base_offset)
        return epoch in (NO_EPOCH, header.leader_epoch)

    def _sound(
        self, data: bytes, at: int, expected: Offset, rules: Rules | None
    ) -> BatchHeader | None:
        try:
            header = batches.verified_header_at(data, at)
        except (CorruptBatch, UnsupportedBatch):
            return None
        return header if self.fits(header, expected, rules) else None

    def _read_batches(self, position: int) -> bytes:
        """A stretch of the file that holds at least one whole batch, if one is there."""
        data = self.log.read(position, SURVEY_BYTES)
        if len(data) >= HEADER_BYTES:
            size = batches.batch_size_at(data, 0)
            if len(data) < size <= self.size - position:
                data = self.log.read(position, size)
        return data

    # --- damage ----------------------------------------------------------------------------------

    def damage_at(
        self,
        position: int,
        expected: Offset,
        rules: Rules | None,
        anchor: tuple[int, Offset] | None = None,
    ) -> Damage:
        """How far the damage at `position` goes.

        To where the damaged batch says it ends, if what lies there follows on; else to the next
        place from which sound batches reach the next index entry.  Bytes that only look like a
        batch, since they are a message, do not.

        `anchor` is a place behind the damage that is better known than the index: a position
        where a batch ends, and the offset that follows there.
        """
        end, end_offset = anchor or self._next_entry(position)
        window = self.log.read(position, end - position)
        for at in _candidates(window):
            header = _header_in(window, at)
            if header is not None and header.base_offset >= expected:
                reached = self._find_reached(window, at, header.base_offset, rules)
                if reached is not None and (
                    anchor is None or reached == end_offset or _may_skip(rules, reached)
                ):
                    return Damage(position, position + at, expected, header.base_offset)
        return Damage(position, end, expected, end_offset)

    def _find_reached(
        self, window: bytes, at: int, expected: Offset, rules: Rules | None
    ) -> Offset | None:
        """The offset behind the window, if sound batches lie from `at` to its very end."""
        while at < len(window):
            header = self._sound(window, at, expected, rules)
            if header is None:
                return None
            at, expected = header.end, header.next_offset
        return expected

    def _next_entry(self, position: int) -> tuple[int, Offset]:
        """Position and offset of the first index entry behind `position`; else the end."""
        with contextlib.suppress(CorruptData):
            low, high = 0, self.offsets.count
            while low < high:
                middle = (low + high) // 2
                if self.offsets.entry(middle)[1] <= position:
                    low = middle + 1
                else:
                    high = middle
            if low < self.offsets.count:
                key, found = self.offsets.entry(low)
                if found < self.size:
                    return found, Offset(self.base_offset + key)
        return self.size, self.next_offset

    def _rebuild_indexes(self) -> None:
        """Make both indexes from the batches.  They stay in memory, for this process."""
        fresh = copy.copy(self)
        fresh.offsets = SparseIndex(MemoryFile(self.offsets.path), OFFSET_INDEX, self.base_offset)
        fresh.times = SparseIndex(MemoryFile(self.times.path), TIME_INDEX, self.base_offset)
        fresh._forget()
        for found in self.survey(0, self.base_offset, None):
            if isinstance(found, Sound):
                fresh.note_header(found.header, found.position, REBUILT_INTERVAL_BYTES)
        if fresh.offsets.count == 0:
            fresh.offsets.append(0, 0)  # nothing is sound; an index without entries is missing
        if self.sealed:
            fresh.seal()
        self.offsets, self.times = fresh.offsets, fresh.times
        if not self.has_state:
            self.max_timestamp = fresh.max_timestamp
            self.max_timestamp_offset = fresh.max_timestamp_offset
            self.has_state = True


def _candidates(window: bytes) -> Iterator[int]:
    """Where a batch may start behind the damaged one at 0: first where that one says it ends."""
    if len(window) >= HEADER_BYTES:
        yield batches.batch_size_at(window, 0)
    magic_at = window.find(batches.MAGIC, _MAGIC_AT + 1)
    while magic_at >= 0:
        yield magic_at - _MAGIC_AT
        magic_at = window.find(batches.MAGIC, magic_at + 1)


def _header_in(window: bytes, at: int) -> BatchHeader | None:
    if not 0 < at < len(window):
        return None
    try:
        return batches.header_at(window, at)
    except (CorruptBatch, UnsupportedBatch):
        return None


def _may_skip(rules: Rules | None, offset: Offset) -> bool:
    return rules is None or rules.may_skip(offset)
