"""Rewriting what a log already has: cutting its end off, and replacing segments by compacted ones.

Each is announced on disk before it begins, so that the next opening can finish it.  Once announced
it is tried until it is done: nothing may be written in between.  The log's partition decides whose
turn it is (`Turns`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol, TypeVar

import msgspec

from goqueue.broker.storage.file_hold import FileHold
from goqueue.cluster.replication import Role
from goqueue.log import CheckpointPoint, Log, Replacement, SyncPoint, truncation
from goqueue.log.compaction import Result
from goqueue.log.segment import Segment
from goqueue.log.truncation import Cut
from goqueue.model.errors import (
    CorruptData,
    DiskFull,
    NotLeader,
    OffsetOutOfRange,
    OutOfHandles,
    StorageFailed,
)
from goqueue.model.ids import Offset
from goqueue.runtime import Disk

HANDLE_RETRY_SECONDS: Final = 0.1
REPLACEMENT_RETRY_SECONDS: Final = 1.0

T = TypeVar("T")
Announce = Callable[[Disk, Log, CheckpointPoint], Cut]


class Turns(Protocol):
    """A partition, whose log only one work at a time may change on disk."""

    log: Log
    role: Role

    async def ready_for_work(self) -> None:
        """Return when nothing else works on the log; raises why nothing may any more."""
        ...

    async def run(self, work: Callable[[], None], point: SyncPoint | CheckpointPoint) -> None:
        """One work, which leaves the log synced up to the point."""
        ...

    async def take_turn(self, work: Callable[[], Awaitable[None]]) -> None:
        """Several works, with nobody else's in between."""
        ...

    def tell_if_failed(self) -> None: ...

    def wake_readers(self) -> None: ...

    def not_leader(self) -> NotLeader: ...


class LogRewrites:
    def __init__(self, disk: Disk, files: FileHold, turns: Turns) -> None:
        self._disk = disk
        self._files = files
        self._turns = turns

    @property
    def _log(self) -> Log:
        return self._turns.log

    # --- cutting the end off ----------------------------------------------------------------------

    async def truncate_to(self, offset: Offset, *, unclean: bool) -> None:
        if offset < self._log.end_offset:
            announce = truncation.announce_truncation
            await self._cut(partial(announce, offset=offset, unclean=unclean))

    async def reset_to(self, start: Offset, *, unclean: bool) -> None:
        await self._cut(partial(truncation.announce_reset, start=start, unclean=unclean))

    async def _cut(self, announce: Announce) -> None:
        """All steps in one turn: a checkpoint between two of them would undo the first."""
        role = self._turns.role
        await self._stop_compaction()
        self._log.rewriting = True
        try:
            async with self._files.removing():
                await self._turns.take_turn(lambda: self._cut_in_turn(announce, role))
        finally:
            self._log.rewriting = False
        self._turns.wake_readers()

    async def _stop_compaction(self) -> None:
        self._log.cut_waits = True
        try:
            while True:
                if not self._log.rewriting:
                    return
                await asyncio.sleep(HANDLE_RETRY_SECONDS)
        finally:
            self._log.cut_waits = False

    async def _cut_in_turn(self, announce: Announce, role: Role) -> None:
        log = self._log
        if self._turns.role is not role:  # whoever wanted it has another leader now, or leads
            raise self._turns.not_leader()
        point = log.checkpoint_point()
        try:
            cut = await self._in_thread(lambda: announce(self._disk, log, point))
        except (OffsetOutOfRange, CorruptData, DiskFull):
            log.put_back(point)
            raise
        except BaseException as error:
            log.fail(f"truncation: {error}")  # it may be known or not
            raise
        removed = truncation.cut(self._disk, log, cut)
        try:
            await self._finish_cut(cut, removed)
        except BaseException as error:
            log.fail(f"truncation: {error}")  # the next opening finishes it
            raise

    async def _finish_cut(self, cut: Cut, removed: tuple[Segment, ...]) -> None:
        while not self._log.abandoned:
            try:
                await self._in_thread(
                    lambda: truncation.finish(self._disk, self._log, cut, removed)
                )
            except DiskFull:
                await asyncio.sleep(REPLACEMENT_RETRY_SECONDS)
            else:
                return

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Also a caller that gives up waits for the thread: it uses the log's files."""
        job = self._disk.in_background(work)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            await asyncio.wait([job])
            raise

    # --- replacing segments -----------------------------------------------------------------------

    async def replace_segments(self, compacted: Result) -> None:
        async with self._files.removing():
            await self._announce_replacement(compacted)
            await self._turns.ready_for_work()
            replacement = self._log.replace_segments(
                compacted.old, compacted.new, compacted.report.cleaned_offset
            )
            while not await self._try_replacement(replacement):
                await asyncio.sleep(REPLACEMENT_RETRY_SECONDS)
                await self._turns.ready_for_work()
                checkpoint = self._log.checkpoint_point()
                replacement = msgspec.structs.replace(replacement, checkpoint=checkpoint)

    async def _announce_replacement(self, compacted: Result) -> None:
        cleaned_offset = compacted.report.cleaned_offset
        while True:
            try:
                await self._disk.in_background(
                    lambda: self._log.announce_replacement(
                        compacted.old, compacted.new, cleaned_offset
                    )
                )
            except OutOfHandles:
                await asyncio.sleep(HANDLE_RETRY_SECONDS)
            except StorageFailed as error:
                self._log.fail(str(error))  # it may be known or not: the next opening finds out
                self._turns.tell_if_failed()
                raise
            else:
                return

    async def _try_replacement(self, replacement: Replacement) -> bool:
        """False when there was no room for it: readers are served meanwhile."""
        try:
            await self._turns.run(
                lambda: self._log.run_replacement(replacement), replacement.checkpoint
            )
        except DiskFull:
            return False
        return True
