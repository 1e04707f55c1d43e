"""A disk in memory that fails the way disks do.

`SimDisk` is a `Disk` over a `Device`, which knows what would survive power loss.  It can be used
with no event loop at all; only `in_background` needs one.

**Power loss and kill.**  `crash(seed)` gives the disk that the machine would find after losing
its power now; the disk itself stays as it is, so many fates can be drawn from one moment.
`kill()` gives the disk as the next process finds it: everything written is there, synced or not.

**Dying in the middle.**  Every operation that changes something is counted in `operations`.
`crash_at(n)` makes the machine die before, in the middle of, or after the n-th: it raises
`SimCrash`, which is no `Exception`, so that no handler for errors catches it; and so does every
later operation, so that no `finally` block writes on.  A `SimLoop` that runs is halted.

**Faults.**  A full disk, failing appends, reads and syncs, bits that flip, slow syncs.

**Background work** takes time before it runs and after.  What is appended while a `sync` is under
way may be covered by it or not, and a crash can come after its effect and before its answer.
"""

import asyncio
import contextlib
import enum
import errno
import fnmatch
import posixpath
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NoReturn, TypeVar

from goqueue.model.errors import DiskFull, StorageFailed
from goqueue.testing.sim.device import ROOM_BYTES, Buffer, Device, Directory, Node, split
from goqueue.testing.sim.loop import SimCrash, SimLoop

T = TypeVar("T")

LATENCY_S: Final = (0.000_05, 0.005)
COLD_READS: Final = 0.1  # how often `read_cached` finds nothing in memory

_DIRECTORY_SIZE: Final = 4096  # what a stat of a directory says

FaultKind = Literal["append", "read", "sync"]


class Moment(enum.Enum):
    BEFORE = "before"
    MIDDLE = "in the middle of"
    AFTER = "after"


class Fault:
    """One kind of failure, of the paths that match a pattern."""

    def __init__(
        self, kind: FaultKind, pattern: str, times: int | None, probability: float
    ) -> None:
        self.kind = kind
        self.pattern = pattern
        self.times = times  # how often it still strikes; None: for ever
        self.probability = probability

    def strikes(self, kind: FaultKind, path: str, randomness: random.Random) -> bool:
        if self.kind != kind or self.times == 0 or not fnmatch.fnmatchcase(path, self.pattern):
            return False
        if randomness.random() >= self.probability:
            return False
        if self.times is not None:
            self.times -= 1
        return True


class SimFile:
    """See `environment.File`.  The first write creates it; it remembers its size."""

    def __init__(self, disk: "SimDisk", path: str) -> None:
        self._disk = disk
        self._path = path
        self._node: Node | None = None
        self._size = -1
        self._unsynced = True  # until synced once: an earlier process may have left bytes unsynced
        self._failed: str | None = None  # why nothing more may be written

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        if self._size < 0:
            with contextlib.suppress(FileNotFoundError):
                self._open()
        return max(0, self._size)

    def append(self, data: Buffer) -> int:
        self._refuse_if_failed()
        node = self._open(create=True)
        position = self._size
        assert position == len(node.content), (
            f"{self._path} has {len(node.content)} bytes, this writer knows of {position}: "
            "two write to one file, or it was replaced under its writer"
        )
        self._unsynced = True
        try:
            self._disk.write(node, data, self._path)
        except OSError as error:
            self._fail(error)
        self._size = position + len(data)
        return position

    def read(self, position: int, length: int) -> bytes:
        try:
            node = self._open()
            self._disk.strike("read", self._path)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise StorageFailed(f"reading {self._path}: {error}") from error
        with memoryview(node.content) as content:
            return bytes(content[position : position + length])

    def read_cached(self, position: int, length: int) -> Buffer | None:
        if self._disk.is_cold():
            return None
        return self.read(position, length)

    def overwrite(self, position: int, data: Buffer) -> None:
        self._refuse_if_failed()
        node = self._open(create=True)
        assert position <= self._size, f"{self._path}: a hole before {position}"
        self._unsynced = True
        try:
            self._disk.overwrite(node, position, data, self._path)
        except OSError as error:
            self._fail(error)
        self._size = max(self._size, position + len(data))

    def truncate(self, size: int) -> None:
        node = self._open(create=True)
        self._disk.cut(node, size, self._path)
        self._unsynced = True
        self._size = size

    def sync(self) -> None:
        self._refuse_if_failed()
        if not self._unsynced:
            return
        try:
            node = self._open()
        except FileNotFoundError:
            return
        self._unsynced = False
        try:
            self._disk.sync(node, self._path)
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        self._node = None

    def _open(self, *, create: bool = False) -> Node:
        self._disk.refuse_if_dead()
        if self._node is None:
            try:
                with _translating(f"opening {self._path}"):
                    self._node = self._disk.open_node(self._path, create=create)
            except FileNotFoundError as error:
                if create:
                    raise StorageFailed(f"{self._path}: its directory is gone") from error
                raise
            if self._size < 0:
                self._size = len(self._node.content)
        return self._node

    def _refuse_if_failed(self) -> None:
        if self._failed is not None:
            raise StorageFailed(f"{self._path} failed earlier and is read-only: {self._failed}")

    def _fail(self, error: OSError) -> NoReturn:
        self._failed = str(error)
        raise StorageFailed(f"{self._path}: {error}") from error


