"""Logins of Kafka's clients: SaslHandshake names the mechanism, SaslAuthenticate carries its bytes.

    handshake ─> SCRAM: first ─> final ─> done
              └> PLAIN: name and password ─> done

What is wrong costs the connection, after an answer that says so, late.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from goqueue.model.errors import AuthenticationFailed, GoQueueError
from goqueue.security import ClientFirst, Principal, ScramExchange, parse_client_first
from goqueue.wire.messages import build

PLAIN: Final = "PLAIN"
PLAIN_BYTES_MAX: Final = 4_096


class Verifier(Protocol):
    """Who knows the passwords."""

    async def check_password(self, user: str, password: str, /) -> Principal: ...
    def begin_scram(self, mechanism: str, first: ClientFirst, /) -> ScramExchange: ...
    async def delay_refusal(self) -> None: ...


class SaslLogin:
    """One login of one connection."""

    def __init__(self, verifier: Verifier, mechanisms: Sequence[str]) -> None:
        self._verifier = verifier
        self._mechanisms = mechanisms
        self._mechanism: str | None = None
        self._scram: tuple[Principal, ScramExchange] | None = None
        self.principal: Principal | None = None  # once it is done

    def shake_hands(self, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        self._scram = self.principal = None
        is_known = request.mechanism in self._mechanisms
        self._mechanism = str(request.mechanism) if is_known else None
        code = ErrorCode.none if is_known else ErrorCode.unsupported_sasl_mechanism
        return build(SaslHandshakeResponse, error_code=code, mechanisms=tuple(self._mechanisms))

    async def authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        """Raises `AuthenticationFailed`."""
        if self._mechanism is None:
            raise AuthenticationFailed("name the mechanism first (SaslHandshake)")
        data = bytes(request.auth_bytes)
        if self._mechanism == PLAIN:
            self.principal = await self._verifier.check_password(*_parse_plain(data))
            answer = b""
        else:
            answer = await self._go_on(self._mechanism, data)
        return build(
            SaslAuthenticateResponse,
            error_code=ErrorCode.none,
            error_message=None,
            auth_bytes=answer,
        )

    async def _go_on(self, mechanism: str, data: bytes) -> bytes:
        if self._scram is None:
            first = parse_client_first(data)
            exchange = self._verifier.begin_scram(mechanism, first)
            self._scram = Principal(first.user), exchange
            return exchange.server_first
        principal, exchange = self._scram
        self._mechanism = self._scram = None
        try:
            answer = exchange.finish(data)
        except AuthenticationFailed:
            await self._verifier.delay_refusal()
            raise
        self.principal = principal
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
