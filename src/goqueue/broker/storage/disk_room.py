"""Keeps `storage.free_bytes_min` of the disk free, so that recovery has room to write.

The file system is asked seldom; between two looks, what is written is counted.  When half of what
was free has been written it is asked again, since retention may have made room meanwhile; so
writers are refused only when there is really no room.  While there is none it is asked every
second.  Once a batch was refused all are, also smaller ones, until there is room for that one: a
disk that takes only the smallest batches is full.  Only messages are counted: indexes and internal
logs are small, and may use the reserve.
"""

import asyncio
from typing import Final

import structlog

from goqueue.model.config import StorageConfig
from goqueue.model.errors import DiskFull
from goqueue.runtime import Clock, Disk

PAUSE_SECONDS: Final = 0.02  # between two looks
PAUSE_FULL_SECONDS: Final = 1.0

_log = structlog.get_logger("goqueue.disk_room")


class DiskRoom:
    def __init__(self, disk: Disk, clock: Clock, path: str, config: StorageConfig) -> None:
        self.config = config
        self._disk = disk
        self._clock = clock
        self._path = path
        self._is_full = False  # at the last look
        self._needed = 0  # what was refused, and has to fit
        self._left = 0  # what may still be written before the reserve begins
        self._look_below = 0  # when so much is left, look again
        self._look_demanded = asyncio.Event()

    def take(self, size: int) -> None:
        """Count `size` bytes that are about to be written; raises `DiskFull`."""
        if self.config.free_bytes_min == 0:
            return  # the disk says itself when it is full
        if self._is_full or size > self._left:
            self._needed = max(self._needed, size)
            self._set_full(True, self._left + self.config.free_bytes_min)
            self._look_demanded.set()
            raise DiskFull(
                f"less than {self.config.free_bytes_min} bytes would be free below {self._path}"
                " (setting storage.free_bytes_min): free some disk space"
            )
        self._left -= size
        if self._left < self._look_below:
            self._look_demanded.set()

    def note_refused(self, size: int) -> None:
        """The disk itself refused it: others write to it, too."""
        self._needed = max(self._needed, size)
        self._look_demanded.set()

    @property
    def is_full(self) -> bool:
        """At the last look."""
        return self._is_full

    def refuse_if_full(self) -> None:
        self.take(0)

    async def look(self) -> None:
        """Ask the file system."""
        counted = self._left
        free = await self._disk.in_background(lambda: self._disk.free_bytes(self._path))
        written_meanwhile = max(0, counted - self._left)
        self._left = free - self.config.free_bytes_min - written_meanwhile
        self._look_below = self._left // 2
        is_full = self._left < self._needed
        if not is_full:
            self._needed = 0
        self._set_full(is_full, free)

    def _set_full(self, is_full: bool, free: int) -> None:
        if is_full != self._is_full:
            event = "disk is full, writes are refused" if is_full else "disk has room again"
            _log.warning(event, free_bytes=free, free_bytes_min=self.config.free_bytes_min)
        self._is_full = is_full

    async def run(self) -> None:
        """Look when it is asked for, and each second while the disk is full, until cancelled."""
        while True:
            if not self._is_full:
                await self._look_demanded.wait()
            await self.look()
            self._look_demanded.clear()
            await self._clock.sleep(PAUSE_FULL_SECONDS if self._is_full else PAUSE_SECONDS)
