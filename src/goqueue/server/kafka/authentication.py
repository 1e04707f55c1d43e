"""Who is at the other end of a Kafka connection: by its certificate, or by a login."""

import asyncio
from collections.abc import Callable
from typing import Final

from goqueue.broker import Broker
from goqueue.model.config import SASL_MECHANISMS, is_loopback, parse_address
from goqueue.model.errors import (
    AuthenticationFailed,
    Overloaded,
    TenantLimitReached,
    TenantRefused,
)
from goqueue.security import ANONYMOUS, Principal, ScramCredential, claimed_principal
from goqueue.server.kafka.connection import KafkaConnection, api_name
from goqueue.server.kafka.reply import ReplySlot
from goqueue.server.kafka.sasl import (
    IN_THE_CLEAR,
    OAUTHBEARER,
    PLAIN,
    SaslLogin,
    refuse_login,
)
from goqueue.server.tls import certificate_principal
from goqueue.server.tokens import Tokens
from goqueue.wire.apis import ApiKey
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.frames import RequestHeader
from goqueue.wire.messages import decode_request, encode_response

SASL_APIS: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class Authentication:
    """Of the connections of one listener."""

    def __init__(self, broker: Broker, admit: Callable[[KafkaConnection, Principal], None]) -> None:
        """`admit` raises `TenantRefused` or `TenantLimitReached`."""
        config = broker.config
        self._admit = admit
        self.is_enabled = config.auth.enabled
        self.login_seconds = config.auth.login_ms / 1000
        self._session_ms = config.auth.session_ms
        self._clock = broker.environment.clock
        self._broker = broker
        self._audit = broker.audit
        self._logins = broker.logins
        self._principal_rules = config.tls.principal_rules
        is_private = bool(config.tls.cert_file) or is_loopback(
            parse_address(config.kafka.listen).host
        )
        offered = config.auth.mechanisms or SASL_MECHANISMS
        self._tokens = Tokens(config.auth, broker.environment.clock)
        left_out = set() if is_private else IN_THE_CLEAR
        if not self._tokens.is_enabled:
            left_out = left_out | {OAUTHBEARER}
        self._mechanisms = [each for each in offered if each not in left_out]
        self._open: dict[KafkaConnection, SaslLogin] = {}  # logins that have begun

    def identify(self, transport: asyncio.BaseTransport) -> Principal | None:
        """As far as the connection itself says it; None: it has to log in."""
        if not self.is_enabled:
            return ANONYMOUS
        found = certificate_principal(transport, self._principal_rules)
        if found is not None:
            host = str((transport.get_extra_info("peername") or ("?",))[0])
            self._note(host, str(found), "CERTIFICATE")
        return found

    def forget(self, connection: KafkaConnection) -> None:
        self._open.pop(connection, None)

    async def handle(
        self, connection: KafkaConnection, header: RequestHeader, slot: ReplySlot
    ) -> None:
        """SaslHandshake or SaslAuthenticate; anything else is refused."""
        if header.api_key not in SASL_APIS:
            raise MalformedRequest(
                f"{api_name(header.api_key)} before a login: set security.protocol to SASL_SSL or"
                " SASL_PLAINTEXT, with sasl.mechanism, a user and its password"
            )
        if not self.is_enabled:
            raise MalformedRequest("nobody has to log in here (setting auth.enabled)")
        login = self._open.get(connection)
        if login is None:
            login = self._open[connection] = SaslLogin(
                self._logins,
                self._tokens,
                self._mechanisms,
                self._clock,
                host=connection.host,
                session_ms=self._session_ms,
            )
        request = decode_request(header.api_key, header.api_version, header.body)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            _fill(slot, header, login.shake_hands(request))
            return
        try:
            response = await login.authenticate(request)
            self._take(connection, login)
        except (AuthenticationFailed, Overloaded, TenantRefused, TenantLimitReached) as error:
            self._open.pop(connection, None)
            claimed = claimed_principal(login.user)
            self._note(connection.host, claimed, login.mechanism, str(error))
            if isinstance(error, TenantRefused | TenantLimitReached):
                # Its clients try again at once.
                await self._clock.sleep(self._broker.config.auth.failed_login_delay_ms / 1000)
            _fill(slot, header, refuse_login(error))
            connection.close()
            return
        _fill(slot, header, response)

    def _take(self, connection: KafkaConnection, login: SaslLogin) -> None:
        if login.principal is None:
            return
        if connection.principal not in (None, login.principal):
            raise AuthenticationFailed(
                f"the connection belongs to {connection.principal}: another user needs another one"
            )
        if connection.principal is None:
            self._admit(connection, login.principal)
        del self._open[connection]
        self._note(connection.host, str(login.principal), login.mechanism)
        connection.log_in(login.principal, login.lifetime_ms)
        connection.credential = self._credential(login.principal, login.mechanism)

    def _credential(self, principal: Principal, mechanism: str) -> ScramCredential | None:
        """What is kept of the password that was shown; PLAIN's may be kept for any mechanism."""
        found = self._broker.metadata.security.credentials(principal.name)
        if mechanism == PLAIN:
            return next(iter(found.values()), None)
        return found.get(mechanism)

    def find_revocation(self, connection: KafkaConnection) -> str | None:
        """Whether the password that it logged in with was changed or removed since."""
        credential = connection.credential
        if credential is None or connection.principal is None:
            return None
        found = self._broker.metadata.security.credentials(connection.principal.name)
        if credential in found.values():
            return None
        return "the password it logged in with was changed or removed"

    def _note(self, host: str, principal: str, mechanism: str, problem: str = "") -> None:
        self._audit.note(
            "authentication",
            allowed=not problem,
            principal=principal,
            host=host,
            listener="kafka",
            operation=mechanism,
            reason=problem,
        )


def _fill(slot: ReplySlot, header: RequestHeader, response: object) -> None:
    slot.fill([encode_response(header.api_key, header.api_version, response)])
