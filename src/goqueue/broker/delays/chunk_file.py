"""Chunks of timers that are far away, in a file beside the partition's timers.

It is a part of the memory of this process: it begins empty, nothing in it is synced, and after a
restart the timers' log has everything.  All chunks have one size, so a place that is free is taken
by the next one, and the file is as large as the most that ever waited.
"""

import contextlib

from goqueue.model.errors import DiskFull, StorageFailed
from goqueue.runtime import Disk


class ChunkFile:
    """See `ChunkStore`."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._file = disk.open(path)
        with contextlib.suppress(DiskFull, StorageFailed):
            if self._file.size:
                self._file.truncate(0)
        self._size = 0  # of a chunk
        self._free: list[int] = []

    def store(self, data: bytes) -> int | None:
        assert self._size in (0, len(data)), "all chunks have one size"
        self._size = len(data)
        try:
            if not self._free:
                return self._file.append(data)
            place = self._free.pop()
            self._file.overwrite(place, data)
            return place
        except (DiskFull, StorageFailed):
            return None  # it stays in memory

    def load(self, place: int) -> bytes:
        data = self._file.read(place, self._size)
        if len(data) != self._size:
            raise StorageFailed(f"{self._file.path}: {len(data)} bytes at {place}")
        return data

    def release(self, place: int) -> None:
        self._free.append(place)

    def close(self) -> None:
        self._file.close()
