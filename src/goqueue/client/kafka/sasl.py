"""A login on a connection: SaslHandshake names the mechanism, SaslAuthenticate is the rest."""

import secrets
from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from goqueue.client.errors import BadAnswer, BadLogin
from goqueue.client.kafka.errors import KafkaRefused
from goqueue.client.kafka.login import OAUTHBEARER, PLAIN, KafkaLogin
from goqueue.model.errors import AuthenticationFailed
from goqueue.security import ScramClient
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import build_request

NONCE_BYTES: Final = 18

Ask = Callable[[ApiKey, Any], Any]  # a request and its response, as objects


def log_in(login: KafkaLogin, ask: Ask, where: str) -> None:
    """Raises `BadLogin` or `KafkaRefused`; `BadAnswer` for a server that is not what it claims."""
    mechanism = login.mechanism
    assert mechanism is not None
    response = ask(ApiKey.SASL_HANDSHAKE, build_request(ApiKey.SASL_HANDSHAKE, mechanism=mechanism))
    if response.error_code is not ErrorCode.none:
        raise BadLogin(
            f"{where} does not take sasl.mechanism {mechanism}; it takes"
            f" {', '.join(response.mechanisms) or 'none: it demands no login'}"
        )

    def send(data: bytes) -> bytes:
        request = build_request(ApiKey.SASL_AUTHENTICATE, auth_bytes=data)
        answer = ask(ApiKey.SASL_AUTHENTICATE, request)
        if answer.error_code is not ErrorCode.none:
            doing = f"login of {login.user!r} at {where}"
            raise KafkaRefused(doing, answer.error_code, answer.error_message)
        return bytes(answer.auth_bytes)

    if mechanism == OAUTHBEARER:
        send(f"n,,\x01auth=Bearer {login.read_token()}\x01\x01".encode())
        return
    if mechanism == PLAIN:
        send(f"\0{login.user}\0{login.password}".encode())
        return
    scram = ScramClient(mechanism, login.user, login.password, secrets.token_urlsafe(NONCE_BYTES))
    try:
        scram.check(send(scram.prove(send(scram.first))))
    except AuthenticationFailed as error:
        raise BadAnswer(f"login of {login.user!r} at {where}: {error}") from error
