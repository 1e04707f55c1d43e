"""Who sends an HTTP request: by a key, a name and a password, or its connection's certificate."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from goqueue.broker import Broker
from goqueue.model.errors import AuthenticationFailed
from goqueue.security import ANONYMOUS, Principal
from goqueue.server.http.asgi_types import Scope
from goqueue.server.tokens import Tokens

PRINCIPAL_KEY: Final = "goqueue.principal"  # in the scope
HEALTH: Final = frozenset({"/health", "/healthz", "/livez", "/readyz"})
CHALLENGE: Final = (b"www-authenticate", b'Basic realm="GoQueue", charset="UTF-8"')
HEADER_BYTES_MAX: Final = 8_192


class Identification:
    def __init__(self, broker: Broker) -> None:
        self.is_enabled = broker.config.auth.enabled
        self._allows_health = broker.config.auth.allow_health
        self._logins = broker.logins
        self._tokens = Tokens(broker.config.auth, broker.environment.clock)

    async def identify(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Principal:
        """Raises `AuthenticationFailed`, or `Overloaded`."""
        if not self.is_enabled or (self._allows_health and scope["path"] in HEALTH):
            return ANONYMOUS
        shown: Principal | None = scope.get("extensions", {}).get(PRINCIPAL_KEY)
        header = headers.get(b"authorization")
        if header is None and (key := headers.get(b"x-api-key")):
            return await self._logins.check_api_key(key.decode("latin-1"), client_host(scope))
        if header is None:
            if shown is None:
                raise AuthenticationFailed(
                    "log in: send an API key, or a user and its password (header Authorization)"
                )
            return shown
        scheme, _, value = header.partition(b" ")
        if scheme.lower() == b"bearer":
            return await self._check_bearer(value.decode("latin-1").strip(), client_host(scope))
        return await self._logins.check_password(*_parse_basic(header), client_host(scope))

    async def _check_bearer(self, text: str, host: str) -> Principal:
        """A key of ours, or a token of an identity provider."""
        if not self._tokens.is_enabled or text.startswith("gq_"):
            return await self._logins.check_api_key(text, host)
        if self._tokens.is_remembered(text):
            return (await self._tokens.verify(text)).principal
        self._logins.admit("", host)
        try:
            return (await self._tokens.verify(text)).principal
        except AuthenticationFailed:
            await self._logins.refuse("", host)
            raise


def client_host(scope: Mapping[str, Any]) -> str:
    return str((scope.get("client") or ("?",))[0])


def _parse_basic(header: bytes) -> tuple[str, str]:
    scheme, _, value = header.partition(b" ")
    if scheme.lower() != b"basic" or len(value) > HEADER_BYTES_MAX:
        raise AuthenticationFailed("the header Authorization is not `Basic …` or `Bearer …`")
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise AuthenticationFailed("the header Authorization is not base64 of UTF-8") from error
    if not colon:
        raise AuthenticationFailed("the header Authorization has a user and no password")
    return user, password
