"""What the host of a machine needs of its log: the one interface between the two.

A journal is a log of values, and the snapshots that stand for its beginning.  Mostly it is a
partition (`goqueue.broker.storage.partition_journal`).  A consensus log can take its place without
a change to machines and their host.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import NoReturn, Protocol

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Epoch, Offset


class StoredSnapshot(msgspec.Struct, frozen=True):
    offset: Offset  # the first one of the log that is not in it
    bytes: int
    is_file: bool = False  # beside the log, where those who copy the log do not get it


class ReadValues(msgspec.Struct, frozen=True):
    """A piece of a log."""

    values: list[bytes]
    bytes: int  # in the log
    snapshot_bytes: int = 0  # of snapshots that lie between the values


class WarmStart(msgspec.Struct, frozen=True):
    """How far a machine is before its host opens: see `goqueue.broker.standby`."""

    offset: Offset  # the first one that was not applied
    records: int  # since the newest snapshot
    bytes: int  # the same
    snapshot_bytes: int  # of the newest


class Journal(Protocol):
    @property
    def name(self) -> str:
        """For people."""

    @property
    def end_offset(self) -> Offset:
        """The next value's."""

    @property
    def epoch(self) -> Epoch:
        """Of the leader, who alone may append; it rises with every new one."""

    @property
    def failed(self) -> str | None:
        """Why nothing can be appended any more."""

    # --- writing ----------------------------------------------------------------------------------

    def append(self, values: Sequence[bytes]) -> Offset:
        """Write all of them, or raise and write none; gives the last one's offset."""

    def is_committed(self, offset: Offset) -> bool: ...

    @property
    def has_uncommitted(self) -> bool:
        """Asked at every look, so it is quick."""

    def wait_committed(self, offset: Offset) -> asyncio.Future[None]:
        """Done when the value there will outlive a power cut; asks for a sync."""

    def demand_sync(self) -> None:
        """Sync what was appended, without anybody who waits for it yet."""

    # --- reading ----------------------------------------------------------------------------------

    def read(self, offset: Offset) -> AsyncIterator[ReadValues]:
        """All values from there to the end as it is now."""

    # --- snapshots --------------------------------------------------------------------------------

    async def newest_snapshot(self) -> StoredSnapshot | None:
        """The newest one that is whole.

        Raises `CorruptData` when the log does not go on from there.
        """

    def read_snapshot(self, snapshot: StoredSnapshot) -> AsyncIterator[Sequence[bytes]]:
        """Its records, some at a time."""

    async def store_snapshot(
        self, offset: Offset, slices: Iterable[Sequence[bytes]]
    ) -> StoredSnapshot:
        """Write a snapshot, slice by slice, and forget what the oldest kept one stands for.

        Between two slices others have their turn.  A crash leaves all of it or nothing.
        """


class ResignedJournal:
    """The journal of a machine that another node runs by now: it refuses everything.

    Whoever wants to write hears the `refusal`, and nothing was done.  Whoever asks what became of
    something hears that it is `lost`: it may have been committed before, or not.
    """

    def __init__(
        self,
        name: str,
        refusal: Callable[[], GoQueueError],
        lost: Callable[[], GoQueueError],
    ) -> None:
        self.name = name
        self._refusal = refusal
        self._lost = lost

    def append(self, _: Sequence[bytes]) -> Offset:
        raise self._refusal()

    def _refuse(self, *_: object) -> NoReturn:
        raise self._lost()

    end_offset = epoch = failed = has_uncommitted = property(_refuse)
    is_committed = wait_committed = demand_sync = _refuse
    read = newest_snapshot = read_snapshot = store_snapshot = _refuse
