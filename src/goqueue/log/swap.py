"""Putting rewritten segments in place of the old ones, safely across a crash and under readers.

    1  {base}.log.cleaned, .index.cleaned, .timeindex.cleaned    written and synced, names too
    2  compaction-swap                       the manifest: what is replaced, what by; synced
    3  {base}.log.cleaned -> {base}.log      and so on, for each new segment
    4  old segments whose names were not taken over are removed; the directory is synced
    5  the checkpoint learns how far the log is cleaned: only below there offsets may be missing
    6  the manifest is removed; the directory is synced

The manifest is the one commit point.  `finish_swap` does steps 3 to 6, each of which may have
been done already: it is what runs after a crash, and also what does the work the first time.
Without a manifest it removes what step 1 left.  Nothing is removed before all new files are seen
to be there, so a device that lost what it said was synced costs an error and no data.  Step 6 is
synced because the next compaction writes files of the same names: an old manifest must not come
back and find those half written.

**Readers.**  A `File` opens itself by its path whenever its handle was given away, and step 3
puts other bytes behind an old path.  So the log serves the new segments *before* any file moves:

- An old `Segment` is marked `gone` and out of `Log.segments` before step 3.  Until then its files
  are intact; what a reader in another thread gets of it afterwards is thrown away and read again.
- A new `Segment` reads through a `MovingFile`, which knows both places: a file that is no longer
  at the first one is at the second, for a rename takes both steps at once.  A reader that was
  held up for long looks whether the first place still counts *after* it has read there.
- When all is in place the new segments are given plain files.
"""

import contextlib
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.log import checkpoint as checkpoints
from goqueue.log import framed
from goqueue.log.segment import LOG, SUFFIXES, Segment, stem
from goqueue.log.sparse_index import OFFSET_INDEX, TIME_INDEX, SparseIndex
from goqueue.model.batch import Buffer
from goqueue.model.errors import CorruptData, DiskFull, OutOfHandles, StorageFailed
from goqueue.model.ids import Offset
from goqueue.runtime import Disk, File

CLEANED: Final = ".cleaned"
MANIFEST: Final = "compaction-swap"
KIND: Final = b"W"
VERSION: Final = 1


class NewSegment(msgspec.Struct, frozen=True, array_like=True):
    base_offset: Offset
    size: int


class Manifest(msgspec.Struct, frozen=True):
    replaced: tuple[Offset, ...]  # base offsets of the old segments
    produced: tuple[NewSegment, ...]
    cleaned_offset: Offset


def announce(
    disk: Disk,
    directory: str,
    *,
    old: Sequence[Segment],
    new: Sequence[Segment],
    cleaned_offset: Offset,
) -> None:
    """Write the manifest: from now on the log is the new one, also after a crash.  Blocking.

    Raises `DiskFull`: then nothing has changed.
    """
    manifest = Manifest(
        tuple(segment.base_offset for segment in old),
        tuple(NewSegment(segment.base_offset, segment.size) for segment in new),
        cleaned_offset,
    )
    path = f"{directory}/{MANIFEST}"
    try:
        framed.store(disk, path, KIND, VERSION, manifest)
    except OutOfHandles:
        raise  # to be tried again
    except DiskFull:
        if disk.exists(path):
            _withdraw(disk, directory)
        raise


def _withdraw(disk: Disk, directory: str) -> None:
    """Make sure that no opening finds the manifest: the files it names will be written again."""
    try:
        disk.remove(f"{directory}/{MANIFEST}")
        disk.sync_directory(directory)
    except DiskFull as error:
        raise StorageFailed(f"{directory}: a compaction is half announced: {error}") from error


def swap(disk: Disk, directory: str, *, old: Sequence[Segment], new: Sequence[Segment]) -> None:
    """Put the files of `new` in place of those of `old`, as announced.  Blocking.

    When it fails, the log serves on as it is.  It may be tried again; what is left to do is done
    at the next opening.
    """
    assert all(segment.gone for segment in old), "readers must have been turned away first"
    finish_swap(disk, directory)
    for segment in new:
        _arrive(segment)
    for segment in old:
        segment.close()


def finish_swap(disk: Disk, directory: str) -> None:
    """Finish what a crash interrupted, or undo it when it was not decided yet.

    Raises `CorruptData` when the manifest or a file it names is not as it was written.
    """
    path = f"{directory}/{MANIFEST}"
    manifest = framed.load(disk, path, KIND, VERSION, Manifest)
    if manifest is not None:
        _carry_out(disk, directory, manifest)
        _note_cleaned(disk, directory, manifest.cleaned_offset)
        disk.remove(path)
        disk.sync_directory(directory)
    remove_cleaned(disk, directory)


