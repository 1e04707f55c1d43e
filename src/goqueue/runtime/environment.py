"""The environment: clock, disk, network, random numbers.  Nothing else comes in from outside.

The real one lives beside this file, a simulated one in `goqueue.testing.sim`.  What runs in the
one runs unchanged in the other.

`Disk` is blocking, with one way to leave the event loop: `in_background`.  `append` and `sync`
are apart, so that the simulator can lose what was never synced.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from goqueue.model.ids import Instant, Timestamp
from goqueue.runtime.tls_listener import Handshakes

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview


class Clock(Protocol):
    def now(self) -> Timestamp:
        """Wall-clock milliseconds.  May jump; only for what is shown or written to a log."""

    def instant(self) -> Instant:
        """Monotonic nanoseconds, for deadlines in memory."""

    def steady(self) -> Timestamp:
        """Wall-clock milliseconds that never jump, for deadlines that are written: see `steady`."""

    async def sleep(self, seconds: float) -> None: ...


class File(Protocol):
    """A file that grows at its end or is cut; few are written over in place."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def append(self, data: Buffer) -> int:
        """Write all of `data` at the end, or nothing; gives the position of its first byte.

        Raises `DiskFull` (nothing was written, try later) or `StorageFailed`.
        """

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""

    def read_cached(self, position: int, length: int) -> Buffer | None:
        """As `read`, or None when that would have to wait for the device."""

    def overwrite(self, position: int, data: Buffer) -> None:
        """Write over bytes that are there, or on from the end; durable after the next `sync`.

        Raises `DiskFull` or `StorageFailed`; the bytes may then be a mixture of old and new.
        """

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when every byte appended before the call is on the device.

        Safe to call from a background thread while others append.  Raises `StorageFailed`.
        """

    def close(self) -> None:
        """Give the handle back.  A file may be used again after that: it reopens itself."""


class Disk(Protocol):
    """Paths are absolute or relative to the process, `/`-separated, as text."""

    def open(self, path: str) -> File:
        """The file at `path`.  Costs no handle until it is used.

        A missing file reads as empty and is created by the first `append` or `truncate`.
        """

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def list_directory(self, path: str) -> Sequence[str]:
        """Names in `path`, sorted; empty when there is no such directory."""

    def make_directory(self, path: str) -> None:
        """Create `path` and what is missing above it, durably.  No error when it exists."""

    def read_file(self, path: str) -> bytes | None:
        """The whole of a small file, or None."""

    def replace_file(self, path: str, data: bytes) -> None:
        """Atomically and durably: afterwards `path` holds `data`, or what it held before."""

    def rename(self, source: str, target: str) -> None:
        """Atomically; durable once the target's directory is synced with `sync_directory`."""

    def link(self, source: str, target: str) -> bool:
        """A second name for a file that does not change any more; False where that cannot be."""

    def remove(self, path: str) -> None:
        """No error when it is missing."""

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def free_bytes(self, path: str) -> int: ...

    def in_background(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run blocking `work` on one of the disk's own threads."""

    def in_shared_turn(self, work: Callable[[], None]) -> asyncio.Future[None]:
        """As `in_background`, for short work that may share a thread's turn with other such."""

    def close(self) -> None:
        """Wait for the threads and close every file."""


class Listener(Protocol):
    @property
    def address(self) -> tuple[str, int]:
        """Where it really listens: the port is known also when 0 was asked for."""

    async def close(self) -> None:
        """Accept nothing more.  Connections already made are their owner's to end."""


class Network(Protocol):
    async def listen(
        self,
        host: str,
        port: int,
        connection: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None = None,
        handshakes: Handshakes | None = None,
    ) -> Listener: ...

    async def connect(
        self,
        host: str,
        port: int,
        connection: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None = None,
    ) -> None: ...


class Random(Protocol):
    def bytes(self, count: int) -> bytes: ...

    def uniform(self, low: float, high: float) -> float: ...


class Environment(msgspec.Struct, frozen=True):
    """Handed to whatever runs in it."""

    clock: Clock
    disk: Disk
    network: Network
    random: Random
