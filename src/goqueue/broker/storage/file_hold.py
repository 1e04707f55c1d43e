"""Keeps the files of logs where they are while a backup is made of them.

Retention, DeleteRecords, compaction and the deletion of a topic remove or replace files; each does
so inside `removing`, and waits there while somebody holds the files.  Writing goes on meanwhile.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class FileHold:
    def __init__(self) -> None:
        self._removals = 0  # under way
        self._holders = 0
        self._changed = asyncio.Event()

    @property
    def is_held(self) -> bool:
        return self._holders > 0

    @contextlib.asynccontextmanager
    async def removing(self) -> AsyncIterator[None]:
        """For a block that removes or replaces files."""
        while self._holders:
            await self._next_change()
        self._removals += 1
        try:
            yield
        finally:
            self._removals -= 1
            self._changed.set()

    @contextlib.asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Begins when no removal is under way; none begins before its end."""
        self._holders += 1
        try:
            while self._removals:
                await self._next_change()
            yield
        finally:
            self._holders -= 1
            self._changed.set()

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
