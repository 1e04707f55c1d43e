"""Plain commits of a group wait while a transaction commits offsets of the same group."""

import asyncio
from collections.abc import Iterable


class CommitHolds:
    def __init__(self) -> None:
        self._holds: dict[str, set[asyncio.Future[None]]] = {}  # by group id

    def hold(self, group_ids: Iterable[str], until: asyncio.Future[None]) -> None:
        """Let commits of the groups wait for the future; if it fails, they are refused for good."""
        held = list(group_ids)
        for group_id in held:
            self._holds.setdefault(group_id, set()).add(until)
        until.add_done_callback(lambda _: self._release(held, until))

    def _release(self, group_ids: Iterable[str], until: asyncio.Future[None]) -> None:
        if until.exception() is not None:
            return  # after a restart the offsets are committed again: refuse others until then
        for group_id in group_ids:
            holds = self._holds.get(group_id, set())
            holds.discard(until)
            if not holds:
                self._holds.pop(group_id, None)

    async def wait(self, group_id: str) -> None:
        """Return when no transaction is about to commit offsets of the group."""
        while holds := self._holds.get(group_id):
            done, _ = await asyncio.wait(holds)
            for each in done:
                each.result()  # raises why the transaction's offsets will not be committed
