"""Tokens (JWT) of an identity provider, for Kafka's OAUTHBEARER and HTTP's Bearer.

A token is good when a key of the provider (JWKS, from a file or a URL) signed it, it is for us
(`auth.oauth_audience`), of that provider (`auth.oauth_issuer`), and not expired.  Keys that are not
known are asked for again, at most every `REFRESH_SECONDS`: providers change theirs.
"""

import asyncio
import hashlib
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import jwt
import structlog

from goqueue.model.config import AuthConfig
from goqueue.model.errors import AuthenticationFailed
from goqueue.runtime import Clock
from goqueue.security import ROLES, Principal

TOKEN_BYTES_MAX: Final = 8_192
JWKS_BYTES_MAX: Final = 1_048_576
KEYS_MAX: Final = 100
REFRESH_SECONDS: Final = 10.0
FETCH_SECONDS: Final = 5.0
LEEWAY_SECONDS: Final = 30.0  # by which clocks may differ
REMEMBERED_MAX: Final = 10_000
# Signed with a private key: who can check a token cannot make one.
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)

_log = structlog.get_logger("goqueue.tokens")


class Verified(NamedTuple):
    principal: Principal
    expires_at: int  # milliseconds


class Tokens:
    def __init__(self, config: AuthConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._keys: dict[str | None, jwt.PyJWK] = {}  # by their id
        self._asked_at: int | None = None  # instant
        self._asking = asyncio.Lock()
        self._good: dict[bytes, Verified] = {}

    @property
    def is_enabled(self) -> bool:
        return bool(self._config.oauth_jwks)

    def is_remembered(self, token: str) -> bool:
        """Whether it was good, and need not be checked again."""
        found = self._good.get(hashlib.sha256(token.encode()).digest())
        return found is not None and found.expires_at > self._clock.now()

    async def verify(self, token: str) -> Verified:
        """Raises `AuthenticationFailed`."""
        if not self.is_enabled:
            raise AuthenticationFailed("tokens are not taken here (setting auth.oauth_jwks)")
        if len(token) > TOKEN_BYTES_MAX:
            raise AuthenticationFailed(f"a token of more than {TOKEN_BYTES_MAX} bytes")
        mark = hashlib.sha256(token.encode()).digest()
        found = self._good.get(mark)
        if found is None or found.expires_at <= self._clock.now():
            found = await self._check(token)
            if len(self._good) >= REMEMBERED_MAX:
                self._good.clear()
            self._good[mark] = found
        return found

    async def _check(self, token: str) -> Verified:
        config = self._config
        try:
            header = jwt.get_unverified_header(token)
            key = await self._key(header.get("kid"))
            claims = jwt.decode(
                token,
                key,
                algorithms=[each for each in ALGORITHMS if each == header.get("alg")],
                audience=config.oauth_audience,
                issuer=config.oauth_issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError) as error:
            raise AuthenticationFailed(f"the token is not good: {error}") from error
        return Verified(self._principal(claims), int(claims["exp"] * 1000))

    def _principal(self, claims: dict[str, Any]) -> Principal:
        config = self._config
        name = claims.get(config.oauth_principal_claim)
        if not isinstance(name, str) or not name:
            raise AuthenticationFailed(
                f"the token has no claim {config.oauth_principal_claim!r} that names its user"
            )
        named = claims.get(config.oauth_roles_claim, ()) if config.oauth_roles_claim else ()
        given = named.split() if isinstance(named, str) else named
        roles = tuple(role for role in ROLES if role in given)
        return Principal(name, roles, _tenant(claims, config.oauth_tenant_claim))

    async def _key(self, key_id: str | None) -> jwt.PyJWK:
        if key_id not in self._keys:
            async with self._asking:
                if key_id not in self._keys and self._may_ask():
                    self._asked_at = self._clock.instant()
                    await self._refresh()
        try:
            return self._keys[key_id]
        except KeyError:
            raise AuthenticationFailed(
                f"the token is signed with a key ({key_id!r}) that auth.oauth_jwks does not have"
            ) from None

    def _may_ask(self) -> bool:
        asked_at = self._asked_at
        return asked_at is None or self._clock.instant() - asked_at > REFRESH_SECONDS * 1e9

    async def _refresh(self) -> None:
        """Keeps the keys that it has, if the provider cannot be asked."""
        source = self._config.oauth_jwks
        try:
            if source.startswith(("http://", "https://")):
                data = await _fetch(source)
            else:
                data = await asyncio.to_thread(Path(source).read_bytes)
            keys = jwt.PyJWKSet.from_json(data.decode()).keys
        except (OSError, httpx.HTTPError, jwt.PyJWTError, ValueError) as error:
            _log.error("keys for tokens not read", source=source, problem=str(error))
            raise AuthenticationFailed(
                "the keys that tokens are checked with are not known"
            ) from error
        self._keys = {key.key_id: key for key in keys[:KEYS_MAX]}
        self._good.clear()


def _tenant(claims: dict[str, Any], claim: str) -> str:
    """Empty without such a claim; one that is no text names no tenant that there could be."""
    found = claims.get(claim, "") if claim else ""
    if not isinstance(found, str):
        raise AuthenticationFailed(f"the token's claim {claim!r} is no text: it names the tenant")
    return found


async def _fetch(url: str) -> bytes:
    async with (
        httpx.AsyncClient(timeout=FETCH_SECONDS) as client,
        client.stream("GET", url) as found,
    ):
        found.raise_for_status()
        data = bytearray()
        async for part in found.aiter_bytes():
            data += part
            if len(data) > JWKS_BYTES_MAX:
                raise ValueError(f"more than {JWKS_BYTES_MAX} bytes")
        return bytes(data)
