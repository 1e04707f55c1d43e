"""Logins with a server that may say no, or may be another one."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.client.errors import BadAnswer, BadLogin
from goqueue.client.kafka.errors import KafkaRefused
from goqueue.client.kafka.login import KafkaLogin
from goqueue.client.kafka.sasl import log_in
from goqueue.security import ScramExchange, derive_credential, parse_client_first
from goqueue.wire.apis import ApiKey

SCRAM = KafkaLogin(mechanism="SCRAM-SHA-512", user="alice", password="hidden")
PLAIN = KafkaLogin(mechanism="PLAIN", user="alice", password="hidden")


def server(answer: Callable[[bytes], bytes], *offered: str) -> Callable[[ApiKey, Any], Any]:
    def ask(api_key: ApiKey, request: Any) -> Any:
        if api_key is ApiKey.SASL_HANDSHAKE:
            is_known = request.mechanism in offered
            code = ErrorCode.none if is_known else ErrorCode.unsupported_sasl_mechanism
            return SimpleNamespace(error_code=code, mechanisms=offered)
        try:
            said = answer(bytes(request.auth_bytes))
        except PermissionError as error:
            code = ErrorCode.sasl_authentication_failed
            return SimpleNamespace(error_code=code, error_message=str(error), auth_bytes=b"")
        return SimpleNamespace(error_code=ErrorCode.none, error_message=None, auth_bytes=said)

    return ask


def refuse(_: bytes) -> bytes:
    raise PermissionError("the password is wrong")


class Scram:
    """Any password but the right one is as good as none."""

    def __init__(self, password: str) -> None:
        self._credential = derive_credential("SCRAM-SHA-512", password, b"salt")
        self._exchange: ScramExchange | None = None

    def __call__(self, data: bytes) -> bytes:
        if self._exchange is None:
            self._exchange = ScramExchange(self._credential, parse_client_first(data), "more")
            return self._exchange.server_first
        return self._exchange.finish(data)


def test_the_right_password_logs_in():
    sent: list[bytes] = []

    def take(data: bytes) -> bytes:
        sent.append(data)
        return b""

    log_in(PLAIN, server(take, "PLAIN"), "here")
    assert sent == [b"\0alice\0hidden"]
    log_in(SCRAM, server(Scram("hidden"), "PLAIN", "SCRAM-SHA-512"), "here")


@pytest.mark.parametrize("login", [PLAIN, SCRAM])
def test_a_refusal_says_where_and_why(login: KafkaLogin):
    with pytest.raises(KafkaRefused, match=r"'alice' at here.*the password is wrong") as caught:
        log_in(login, server(refuse, "PLAIN", "SCRAM-SHA-512"), "here")
    assert not caught.value.is_retriable
    assert "hidden" not in str(caught.value)


def test_a_mechanism_that_is_not_offered_is_told_with_those_that_are():
    with pytest.raises(BadLogin, match="it takes SCRAM-SHA-256"):
        log_in(PLAIN, server(refuse, "SCRAM-SHA-256"), "here")
    with pytest.raises(BadLogin, match="demands no login"):
        log_in(PLAIN, server(refuse), "here")


def test_a_server_that_only_pretends_to_know_the_password_is_found_out():
    real = Scram("hidden")

    def pretend(data: bytes) -> bytes:
        return b"v=bm8=" if b",p=" in data else real(data)

    with pytest.raises(BadAnswer, match="right one"):
        log_in(SCRAM, server(pretend, "SCRAM-SHA-512"), "here")
