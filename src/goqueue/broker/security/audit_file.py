"""The audit log's file: a JSON object a line; when it is full it is numbered, and the oldest goes.

audit.jsonl      the newest
audit.jsonl.1    before it
audit.jsonl.2    …

Blocking: the disk's threads call it, one at a time.
"""

import contextlib
import itertools

from goqueue.model.errors import GoQueueError
from goqueue.runtime import Disk


class AuditFile:
    def __init__(self, disk: Disk, path: str, *, bytes_max: int, files_max: int) -> None:
        self._disk = disk
        self._path = path
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._is_there = False  # its directory

    def append(self, lines: bytes) -> None:
        """Whole lines, durably."""
        if not self._is_there:
            directory = self._path.rpartition("/")[0]
            if directory:
                self._disk.make_directory(directory)
            self._is_there = True
        if self._disk.exists(self._path) and self._disk.size(self._path) >= self._bytes_max:
            self._rotate()
        file = self._disk.open(self._path)
        try:
            file.append(lines)
            file.sync()
        finally:
            with contextlib.suppress(GoQueueError):
                file.close()

    def _rotate(self) -> None:
        names = [self._path, *(f"{self._path}.{n}" for n in range(1, self._files_max))]
        if self._disk.exists(names[-1]):
            self._disk.remove(names[-1])
        for newer, older in reversed(list(itertools.pairwise(names))):
            if self._disk.exists(newer):
                self._disk.rename(newer, older)
