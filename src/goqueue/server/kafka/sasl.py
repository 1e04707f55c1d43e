"""Logins of Kafka's clients: SaslHandshake names the mechanism, SaslAuthenticate carries its bytes.

    handshake ─> SCRAM: first ─> final ─> done
              ├> PLAIN: name and password ─> done
              └> OAUTHBEARER: token ─> done, until the token expires

What is wrong costs the connection, after an answer that says so, late.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from goqueue.model.errors import AuthenticationFailed, GoQueueError
from goqueue.runtime import Clock
from goqueue.security import ClientFirst, Principal, ScramExchange, parse_client_first
from goqueue.wire.messages import build

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
IN_THE_CLEAR: Final = frozenset({PLAIN, OAUTHBEARER})  # whoever listens can log in
PLAIN_BYTES_MAX: Final = 4_096
BEARER_BYTES_MAX: Final = 16_384
MECHANISM_LENGTH_MAX: Final = 40


class Verifier(Protocol):
    """Who knows the passwords."""

    async def check_password(self, user: str, password: str, host: str, /) -> Principal: ...
    def begin_scram(self, mechanism: str, first: ClientFirst, host: str, /) -> ScramExchange: ...
    def admit(self, name: str, host: str, /) -> None: ...
    async def refuse(self, name: str, host: str, /) -> None: ...
    def accept(self, name: str, host: str, /) -> None: ...


class TokenVerifier(Protocol):
    """Who knows the keys of the identity provider."""

    async def verify(self, token: str, /) -> tuple[Principal, int]: ...


class SaslLogin:
    """One login of one connection."""

    def __init__(
        self,
        verifier: Verifier,
        tokens: TokenVerifier,
        mechanisms: Sequence[str],
        clock: Clock,
        *,
        host: str = "",
        session_ms: int = 0,
    ) -> None:
        """`session_ms` is after how long a password has to be shown again; 0: never."""
        self._host = host
        self._session_ms = session_ms
        self._verifier = verifier
        self._tokens = tokens
        self._clock = clock
        self._mechanisms = mechanisms
        self._mechanism: str | None = None
        self._scram: tuple[Principal, ScramExchange] | None = None
        self.principal: Principal | None = None  # once it is done
        self.mechanism = ""  # that was named last
        self.user = ""  # whom the client claims to be
        self.lifetime_ms = 0  # after which it has to log in again; 0: never

    def shake_hands(self, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        self._scram = self.principal = None
        is_known = request.mechanism in self._mechanisms
        self._mechanism = str(request.mechanism) if is_known else None
        self.mechanism = str(request.mechanism)[:MECHANISM_LENGTH_MAX]
        code = ErrorCode.none if is_known else ErrorCode.unsupported_sasl_mechanism
        return build(SaslHandshakeResponse, error_code=code, mechanisms=tuple(self._mechanisms))

    async def authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        """Raises `AuthenticationFailed`."""
        if self._mechanism is None:
            raise AuthenticationFailed("name the mechanism first (SaslHandshake)")
        data = bytes(request.auth_bytes)
        if self._mechanism == PLAIN:
            self.user, password = _parse_plain(data)
            self.principal = await self._verifier.check_password(self.user, password, self._host)
            self.lifetime_ms = self._session_ms
            answer = b""
        elif self._mechanism == OAUTHBEARER:
            await self._check_token(data)
            answer = b""
        else:
            answer = await self._go_on(self._mechanism, data)
        return build(
            SaslAuthenticateResponse,
            error_code=ErrorCode.none,
            error_message=None,
            auth_bytes=answer,
            session_lifetime=timedelta(milliseconds=self.lifetime_ms),
        )

    async def _check_token(self, data: bytes) -> None:
        self._verifier.admit("", self._host)
        try:
            self.principal, expires_at = await self._tokens.verify(_parse_bearer(data))
        except AuthenticationFailed:
            await self._verifier.refuse("", self._host)
            raise
        lifetime_ms = max(1, expires_at - self._clock.now())
        self.lifetime_ms = min(lifetime_ms, self._session_ms or lifetime_ms)

    async def _go_on(self, mechanism: str, data: bytes) -> bytes:
        if self._scram is None:
            first = parse_client_first(data)
            self.user = first.user
            exchange = self._verifier.begin_scram(mechanism, first, self._host)
            self._scram = Principal(first.user), exchange
            return exchange.server_first
        principal, exchange = self._scram
        self._mechanism = self._scram = None
        try:
            answer = exchange.finish(data)
        except AuthenticationFailed:
            await self._verifier.refuse(principal.name, self._host)
            raise
        self._verifier.accept(principal.name, self._host)
        self.principal = principal
        self.lifetime_ms = self._session_ms
        return answer


def refuse_login(error: GoQueueError) -> SaslAuthenticateResponse:
    return build(
        SaslAuthenticateResponse,
        error_code=ErrorCode.sasl_authentication_failed,
        error_message=str(error),
        auth_bytes=b"",
    )


def _parse_plain(data: bytes) -> tuple[str, str]:
    """RFC 4616: another name to act as, the user, the password."""
    if len(data) > PLAIN_BYTES_MAX:
        raise AuthenticationFailed(f"PLAIN: more than {PLAIN_BYTES_MAX} bytes")
    try:
        other_name, user, password = data.decode().split("\0")
    except ValueError as error:  # also what is not UTF-8
        raise AuthenticationFailed("PLAIN: the message is malformed") from error
    if other_name not in ("", user):
        raise AuthenticationFailed("PLAIN: a user may not act as another one")
    return user, password


def _parse_bearer(data: bytes) -> str:
    """RFC 7628: `n,,`, then pairs between the bytes 1, of which `auth` is the token."""
    if len(data) > BEARER_BYTES_MAX:
        raise AuthenticationFailed(f"OAUTHBEARER: more than {BEARER_BYTES_MAX} bytes")
    _, *pairs = data.split(b"\x01")
    found = [each for each in pairs if each.lower().startswith(b"auth=bearer ")]
    if not data.startswith((b"n,", b"y,")) or len(found) != 1 or not data.endswith(b"\x01\x01"):
        raise AuthenticationFailed("OAUTHBEARER: the message is malformed")
    return found[0][len(b"auth=bearer ") :].decode("latin-1").strip()
