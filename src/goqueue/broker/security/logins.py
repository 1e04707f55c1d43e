"""Passwords, checked beside the event loop; wrong ones are answered late.

To check a password takes milliseconds of a processor, by intention.  One is checked at a time, in a
thread, so that a flood of guesses costs everybody else little; beyond `WAITING_MAX` further ones
are refused unchecked.  A password that was right a moment ago is known by a keyed hash of it.
"""

import asyncio
import hmac
from collections.abc import Callable
from typing import Final

from goqueue.cluster import Metadata
from goqueue.model.config import AuthConfig
from goqueue.model.errors import AuthenticationFailed, Overloaded
from goqueue.model.ids import Instant
from goqueue.runtime import Clock, Disk, Random
from goqueue.security import (
    NONCE_BYTES,
    ClientFirst,
    Principal,
    ScramCredential,
    ScramExchange,
    parse_api_key,
    password_matches,
    stand_in_credential,
)

WAITING_MAX: Final = 256  # passwords that wait to be checked
REMEMBERED_MAX: Final = 10_000
REMEMBERED_NS: Final = 60 * 1_000_000_000
SECRET_BYTES: Final = 32
MECHANISM: Final = "SCRAM-SHA-256"
WRONG: Final = "the user is unknown, or the password is wrong"
WRONG_KEY: Final = "the API key is unknown, or was removed"


class Logins:
    def __init__(
        self,
        config: AuthConfig,
        clock: Clock,
        disk: Disk,
        random: Random,
        metadata: Callable[[], Metadata],
    ) -> None:
        self._config = config
        self._clock = clock
        self._disk = disk  # whose threads compute
        self._random = random
        self._metadata = metadata
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0
        self._secret = random.bytes(SECRET_BYTES)  # of this process
        self._right: dict[bytes, tuple[ScramCredential, Instant]] = {}

    async def check_password(self, user: str, password: str) -> Principal:
        """Raises `AuthenticationFailed`, late; or `Overloaded`."""
        found = self._metadata().security.credentials(user)
        await self._check(user, password, next(iter(found.values()), None), WRONG)
        return Principal(user)

    async def check_api_key(self, text: str) -> Principal:
        """The same for a key."""
        key_id, secret = parse_api_key(text)
        key = self._metadata().security.api_keys.get(key_id)
        await self._check(key_id, secret, None if key is None else key.credential, WRONG_KEY)
        assert key is not None, "there is none that fits"
        if key.expires_at and key.expires_at <= self._clock.now():
            raise AuthenticationFailed(f"the API key {key_id} has expired", key.user)
        return Principal(key.user, key.roles)

    async def _check(
        self, name: str, secret: str, credential: ScramCredential | None, problem: str
    ) -> None:
        """What is not there takes as long as what does not fit."""
        compared = credential or stand_in_credential(MECHANISM, name, self._secret)
        mark = hmac.digest(self._secret, f"{len(name)}:{name}{secret}".encode(), "sha256")
        if self._is_remembered(mark, compared):
            return
        if not await self._match(compared, secret) or credential is None:
            await self.delay_refusal()
            raise AuthenticationFailed(problem, name)
        self._remember(mark, compared)

    def begin_scram(self, mechanism: str, first: ClientFirst) -> ScramExchange:
        """A user that is not there is refused at the end, like one with another password."""
        found = self._metadata().security.credentials(first.user).get(mechanism)
        credential = found or stand_in_credential(mechanism, first.user, self._secret)
        return ScramExchange(credential, first, self._random.bytes(NONCE_BYTES).hex())

    async def delay_refusal(self) -> None:
        await self._clock.sleep(self._config.failed_login_delay_ms / 1000)

    async def _match(self, credential: ScramCredential, password: str) -> bool:
        if self._waiting >= WAITING_MAX:
            raise Overloaded(f"more than {WAITING_MAX} passwords wait to be checked")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._disk.in_background(
                    lambda: password_matches(credential, password)
                )
        finally:
            self._waiting -= 1

    def _is_remembered(self, mark: bytes, credential: ScramCredential) -> bool:
        """Also that the password has not been changed since."""
        found = self._right.get(mark)
        return (
            found is not None
            and found[0] == credential
            and self._clock.instant() - found[1] < REMEMBERED_NS
        )

    def _remember(self, mark: bytes, credential: ScramCredential) -> None:
        if len(self._right) >= REMEMBERED_MAX:
            self._right.clear()
        self._right[mark] = credential, self._clock.instant()
