"""The log beside a plain Parquet table: what is decided, one small file a decision.

    table/_goqueue/log/00000000000000000042.json     the 42nd decision
    table/_goqueue/staging/*.parquet.staged          files of tasks, decided on or not
    table/_goqueue/lock                              one writer at a time

An entry holds the whole state after it (schema, marks) and what is to be done to the folder, so
only the newest one matters.  It is made whole under another name, synced, and given its number by
`link`, which fails when that number is taken: two writers cannot both decide.
"""

import contextlib
import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from goqueue.spark.lake.table import LakeError, MarksMoved

FOLDER: Final = "_goqueue"
VERSION: Final = 1
ENTRIES_KEPT: Final = 100
LOCK_SECONDS_MAX: Final = 120.0
LOCK_POLL_SECONDS: Final = 0.05


class Move(msgspec.Struct, frozen=True):
    """A staged file that gets its place in the table."""

    staged: str
    final: str


class Swap(msgspec.Struct, frozen=True):
    """A folder that is to be exchanged for a prepared one."""

    folder: str
    prepared: str
    proof: str  # a file's name: in `folder` once they are exchanged


class Entry(msgspec.Struct, frozen=True):
    version: int
    schema: str  # Arrow's own serialization, in base64; "" when none is known yet
    marks: dict[str, int]
    moves: list[Move] = []
    swaps: list[Swap] = []


class CommitLog:
    def __init__(self, table: Path) -> None:
        self._folder = table / FOLDER
        self._entries = self._folder / "log"

    def newest(self) -> tuple[int, Entry] | None:
        """The last decision and its number."""
        while (number := self._last_number()) is not None:
            with contextlib.suppress(FileNotFoundError):  # a writer far ahead has removed it
                return number, self._read(number)
        return None

    def append(self, number: int, entry: Entry) -> None:
        """Decide.  MarksMoved when somebody else has decided that number."""
        self._entries.mkdir(parents=True, exist_ok=True)
        draft = self._entries / f".{uuid.uuid4().hex}.draft"
        with open(draft, "xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(entry)))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, self._path(number))
        except FileExistsError as error:
            raise MarksMoved(f"another job has written {self._path(number)} meanwhile") from error
        finally:
            os.unlink(draft)
        sync_folder(self._entries)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(number - ENTRIES_KEPT))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One writer at a time.  The kernel drops the lock of a process that ends, however."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(self._folder / "lock", "ab") as file:
            deadline = time.monotonic() + LOCK_SECONDS_MAX
            while not _try_lock(file.fileno()):
                if time.monotonic() > deadline:
                    raise LakeError(
                        f"another process has held {file.name} for {LOCK_SECONDS_MAX:.0f} s:"
                        " find it with `fuser`, and stop it"
                    )
                time.sleep(LOCK_POLL_SECONDS)
            yield

    def _last_number(self) -> int | None:
        try:
            names = os.listdir(self._entries)
        except FileNotFoundError:
            return None
        return max((int(each[:-5]) for each in names if each[:-5].isdigit()), default=None)

    def _read(self, number: int) -> Entry:
        path = self._path(number)
        try:
            entry = msgspec.json.decode(path.read_bytes(), type=Entry)
        except msgspec.DecodeError as error:
            raise LakeError(f"{path} is damaged: {error}") from error
        if entry.version != VERSION:
            raise LakeError(f"{path} has version {entry.version}, {VERSION} is understood here")
        return entry

    def _path(self, number: int) -> Path:
        return self._entries / f"{number:020d}.json"


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
