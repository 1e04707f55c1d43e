"""The real disk: POSIX files, a bounded number of handles, and threads of its own.

A `RealFile` opens itself when used and may be closed behind its back when more than
`open_files_max` are open.  It keeps its handle while another thread uses it.  One that has bytes
which were not synced goes last, and is synced first: a write error must reach the `sync` that
answers for them.
"""

import asyncio
import contextlib
import errno
import itertools
import os
import shutil
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn, TypeVar

from goqueue.model.errors import DiskFull, OutOfHandles, StorageFailed
from goqueue.runtime.disk_threads import DiskThreads
from goqueue.runtime.environment import Buffer, File
from goqueue.runtime.handles import SpareHandles
from goqueue.runtime.shared_turns import SharedTurns

T = TypeVar("T")

OPEN_FILES_MAX: Final = 4096
THREADS: Final = 8

_EVICTION_LOOK: Final = 64  # how far to look for a handle that may be closed: keeps it O(1)
_EVICTION_STEP: Final = 8
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
# Another file system, one that has no links, or somebody else's file.
_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}
_NO_HANDLE = {errno.EMFILE, errno.ENFILE}


class RealFile:
    __slots__ = (
        "_disk",
        "_failed",
        "_handle",
        "_path",
        "_size",
        "_unsynced",
        "_users",
        "_written",
        "released",
    )

    def __init__(self, disk: "RealDisk", path: str) -> None:
        self._disk = disk
        self._path = path
        self._handle = -1
        self._size = -1
        self._users = 0  # threads inside a system call on the handle; guarded by the disk's lock
        self.released = False  # to be closed when the last of them leaves
        self._unsynced = True  # until synced once: an earlier process may have left bytes in memory
        self._written = False  # through this object, and not synced: keeps its handle
        self._failed: str | None = None  # why nothing more may be written

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        if self._size < 0:
            try:
                found = os.stat(self._path)  # takes no handle
            except FileNotFoundError:
                return 0
            except OSError as error:
                raise StorageFailed(f"looking at {self._path}: {error}") from error
            if not stat.S_ISREG(found.st_mode):
                raise StorageFailed(f"{self._path} is not a file")
            self._size = found.st_size
        return self._size

    def append(self, data: Buffer) -> int:
        self._refuse_if_failed()
        handle = self._disk.acquire(self, create=True)
        position = self._size
        try:
            self._written = True
            _write_all(handle, data, position)
            self._size = position + len(data)
            # After the write: a sync that runs meanwhile may not cover it, and must not say so.
            self._unsynced = self._written = True
            return position
        except OSError as error:
            self._undo_append(handle, position)
            if error.errno in _NO_ROOM:
                raise DiskFull(
                    f"no room to write {len(data)} bytes to {self._path}: free some disk space"
                ) from error
            self._fail(error)
        finally:
            self._disk.leave(self)

    def overwrite(self, position: int, data: Buffer) -> None:
        """The handle need not be kept for it, as for `append`: who wants it durable syncs next."""
        self._refuse_if_failed()
        handle = self._disk.acquire(self, create=True)
        try:
            _write_all(handle, data, position)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise DiskFull(f"no room to write to {self._path}: free some disk space") from error
            self._fail(error)
        else:
            self._size = max(self._size, position + len(data))
            self._unsynced = True
        finally:
            self._disk.leave(self)

    def read(self, position: int, length: int) -> bytes:
        try:
            with self._open() as handle:
                return os.pread(handle, length, position)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise StorageFailed(f"reading {self._path}: {error}") from error

    def read_cached(self, position: int, length: int) -> Buffer | None:
        try:
            handle = self._disk.acquire(self)
        except FileNotFoundError:
            return b""
        try:
            block = bytearray(length)
            got = os.preadv(handle, [block], position, _NOWAIT)
        except OSError:
            return None  # would wait, or the file system cannot tell
        finally:
            self._disk.leave(self)
        if got == length:
            return block
        if position + got < self._size:
            return None  # only a part was in memory
        return memoryview(block)[:got]

    def truncate(self, size: int) -> None:
        with self._open(create=True) as handle:
            try:
                os.ftruncate(handle, size)
            except OSError as error:
                self._fail(error)
            self._unsynced = self._written = True
            self._size = size

    def sync(self) -> None:
        self._refuse_if_failed()
        if not self._unsynced:
            return
        try:
            with self._open() as handle:
                self._unsynced = False
                os.fdatasync(handle)
                self._written = self._unsynced
        except FileNotFoundError:
            return
        except OSError as error:
            # The kernel may have dropped the pages: a later fsync that succeeds proves nothing.
            self._fail(error)

    def close(self) -> None:
        self._disk.release(self)

    # --- handles; called with the disk's lock held -------------------------------------------

    @property
    def is_used(self) -> bool:
        return self._users > 0

    @property
    def may_close(self) -> bool:
        return self._users == 0 and not self._written

    def close_handle(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def sync_handle(self) -> None:
        """Make it one that may be closed.  A failure is kept for who calls `sync`."""
        try:
            os.fdatasync(self._handle)
            self._unsynced = False
        except OSError as error:
            self._failed = str(error)
        self._written = False

    def acquire(self, create: bool) -> int:
        if self._handle < 0:
            with _translating(f"opening {self._path}"):
                self._handle = self._open_handle(create)
            if self._size < 0:
                self._size = os.fstat(self._handle).st_size
        self._users += 1
        self.released = False
        return self._handle

    def leave(self) -> None:
        self._users -= 1

    # --- helpers --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _open(self, create: bool = False) -> Iterator[int]:
        handle = self._disk.acquire(self, create)
        try:
            yield handle
        finally:
            self._disk.leave(self)

    def _open_handle(self, create: bool) -> int:
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        try:
            return self._disk.open_handle(self._path, flags, self._disk.close_some)
        except FileNotFoundError as error:
            if create:
                raise StorageFailed(f"{self._path}: its directory is gone") from error
            raise

    def _undo_append(self, handle: int, size: int) -> None:
        try:
            os.ftruncate(handle, size)
        except OSError as error:
            self._fail(error)

    def _refuse_if_failed(self) -> None:
        if self._failed is not None:
            raise StorageFailed(f"{self._path} failed earlier and is read-only: {self._failed}")

    def _fail(self, error: OSError) -> NoReturn:
        self._failed = str(error)
        raise StorageFailed(f"{self._path}: {error}") from error


class RealDisk:
    """See `environment.Disk`.  Call `close` at the end: it waits for the threads."""

    def __init__(self, *, open_files_max: int = OPEN_FILES_MAX, threads: int = THREADS) -> None:
        self._open_files_max = open_files_max
        self._lock = threading.Lock()
        self._open_files: OrderedDict[RealFile, None] = OrderedDict()  # oldest use first
        self._threads = DiskThreads(threads)
        self._shared_turns = SharedTurns(self._threads)
        self._spares = SpareHandles()

    def open(self, path: str) -> File:
        return RealFile(self, path)

    @property
    def open_files(self) -> int:
        return len(self._open_files)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list_directory(self, path: str) -> Sequence[str]:
        try:
            return sorted(self._with_a_handle(lambda: os.listdir(path)))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise _translate(error, f"listing {path}") from error

    def make_directory(self, path: str) -> None:
        missing = []
        at = path
        while at and not os.path.isdir(at):
            missing.append(at)
            at = os.path.dirname(at)
        with _translating(f"creating {path}"):
            # The last existing one too: who made it may have died before its name was durable.
            if at:
                self.sync_directory(os.path.dirname(at) or ".")
            for directory in reversed(missing):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(directory, 0o750)
                self.sync_directory(os.path.dirname(directory) or ".")

    def read_file(self, path: str) -> bytes | None:
        try:
            with _translating(f"reading {path}"), open(path, "rb", opener=self._opener) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = f"{path}.new"
        with _translating(f"writing {path}"):
            try:
                with open(temporary, "wb", opener=self._opener) as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError:
                self.remove(temporary)  # on a full disk its bytes are wanted
                raise
            os.rename(temporary, path)
            self.sync_directory(os.path.dirname(path))

    def rename(self, source: str, target: str) -> None:
        with _translating(f"renaming {source} to {target}"):
            os.rename(source, target)

    def link(self, source: str, target: str) -> bool:
        try:
            os.link(source, target)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno in _NO_LINK:
                return False
            raise _translate(error, f"linking {source} to {target}") from error
        return True

    def remove(self, path: str) -> None:
        with _translating(f"removing {path}"), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        with _translating(f"removing {path}"), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        with _translating(f"syncing directory {path}"):
            handle = self.open_handle(path or ".", os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def in_background(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return self._threads.run(work)

    def in_shared_turn(self, work: Callable[[], None]) -> asyncio.Future[None]:
        return self._shared_turns.run(work)

    def close(self) -> None:
        self._threads.close()
        with self._lock:
            for file in self._open_files:
                file.close_handle()
            self._open_files.clear()
        self._spares.close()

    def _opener(self, path: str, flags: int) -> int:
        return self.open_handle(path, flags)

    def open_handle(
        self, path: str, flags: int, close_some: Callable[[], int] | None = None
    ) -> int:
        """As `os.open`, with a handle of this disk if the process has no other left."""
        return self._with_a_handle(lambda: os.open(path, flags | os.O_CLOEXEC, 0o640), close_some)

    def _with_a_handle(
        self, work: Callable[[], T], close_some: Callable[[], int] | None = None
    ) -> T:
        self._spares.refill()
        while True:
            try:
                return work()
            except OSError as error:
                if error.errno not in _NO_HANDLE:
                    raise
                closed = self._close_some_locked() if close_some is None else close_some()
                if not closed and not self._spares.give_up_one():
                    raise

    def _close_some_locked(self) -> int:
        with self._lock:
            return self.close_some()

    # --- for RealFile -----------------------------------------------------------------------------

    def acquire(self, file: RealFile, create: bool = False) -> int:
        with self._lock:
            handle = file.acquire(create)
            if file in self._open_files:
                self._open_files.move_to_end(file)
            else:
                self._open_files[file] = None
                if len(self._open_files) > self._open_files_max:
                    self.close_some()
            return handle

    def leave(self, file: RealFile) -> None:
        with self._lock:
            file.leave()
            self._close_released(file)

    def release(self, file: RealFile) -> None:
        """Close the handle once nobody uses it: the number may soon stand for another file."""
        with self._lock:
            file.released = True
            self._close_released(file)

    def _close_released(self, file: RealFile) -> None:
        if file.released and not file.is_used:
            self._open_files.pop(file, None)
            file.close_handle()

    def close_some(self) -> int:
        """Give back the handles used longest ago; how many.  Called with the lock held."""
        oldest = list(itertools.islice(self._open_files, _EVICTION_LOOK))
        chosen = [file for file in oldest if file.may_close][:_EVICTION_STEP]
        if not chosen:
            chosen = [file for file in oldest if not file.is_used][:1]
            for file in chosen:
                file.sync_handle()
        for file in chosen:
            del self._open_files[file]
            file.close_handle()
        return len(chosen)


def _write_all(handle: int, data: Buffer, position: int) -> None:
    written = os.pwrite(handle, data, position)
    if written == len(data):
        return
    rest = memoryview(data)
    while written < len(data):
        count = os.pwrite(handle, rest[written:], position + written)
        if count == 0:
            raise OSError(errno.EIO, "write made no progress")
        written += count


def _translate(error: OSError, doing: str) -> DiskFull | StorageFailed:
    if error.errno in _NO_HANDLE:
        return OutOfHandles(
            f"{doing}: {error.strerror}; try again. Raise `ulimit -n`, or lower"
            " kafka.connections_max and http.connections_max"
        )
    kind = DiskFull if error.errno in _NO_ROOM else StorageFailed
    return kind(f"{doing}: {error.strerror or error}")


@contextlib.contextmanager
def _translating(doing: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _translate(error, doing) from error


_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
