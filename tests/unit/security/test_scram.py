"""SCRAM: the exchange of RFC 7677, and what is refused."""

import base64
import contextlib
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.errors import AuthenticationFailed, InvalidRequest
from goqueue.security import (
    MECHANISMS,
    ScramCredential,
    ScramExchange,
    credential_of,
    derive_credential,
    parse_client_first,
    password_matches,
    stand_in_credential,
)
from goqueue.security.scram import HASHES, MESSAGE_BYTES_MAX, PASSWORD_BYTES_MAX

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def client_final(
    mechanism: str,
    password: str,
    first: bytes,
    server_first: bytes,
    header: str = "n,,",
    before_nonce: str = "",
) -> bytes:
    """A client that nobody here wrote the server for: RFC 5802, section 3."""
    name = HASHES[mechanism]
    fields = dict(each.split("=", 1) for each in server_first.decode().split(","))
    salted = hashlib.pbkdf2_hmac(
        name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
    )
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    channel = base64.b64encode(header.encode()).decode()
    without_proof = f"c={channel},r={before_nonce}{fields['r']}"
    bare = first.decode()[len(header) :]
    signed = f"{bare},{server_first.decode()},{without_proof}".encode()
    signature = hmac.digest(stored_key, signed, name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True)))
    return f"{without_proof},p={proof.decode()}".encode()


def test_the_exchange_of_the_rfc() -> None:
    credential = derive_credential("SCRAM-SHA-256", "pencil", SALT, 4096)
    first = parse_client_first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    exchange = ScramExchange(credential, first, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert exchange.server_first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    last = exchange.finish(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_right_password_and_only_that(mechanism: str) -> None:
    credential = derive_credential(mechanism, "pencil", SALT, 4096)
    assert password_matches(credential, "pencil")
    assert not password_matches(credential, "Pencil")
    assert not password_matches(credential, "")
    first = b"n,,n=al=2Cice=3D,r=abc"
    parsed = parse_client_first(first)
    assert parsed.user == "al,ice="
    exchange = ScramExchange(credential, parsed, "def")
    assert exchange.finish(client_final(mechanism, "pencil", first, exchange.server_first))
    again = ScramExchange(credential, parsed, "def")
    with pytest.raises(AuthenticationFailed, match="unknown, or the password is wrong"):
        again.finish(client_final(mechanism, "pen", first, again.server_first))


def test_an_old_proof_is_of_no_use() -> None:
    credential = derive_credential("SCRAM-SHA-256", "pencil", SALT, 4096)
    first = b"n,,n=user,r=abc"
    exchange = ScramExchange(credential, parse_client_first(first), "def")
    heard = client_final("SCRAM-SHA-256", "pencil", first, exchange.server_first)
    later = ScramExchange(credential, parse_client_first(first), "ghi")
    with pytest.raises(AuthenticationFailed, match="does not belong"):
        later.finish(heard)
    with pytest.raises(AuthenticationFailed):
        later.finish(heard.replace(b"r=abcdef", b"r=abcghi"))


@pytest.mark.parametrize(("before_nonce", "is_known"), [("", True), ("abc", True), ("x", False)])
def test_a_nonce_that_librdkafka_repeats_is_known(before_nonce: str, is_known: bool) -> None:
    credential = derive_credential("SCRAM-SHA-256", "pencil", SALT, 4096)
    first = b"n,,n=user,r=abc"
    exchange = ScramExchange(credential, parse_client_first(first), "def")
    final = client_final(
        "SCRAM-SHA-256", "pencil", first, exchange.server_first, before_nonce=before_nonce
    )
    with contextlib.nullcontext() if is_known else pytest.raises(AuthenticationFailed):
        assert exchange.finish(final).startswith(b"v=")


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"", "malformed"),
        (b"n,,n=user", "malformed"),
        (b"p=tls-unique,,n=user,r=abc", "channel binding"),
        (b"n,a=other,n=user,r=abc", "act as another"),
        (b"n,,m=x,n=user,r=abc", "extension"),
        (b"n,,n=us=er,r=abc", "name is malformed"),
        (b"n,,n=\xff,r=abc", "UTF-8"),
        (b"n,,n=" + b"x" * MESSAGE_BYTES_MAX + b",r=abc", "bytes"),
    ],
)
def test_bad_first_messages(message: bytes, problem: str) -> None:
    with pytest.raises(AuthenticationFailed, match=problem):
        parse_client_first(message)


@given(st.binary(max_size=200))
def test_hostile_bytes_are_refused_and_nothing_else(data: bytes) -> None:
    credential = derive_credential("SCRAM-SHA-256", "pencil", SALT, 4096)
    exchange = ScramExchange(credential, parse_client_first(b"n,,n=user,r=abc"), "def")
    for call in (
        lambda: exchange.finish(data),
        lambda: exchange.finish(b"c=biws,r=abcdef,p=" + data),
    ):
        with pytest.raises(AuthenticationFailed):
            call()


@pytest.mark.parametrize(
    "change", [{"iterations": 1}, {"iterations": 10**9}, {"salt": b""}, {"mechanism": "MD5"}]
)
def test_credentials_that_are_not_kept(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"mechanism": "SCRAM-SHA-256", "salt": SALT, "iterations": 4096}
    with pytest.raises(InvalidRequest):
        credential_of(salted_password=b"x" * 32, **(good | change))


def test_passwords_are_bounded() -> None:
    for password in ("", "x" * (PASSWORD_BYTES_MAX + 1)):
        with pytest.raises(InvalidRequest):
            derive_credential("SCRAM-SHA-256", password, SALT)
    credential = derive_credential("SCRAM-SHA-256", "pencil", SALT)
    assert not password_matches(credential, "x" * (PASSWORD_BYTES_MAX + 1))


def test_nobody_is_told_who_is_not_there() -> None:
    one = stand_in_credential("SCRAM-SHA-512", "eve", b"secret")
    assert one == stand_in_credential("SCRAM-SHA-512", "eve", b"secret")
    assert one.salt != stand_in_credential("SCRAM-SHA-512", "eva", b"secret").salt
    real = derive_credential("SCRAM-SHA-512", "pencil", SALT)
    assert (len(one.salt), one.iterations, len(one.stored_key)) == (
        len(real.salt),
        real.iterations,
        len(real.stored_key),
    )
    assert isinstance(one, ScramCredential)
