"""Passwords, checked beside the event loop; wrong ones are answered late, and after some unchecked.

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
from goqueue.model.errors import AuthenticationFailed, LoginThrottled, Overloaded
from goqueue.model.ids import Instant
from goqueue.runtime import Clock, Disk, Random
from goqueue.security import (
    NONCE_BYTES,
    ClientFirst,
    LoginThrottle,
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
        self._throttle = LoginThrottle()
        self.throttled = 0  # logins that were refused unchecked
        self.keys_used: dict[str, int] = {}  # by id, and when; see `keys.py`
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0
        self._secret = random.bytes(SECRET_BYTES)  # of this process
        self._right: dict[bytes, tuple[ScramCredential, Instant]] = {}

    async def check_password(self, user: str, password: str, host: str = "") -> Principal:
        """Raises `AuthenticationFailed`, late; or `Overloaded`."""
        found = self._metadata().security.credentials(user)
        await self._check(user, password, host, next(iter(found.values()), None), WRONG)
        return Principal(user)

    async def check_api_key(self, text: str, host: str = "") -> Principal:
        """The same for a key."""
        try:
            key_id, secret = parse_api_key(text)
        except AuthenticationFailed:
            await self.refuse("", host)
            raise
        key = self._metadata().security.api_keys.get(key_id)
        await self._check(key_id, secret, host, None if key is None else key.credential, WRONG_KEY)
        assert key is not None, "there is none that fits"
        now = self._clock.now()
        if key.expires_at and key.expires_at <= now:
            raise AuthenticationFailed(f"the API key {key_id} has expired", key.user)
        self.keys_used[key_id] = now
        return Principal(key.user, key.roles)

    async def _check(
        self, name: str, secret: str, host: str, credential: ScramCredential | None, problem: str
    ) -> None:
        """The same work is done for what is not there and for what does not fit."""
        stand_in = self._stand_in(MECHANISM, name)
        compared = stand_in if credential is None else credential
        mark = hmac.digest(self._secret, f"{len(name)}:{name}{secret}".encode(), "sha256")
        if self._is_remembered(mark, compared):
            return
        self.admit(name, host)
        if not await self._match(compared, secret) or credential is None:
            await self.refuse(name, host)
            raise AuthenticationFailed(problem, name)
        self.accept(name, host)
        self._remember(mark, compared)

    def begin_scram(self, mechanism: str, first: ClientFirst, host: str = "") -> ScramExchange:
        """A user that is not there is refused at the end, like one with another password."""
        self.admit(first.user, host)
        found = self._metadata().security.credentials(first.user).get(mechanism)
        stand_in = self._stand_in(mechanism, first.user)  # made for those who are there, too
        nonce = self._random.bytes(NONCE_BYTES).hex()
        return ScramExchange(stand_in if found is None else found, first, nonce)

    def _stand_in(self, mechanism: str, name: str) -> ScramCredential:
        iterations = self._metadata().security.iterations
        return stand_in_credential(mechanism, name, self._secret, iterations)

    # --- those who guess ------------------------------------------------------------------------

    def admit(self, name: str, host: str) -> None:
        """Raises `LoginThrottled` if too many logins failed."""
        wait = self._throttle.wait_ns(name, host, self._clock.instant())
        if wait > 0:
            self.throttled += 1
            seconds = -(-wait // 1_000_000_000)
            raise LoginThrottled(f"too many logins failed: try again in {seconds} s", name)

    async def refuse(self, name: str, host: str) -> None:
        """A login failed: note it, and return as late as its answer may go out."""
        self._throttle.note_failure(name, host, self._clock.instant())
        delay_ms = self._config.failed_login_delay_ms * self._throttle.delay_factor(name, host)
        await self._clock.sleep(delay_ms / 1000)

    def accept(self, name: str, host: str) -> None:
        """It was right."""
        self._throttle.note_success(name, host, self._clock.instant())

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