class SimDisk:
    """See `environment.Disk`."""

    def __init__(
        self,
        seed: int | str = 0,
        *,
        device: Device | None = None,
        latency_s: tuple[float, float] = LATENCY_S,
        cold_reads: float = COLD_READS,
    ) -> None:
        self.on_crash: Callable[[SimCrash], None] = halt_running_loop
        self._seed = seed
        self._device = device or Device()
        self._latency_s = latency_s
        self._sync_latency_s = (0.0, 0.0)
        self._cold_reads = cold_reads
        self._random = random.Random(f"{seed}/disk")
        self._operations = 0
        self._crash_at: tuple[int, Moment | None] = (0, None)
        self._dead: str | None = None  # how it died
        self._dying = ""
        self._successors = 0
        self._faults: list[Fault] = []
        self._watchers: list[Callable[[int, str, str], object]] = []
        self._partial_writes = False
        self._owed_s = 0.0  # how long the syncs of the present background work take

    # --- the interface ------------------------------------------------------------------------

    def open(self, path: str) -> SimFile:
        return SimFile(self, path)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def size(self, path: str) -> int:
        self.refuse_if_dead()
        found = self._device.find(path)
        return len(found.content) if isinstance(found, Node) else _DIRECTORY_SIZE

    def list_directory(self, path: str) -> Sequence[str]:
        found = self._find(path)
        return sorted(found.entries) if isinstance(found, Directory) else ()

    def make_directory(self, path: str) -> None:
        with _translating(f"creating {path}"):
            names = split(path)
            found = len(names)
            while not isinstance(self._find("/".join(names[:found])), Directory):
                found -= 1
            if found:  # the last existing one may be as new, and its maker dead
                self.sync_directory("/".join(names[: found - 1]))
            for count in range(found + 1, len(names) + 1):
                self._make_one_directory("/".join(names[:count]))
                self.sync_directory("/".join(names[: count - 1]))

    def read_file(self, path: str) -> bytes | None:
        self.refuse_if_dead()
        try:
            with _translating(f"reading {path}"):
                return bytes(self._device.file(path).content)
        except FileNotFoundError:
            return None

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = f"{path}.new"
        with _translating(f"writing {path}"):
            node = self.open_node(temporary, create=True)
            if node.content:
                self.cut(node, 0, temporary)
            self.write(node, data, temporary)
            self.sync(node, temporary)
            self._rename(temporary, path)
            self.sync_directory(posixpath.dirname(path))

    def rename(self, source: str, target: str) -> None:
        with _translating(f"renaming {source} to {target}"):
            self._rename(source, target)

    def link(self, source: str, target: str) -> bool:
        return False  # as on a file system that has none: whoever wants one copies

    def remove(self, path: str) -> None:
        with _translating(f"removing {path}"), contextlib.suppress(FileNotFoundError):
            self._remove(path)

    def remove_tree(self, path: str) -> None:
        with _translating(f"removing {path}"), contextlib.suppress(FileNotFoundError):
            self._remove_tree(path)

    def sync_directory(self, path: str) -> None:
        with _translating(f"syncing directory {path}"):
            directory = self._device.directory(path)
            moment = self._begin("sync_directory", path)
            self.strike("sync", path)
            if moment is not Moment.MIDDLE:  # in its middle: the crash decides what got there
                self._device.sync_directory(directory)
            self._end(moment)

    def free_bytes(self, path: str) -> int:
        self.refuse_if_dead()
        self._device.find(path)
        return max(0, self._device.room_bytes)

    def in_background(self, work: Callable[[], T]) -> asyncio.Future[T]:
        self.refuse_if_dead()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        loop.call_later(self._latency(), self._work, work, future)
        return future

    def in_shared_turn(self, work: Callable[[], None]) -> asyncio.Future[None]:
        return self.in_background(work)

    def close(self) -> None:
        """Nothing to give back."""

    # --- power loss and kill ------------------------------------------------------------------

    @property
    def operations(self) -> int:
        """How many operations changed something, or tried to, since this disk was made."""
        return self._operations

    @property
    def dead(self) -> bool:
        return self._dead is not None

    def crash(
        self, seed: int | str | None = None, *, in_order: bool = False, holes: bool = False
    ) -> "SimDisk":
        """The disk as it would be found if the power went now; this one is left as it is.

        `in_order`: changes reached the device in the order in which they were made, across files.
        `holes`: pages that were not synced reached it in any order, with zeros between them.
        """
        fate = self._next_seed() if seed is None else f"{self._seed}/crash {seed}"
        device = self._device.after_power_loss(fate, in_order=in_order, holes=holes)
        return self._successor(fate, device)

    def kill(self) -> "SimDisk":
        """The disk as the next process finds it; this one is dead from now on."""
        self._dead = self._dead or "the process was killed"
        device, self._device = self._device, Device()
        return self._successor(self._next_seed(), device)

    def crash_at(self, operation: int, moment: Moment | None = None) -> None:
        """Die at the n-th operation, counted from 1; where in it is random unless told."""
        assert operation > self._operations, f"operation {operation} is over"
        self._crash_at = (operation, moment)

    def die(self, how: str) -> NoReturn:
        """The machine stops here: raises `SimCrash`, as does everything done with it later."""
        self._dead = how
        crash = SimCrash(how)
        self.on_crash(crash)
        raise crash

    def watch(self, watcher: Callable[[int, str, str], object]) -> None:
        """Call `watcher(number, operation, path)` before every operation that changes something.

        It may call `crash`, so that one run can be looked at from each of its moments.
        """
        self._watchers.append(watcher)

    # --- faults -------------------------------------------------------------------------------

    def fill_up(self, bytes_free: int = 0, *, partial_writes: bool = False) -> None:
        """Leave this much room.  `partial_writes`: what fits is written, then cut off again."""
        self._device.room_bytes = bytes_free
        self._partial_writes = partial_writes

    def make_room(self) -> None:
        self._device.room_bytes = ROOM_BYTES

    def fail_append(
        self, pattern: str = "*", *, times: int | None = 1, probability: float = 1.0
    ) -> None:
        self._faults.append(Fault("append", pattern, times, probability))

    def fail_read(
        self, pattern: str = "*", *, times: int | None = 1, probability: float = 1.0
    ) -> None:
        self._faults.append(Fault("read", pattern, times, probability))

    def fail_sync(
        self, pattern: str = "*", *, times: int | None = 1, probability: float = 1.0
    ) -> None:
        """Fail, and forget what was not synced: it still shows, and no later sync saves it."""
        self._faults.append(Fault("sync", pattern, times, probability))

    def forget_faults(self) -> None:
        """Whatever was to fail works again."""
        self._faults.clear()

    def flip_bit(self, path: str, position: int, bit: int | None = None) -> None:
        flipped = self._random.randrange(8) if bit is None else bit
        self._device.file(path).content[position] ^= 1 << flipped

    def slow_syncs(self, low_s: float, high_s: float) -> None:
        """From now on, background work takes this much longer for each sync in it."""
        self._sync_latency_s = (low_s, high_s)

    # --- for SimFile --------------------------------------------------------------------------

    def refuse_if_dead(self) -> None:
        if self._dead is not None:
            raise SimCrash(self._dead)

    def open_node(self, path: str, *, create: bool) -> Node:
        directory, name = self._device.place(path)
        if create and name not in directory.entries:
            moment = self._begin("create", path)
            self._device.link(path, Node(bytearray()))
            self._end(moment)
        return self._device.file(path)

    def write(self, node: Node, data: Buffer, path: str) -> None:
        moment = self._begin("append", path)
        if moment is Moment.MIDDLE:
            self._device.append(node, data[: self._random.randint(0, len(data))])
            self._end(moment)
        self.strike("append", path)
        if len(data) > self._device.room_bytes:
            self._refuse_for_room(node, data, path)
        self._device.append(node, data)
        self._end(moment)

    def overwrite(self, node: Node, position: int, data: Buffer, path: str) -> None:
        inside = len(node.content) - position
        if inside > 0:
            moment = self._begin("overwrite", path)
            self.strike("append", path)
            self._device.overwrite(node, position, data[:inside])
            self._end(moment)
        if len(data) > inside:
            self.write(node, data[inside:], path)

    def cut(self, node: Node, size: int, path: str) -> None:
        moment = self._begin("truncate", path)
        self._device.truncate(node, size)
        self._end(moment)

    def sync(self, node: Node, path: str) -> None:
        moment = self._begin("sync", path)
        self._owed_s += self._random.uniform(*self._sync_latency_s)
        try:
            self.strike("sync", path)
        except OSError:
            node.lose_changes()
            raise
        if moment is not Moment.MIDDLE:  # in its middle: the crash decides what got there
            node.sync()
        self._end(moment)

    def strike(self, kind: FaultKind, path: str) -> None:
        for fault in self._faults:
            if fault.strikes(kind, path, self._random):
                raise OSError(errno.EIO, f"Input/output error in {kind}", path)

    def is_cold(self) -> bool:
        return self._random.random() < self._cold_reads

    # --- operations ---------------------------------------------------------------------------

    def _begin(self, operation: str, path: str) -> Moment | None:
        """Count an operation; says where in it the machine dies, if it does and is not dead yet."""
        self.refuse_if_dead()
        self._operations += 1
        for watcher in self._watchers:
            watcher(self._operations, operation, path)
        if self._operations != self._crash_at[0]:
            return None
        moment = self._crash_at[1] or self._random.choice(list(Moment))
        self._dying = f"died {moment.value} operation {self._operations}: {operation} {path}"
        if moment is Moment.BEFORE:
            self.die(self._dying)
        return moment

    def _end(self, moment: Moment | None) -> None:
        if moment is not None:
            self.die(self._dying)

    def _make_one_directory(self, path: str) -> None:
        if isinstance(self._find(path), Node):
            return  # the real one is as silent here; what stands on it fails
        self._device.place(path)
        moment = self._begin("make_directory", path)
        self._device.link(path, Directory())
        self._end(moment)

    def _rename(self, source: str, target: str) -> None:
        moment = self._begin("rename", source)
        self._device.rename(source, target)
        self._end(moment)

    def _remove(self, path: str) -> None:
        self.refuse_if_dead()
        self._device.file(path)
        moment = self._begin("remove", path)
        self._device.unlink(path)
        self._end(moment)

    def _remove_tree(self, path: str) -> None:
        self.refuse_if_dead()
        for name, node in list(self._device.directory(path).entries.items()):
            if isinstance(node, Directory):
                self._remove_tree(f"{path}/{name}")
            else:
                self._remove(f"{path}/{name}")
        moment = self._begin("remove_directory", path)
        self._device.remove_directory(path)
        self._end(moment)

    def _refuse_for_room(self, node: Node, data: Buffer, path: str) -> NoReturn:
        size = len(node.content)
        if self._partial_writes and self._device.room_bytes > 0:
            self._device.append(node, data[: self._device.room_bytes])
            self._device.truncate(node, size)
        raise DiskFull(f"no room to write {len(data)} bytes to {path}: free some disk space")

    def _find(self, path: str) -> Node | Directory | None:
        self.refuse_if_dead()
        try:
            return self._device.find(path)
        except OSError:
            return None

    # --- background work ----------------------------------------------------------------------

    def _latency(self) -> float:
        return self._random.choice((0.0, self._random.uniform(*self._latency_s)))

    def _work(self, work: Callable[[], T], future: asyncio.Future[T]) -> None:
        if self._dead is not None:
            return
        if future.cancelled() and self._random.random() < 0.5:
            return  # it was still waiting for a thread
        self._owed_s = 0.0
        loop = asyncio.get_running_loop()
        try:
            result = work()
        except (Exception, SimCrash) as error:
            loop.call_later(self._latency() + self._owed_s, _settle, future, None, error)
        else:
            loop.call_later(self._latency() + self._owed_s, _settle, future, result, None)

    # --- successors ---------------------------------------------------------------------------

    def _next_seed(self) -> str:
        self._successors += 1
        return f"{self._seed}/{self._successors}"

    def _successor(self, seed: str, device: Device) -> "SimDisk":
        successor = SimDisk(
            seed, device=device, latency_s=self._latency_s, cold_reads=self._cold_reads
        )
        successor.on_crash = self.on_crash
        return successor


def halt_running_loop(crash: SimCrash) -> None:
    with contextlib.suppress(RuntimeError):
        loop = asyncio.get_running_loop()
        if isinstance(loop, SimLoop):
            loop.halt(crash)


def _settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


@contextlib.contextmanager
def _translating(doing: str) -> Iterator[None]:
    """Errors of the device in the words of the domain; a missing file is passed on as it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageFailed(f"{doing}: {error.strerror or error}") from error
