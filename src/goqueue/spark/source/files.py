"""A partition's batches straight from the server's files, for jobs on its machine.

    {log_dir}/{topic}/{partition}/{base offset}.log, .index and aborted        see docs/formats.md

Nothing is written or locked.  The server goes on meanwhile: it appends, which is of no concern,
since a range ends at or before the stable offset that the server itself told; it removes old
segments, and puts compacted ones in place of others.  So everything found is held against what it
should be, and where the files do not clearly have the next offset the reader is left to ask the
server: at a gap between segments, at an index that does not fit, at a file that is gone.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from goqueue.client.errors import BadAnswer
from goqueue.client.kafka import Fetched, next_offset
from goqueue.log import OFFSET_INDEX, AbortIndex, SparseIndex
from goqueue.log.segment import LOG, OFFSETS, stem
from goqueue.model.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    BatchHeader,
    Buffer,
    batch_size_at,
    header_in_part,
)
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset
from goqueue.spark.source.plan import OffsetRange
from goqueue.wire.fetch import AbortedTransaction

UNKNOWN: Final = -1


def read_files(
    log_dir: str, wanted: OffsetRange, *, bytes_max: int, read_committed: bool
) -> Iterator[Fetched]:
    """Batches from the range's start on, as far as the files clearly have them."""
    directory = Path(resolve(log_dir)) / wanted.topic / str(wanted.partition)
    try:
        aborted = _read_aborted(directory, wanted) if read_committed else ()
        for records in _batches(directory, wanted, bytes_max):
            yield Fetched(records, aborted, UNKNOWN, UNKNOWN, UNKNOWN)
    except (OSError, GoQueueError, BadAnswer):
        return  # gone, not for us to see, or not as it should be: the server knows


def resolve(log_dir: str) -> str:
    """The folder with the topics; the server's data directory, one above, will do too."""
    inside = Path(log_dir) / "logs"
    return str(inside) if inside.is_dir() else log_dir


def _batches(directory: Path, wanted: OffsetRange, bytes_max: int) -> Iterator[memoryview]:
    """Segment after segment, until one does not begin where the one before ended."""
    offset = wanted.start
    segment = _segment_with(directory, offset)
    while segment is not None and offset < wanted.end:
        with contextlib.closing(_Segment(directory, segment)) as opened:
            position = opened.position_of(offset)
            if position is None:
                return
            while offset < wanted.end:
                records = opened.whole_batches(position, bytes_max)
                if not records:
                    break
                yield records
                position += len(records)
                offset = next_offset(records, offset)
        segment = offset if _has_segment(directory, offset) else None


def _segment_with(directory: Path, offset: int) -> int | None:
    """The base offset of the last segment that begins at or before `offset`."""
    bases = (int(name.removesuffix(LOG)) for name in os.listdir(directory) if name.endswith(LOG))
    return max((base for base in bases if base <= offset), default=None)


def _has_segment(directory: Path, base_offset: int) -> bool:
    return os.path.exists(stem(str(directory), base_offset) + LOG)


def _read_aborted(directory: Path, wanted: OffsetRange) -> tuple[AbortedTransaction, ...]:
    index = AbortIndex(_ReadOnlyDisk(), str(directory))  # type: ignore[arg-type]  # only opens
    with contextlib.closing(index.file):
        found = index.between(Offset(wanted.start), Offset(wanted.end))
    return tuple(AbortedTransaction(each.producer_id, each.first_offset) for each in found)


class _Segment:
    """One segment's files, which stay these even when their names are given to others."""

    def __init__(self, directory: Path, base_offset: int) -> None:
        path = stem(str(directory), base_offset)
        self._base_offset = base_offset
        self._log = ReadOnlyFile(path + LOG)
        self._index = ReadOnlyFile(path + OFFSETS)

    def close(self) -> None:
        self._log.close()
        self._index.close()

    def position_of(self, offset: int) -> int | None:
        """Where the first batch lies that reaches `offset`; None when nothing is certain.

        The index may be that of the segment before a compaction: its entry must fit.
        """
        index = SparseIndex(self._index, OFFSET_INDEX, self._base_offset)
        key, position = index.floor(offset - self._base_offset) or (0, 0)
        header = self._header(position)
        if position and (header is None or header.base_offset != self._base_offset + key):
            return None
        while header is not None and header.last_offset < offset:
            position = header.end
            header = self._header(position)
        return position if header is not None and header.base_offset <= offset else None

    def _header(self, position: int) -> BatchHeader | None:
        head = self._log.read(position, HEADER_BYTES)
        return header_in_part(head, position) if len(head) == HEADER_BYTES else None

    def whole_batches(self, position: int, bytes_max: int) -> memoryview:
        """As many as fit, and at least one if there is a whole one."""
        data = self._log.read(position, bytes_max)
        end = _end_of_whole(data)
        if end == 0 and len(data) >= LENGTH_OVERHEAD:
            size = batch_size_at(data, 0)
            if bytes_max < size <= self._log.size - position:
                data = self._log.read(position, size)
                end = _end_of_whole(data)
        return memoryview(data)[:end]


def _end_of_whole(data: bytes) -> int:
    end = 0
    while len(data) - end >= HEADER_BYTES:
        size = batch_size_at(data, end)
        if not HEADER_BYTES <= size <= len(data) - end:
            break
        end += size
    return end


class ReadOnlyFile:
    """A `File` that nobody can change; one that is missing reads as empty where that is meant."""

    def __init__(self, path: str, *, may_be_missing: bool = False) -> None:
        """Raises `FileNotFoundError`."""
        self.path = path
        try:
            self._handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            if not may_be_missing:
                raise
            self._handle = os.open(os.devnull, os.O_RDONLY)

    @property
    def size(self) -> int:
        return os.fstat(self._handle).st_size

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self._handle, length, position)

    def read_cached(self, position: int, length: int) -> Buffer | None:
        return self.read(position, length)

    def close(self) -> None:
        os.close(self._handle)

    def append(self, data: Buffer) -> int:
        raise AssertionError(f"{self.path} is the server's")

    def overwrite(self, position: int, data: Buffer) -> None:
        raise AssertionError(f"{self.path} is the server's")

    def truncate(self, size: int) -> None:
        raise AssertionError(f"{self.path} is the server's")

    def sync(self) -> None:
        raise AssertionError(f"{self.path} is the server's")


class _ReadOnlyDisk:
    def open(self, path: str) -> ReadOnlyFile:
        return ReadOnlyFile(path, may_be_missing=True)
