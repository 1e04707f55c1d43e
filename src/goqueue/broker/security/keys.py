"""API keys as administrators make and remove them, and when each was last used.

Use is noted in memory, and written to the metadata once an hour and when the broker stops: a call
with a key writes nothing.
"""

import asyncio
import contextlib
from collections.abc import MutableMapping, Sequence
from typing import Final, Protocol

import msgspec

from goqueue.cluster import Metadata
from goqueue.cluster.metadata import ApiKeyRemoved, ApiKeySet, ApiKeysUsed, SecurityRecord
from goqueue.model.errors import GoQueueError
from goqueue.runtime import Clock, Disk, Random
from goqueue.security import KEY_BYTES, SALT_BYTES, ApiKey, check_roles, make_api_key

FLUSH_SECONDS: Final = 3_600.0
FINISH_SECONDS: Final = 1.0


class KeyBroker(Protocol):
    @property
    def metadata(self) -> Metadata: ...
    async def change_security(self, changes: Sequence[SecurityRecord], /) -> None: ...


class ApiKeys:
    def __init__(
        self,
        broker: KeyBroker,
        clock: Clock,
        disk: Disk,
        random: Random,
        used: MutableMapping[str, int],
    ) -> None:
        """The disk's threads derive what is kept of a key; `used` is when keys were used here."""
        self._broker = broker
        self._used = used
        self._disk = disk
        self._clock = clock
        self._random = random

    def describe_all(self) -> list[ApiKey]:
        found = self._broker.metadata.security.api_keys.values()
        return sorted(map(self._with_use, found), key=lambda key: key.created_at)

    def _with_use(self, key: ApiKey) -> ApiKey:
        """As this node knows it; other nodes tell within the hour."""
        used_at = self._used.get(key.key_id, 0)
        if used_at <= key.last_used_at:
            return key
        return msgspec.structs.replace(key, last_used_at=used_at)

    async def run(self) -> None:
        """Write now and then when keys were used; until cancelled."""
        while True:
            await self._clock.sleep(FLUSH_SECONDS)
            with contextlib.suppress(GoQueueError):  # the next time, then
                await self.flush()

    async def flush(self) -> None:
        """Of keys that were used here since the last time."""
        keys = self._broker.metadata.security.api_keys
        newer = {
            key_id: at
            for key_id, at in self._used.items()
            if key_id in keys and at > keys[key_id].last_used_at
        }
        if newer:
            await self._broker.change_security([ApiKeysUsed(newer)])
        for key_id in [each for each in self._used if each not in keys]:
            del self._used[key_id]

    async def finish(self) -> None:
        """Before the broker stops."""
        with contextlib.suppress(GoQueueError, TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                await self.flush()

    async def create(
        self, name: str, user: str, roles: tuple[str, ...], expires_in_ms: int | None
    ) -> tuple[str, ApiKey]:
        """The key itself is nowhere else."""
        now = self._clock.now()
        random, checked = self._random.bytes(KEY_BYTES + SALT_BYTES), check_roles(roles)
        expires_at = 0 if expires_in_ms is None else now + expires_in_ms
        text, key = await self._disk.in_background(
            lambda: make_api_key(random, name, user, checked, now, expires_at)
        )
        await self._broker.change_security([ApiKeySet(key)])
        return text, key

    async def remove(self, key_id: str) -> None:
        await self._broker.change_security([ApiKeyRemoved(key_id)])
