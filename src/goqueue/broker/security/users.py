"""Users as administrators see and change them: passwords, roles, and the first of all."""

import base64
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from goqueue.cluster import Metadata
from goqueue.cluster.controller import check_user_name
from goqueue.cluster.metadata import RolesSet, ScramRemoved, ScramSet, SecurityRecord
from goqueue.model.errors import UserNotFound
from goqueue.runtime import Disk, Random
from goqueue.security import (
    ADMIN,
    ITERATIONS_DEFAULT,
    MECHANISMS,
    SALT_BYTES,
    check_roles,
    derive_credential,
)

PASSWORD_BYTES: Final = 18  # of randomness in one that is made up


class User(msgspec.Struct, frozen=True):
    name: str
    roles: tuple[str, ...]
    mechanisms: tuple[str, ...]  # for which it has a password


class UserBroker(Protocol):
    @property
    def metadata(self) -> Metadata: ...
    async def change_security(self, changes: Sequence[SecurityRecord], /) -> None: ...


class Users:
    def __init__(self, broker: UserBroker, disk: Disk, random: Random) -> None:
        """The disk's threads derive what is kept of a password."""
        self._broker = broker
        self._disk = disk
        self._random = random

    def describe_all(self) -> list[User]:
        return [self._describe(name) for name in self._broker.metadata.security.users]

    def get(self, name: str) -> User:
        if name not in self._broker.metadata.security.users:
            raise UserNotFound(f"there is no user {name[:80]!r}")
        return self._describe(name)

    async def put(
        self,
        name: str,
        password: str | None,
        roles: Iterable[str] | None = None,
        iterations: int = ITERATIONS_DEFAULT,
    ) -> User:
        """Make the user, or change what is given of it."""
        check_user_name(name)
        changes: list[SecurityRecord] = []
        if roles is not None:
            changes.append(RolesSet(name, check_roles(tuple(roles))))
        if password is not None:
            changes += await self._credentials(name, password, iterations)
        await self._broker.change_security(changes)
        return self._describe(name)

    async def remove(self, name: str) -> None:
        user = self.get(name)
        removed: list[SecurityRecord] = [ScramRemoved(name, each) for each in user.mechanisms]
        await self._broker.change_security([*removed, RolesSet(name, ())])

    async def ensure_admin(self, name: str, password: str | None) -> str | None:
        """Make the first user of all, with the role admin; gives the password it made up, if so."""
        if self._broker.metadata.security.users:
            return None
        chosen = password or self.make_password()
        await self.put(name, chosen, (ADMIN,))
        return None if password else chosen

    def make_password(self) -> str:
        return base64.urlsafe_b64encode(self._random.bytes(PASSWORD_BYTES)).decode()

    async def _credentials(self, name: str, password: str, iterations: int) -> list[ScramSet]:
        """For all mechanisms; each has a salt of its own."""
        salts = [(each, self._random.bytes(SALT_BYTES)) for each in MECHANISMS]

        def derive() -> list[ScramSet]:
            return [
                ScramSet(name, derive_credential(mechanism, password, salt, iterations))
                for mechanism, salt in salts
            ]

        return await self._disk.in_background(derive)

    def _describe(self, name: str) -> User:
        table = self._broker.metadata.security
        return User(name, table.roles.get(name, ()), tuple(table.credentials(name)))
