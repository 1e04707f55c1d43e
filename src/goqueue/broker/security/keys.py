"""API keys as administrators make and remove them."""

from collections.abc import Sequence
from typing import Protocol

from goqueue.cluster import Metadata
from goqueue.cluster.metadata import ApiKeyRemoved, ApiKeySet, SecurityRecord
from goqueue.runtime import Clock, Disk, Random
from goqueue.security import KEY_BYTES, SALT_BYTES, ApiKey, check_roles, make_api_key


class KeyBroker(Protocol):
    @property
    def metadata(self) -> Metadata: ...
    async def change_security(self, changes: Sequence[SecurityRecord], /) -> None: ...


class ApiKeys:
    def __init__(self, broker: KeyBroker, clock: Clock, disk: Disk, random: Random) -> None:
        """The disk's threads derive what is kept of a key."""
        self._broker = broker
        self._disk = disk
        self._clock = clock
        self._random = random

    def describe_all(self) -> list[ApiKey]:
        return sorted(
            self._broker.metadata.security.api_keys.values(), key=lambda key: key.created_at
        )

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