def _carry_out(disk: Disk, directory: str, manifest: Manifest) -> None:
    for segment in manifest.produced:
        _check_present(disk, directory, segment)
    for segment in manifest.produced:
        for suffix in SUFFIXES:
            path = stem(directory, segment.base_offset) + suffix
            if disk.exists(path + CLEANED):
                disk.rename(path + CLEANED, path)
    taken_over = {segment.base_offset for segment in manifest.produced}
    for base_offset in manifest.replaced:
        if base_offset not in taken_over:
            for suffix in SUFFIXES:
                disk.remove(stem(directory, base_offset) + suffix)
    disk.sync_directory(directory)


def _note_cleaned(disk: Disk, directory: str, cleaned_offset: Offset) -> None:
    with contextlib.suppress(CorruptData):  # recovery does without it, and tells
        saved = checkpoints.load(disk, directory)
        if saved is not None and saved.cleaned_offset < cleaned_offset:
            cleaned = msgspec.structs.replace(saved, cleaned_offset=cleaned_offset)
            checkpoints.store(disk, directory, cleaned)


def _check_present(disk: Disk, directory: str, segment: NewSegment) -> None:
    path = stem(directory, segment.base_offset) + LOG
    for candidate in (path + CLEANED, path):
        if disk.exists(candidate):
            size = disk.size(candidate)
            break
    else:
        size = -1
    if size != segment.size:
        raise CorruptData(
            f"{directory}/{MANIFEST} puts a file of {segment.size} bytes at {path};"
            f" {'none is there' if size < 0 else f'{size} bytes are there'}"
        )


def remove_cleaned(disk: Disk, directory: str) -> None:
    """Remove what a compaction wrote that came to nothing."""
    for name in disk.list_directory(directory):
        if name.endswith(CLEANED):
            disk.remove(f"{directory}/{name}")


# --- files on the move ---------------------------------------------------------------------------


class MovingFile:
    """A sealed file that will be renamed while others read it."""

    def __init__(self, before: File, after: File) -> None:
        self.after = after
        self._before = before
        self._size = before.size

    @property
    def path(self) -> str:
        return self.after.path

    @property
    def size(self) -> int:
        return self._size

    def read(self, position: int, length: int) -> bytes:
        before = self._before
        data = before.read(position, length)
        if self._was_moved(before, data, position, length):
            return self.after.read(position, length)
        return data

    def read_cached(self, position: int, length: int) -> Buffer | None:
        before = self._before
        data = before.read_cached(position, length)
        if data is not None and self._was_moved(before, data, position, length):
            return self.after.read_cached(position, length)
        return data

    def append(self, data: Buffer) -> int:
        raise AssertionError(f"{self.path} is sealed: {len(data)} bytes to append")

    def overwrite(self, position: int, data: Buffer) -> None:
        raise AssertionError(f"{self.path} is sealed: {len(data)} bytes to write at {position}")

    def truncate(self, size: int) -> None:
        raise AssertionError(f"{self.path} is sealed: to be cut at {size}")

    def sync(self) -> None:
        """Nothing: it was synced before it became one."""

    def close(self) -> None:
        self._before.close()
        self.after.close()

    def arrive(self) -> None:
        """It was renamed.  The first place may be taken by another file from now on."""
        before, self._before = self._before, self.after
        before.close()

    def _was_moved(self, before: File, data: Buffer, position: int, length: int) -> bool:
        """Whether `data` is not this file's: `before` was opened when its place was empty or,
        once it is no longer looked at there, taken by a file of the next compaction.
        """
        if before is not self._before:
            before.close()
            return True
        return len(data) < min(length, self._size - position)


def depart(disk: Disk, directory: str, segment: Segment) -> None:
    """Let `segment`, written beside the old ones, be read there and in its final place."""

    def moving(file: File, suffix: str) -> File:
        return MovingFile(file, disk.open(stem(directory, segment.base_offset) + suffix))

    _use_files(
        segment,
        [moving(file, suffix) for file, suffix in zip(_files(segment), SUFFIXES, strict=True)],
    )


def _arrive(segment: Segment) -> None:
    """All is in place: read through plain files.

    A reader in another thread that still holds a `MovingFile` may go on with it.
    """
    moved = [file for file in _files(segment) if isinstance(file, MovingFile)]
    if not moved:
        return  # it was tried before
    _use_files(segment, [file.after for file in moved])
    for file in moved:
        file.arrive()


def _files(segment: Segment) -> tuple[File, File, File]:
    """In the order of `SUFFIXES`."""
    return segment.log, segment.offsets.file, segment.times.file


def _use_files(segment: Segment, files: Sequence[File]) -> None:
    log, offsets, times = files
    segment.log = log
    segment.offsets = SparseIndex(offsets, OFFSET_INDEX, segment.base_offset)
    segment.times = SparseIndex(times, TIME_INDEX, segment.base_offset)
