"""One process a data directory.

An advisory lock on an open file: the kernel drops it when the process ends, however it ends, so
a killed broker never blocks its successor.
"""

import fcntl
import os

from goqueue.model.errors import DataDirectoryInUse


class DirectoryLock:
    def __init__(self, directory: str) -> None:
        """Take the lock or raise `DataDirectoryInUse`."""
        path = os.path.join(directory, "lock")
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(self._handle, 32).decode(errors="replace").strip()
            os.close(self._handle)
            raise DataDirectoryInUse(
                f"another GoQueue process (id {owner or 'unknown'}) uses {directory}: "
                "stop it, or choose another --data-dir"
            ) from None
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        os.close(self._handle)
