"""The client's side of SCRAM, against the examples of the RFC and our own server's side."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.model.errors import AuthenticationFailed
from goqueue.security import MECHANISMS, ScramClient, ScramExchange, derive_credential
from goqueue.security.scram import parse_client_first

NONCE = "rOprNGfwEbeRWgbNEkqO"


def test_the_exchange_of_rfc_7677():
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert client.first == f"n,,n=user,r={NONCE}".encode()
    final = client.prove(
        f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    )
    assert (
        final
        == (
            f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        ).encode()
    )
    client.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@given(
    st.sampled_from(MECHANISMS), st.text("a=,\u00e9 ", min_size=1), st.text("p=,\u00e9", min_size=1)
)
@settings(max_examples=20, deadline=None)
def test_both_sides_agree_for_any_name_and_password(mechanism: str, user: str, password: str):
    client = ScramClient(mechanism, user, password, NONCE)
    first = parse_client_first(client.first)
    assert first.user == user
    exchange = ScramExchange(derive_credential(mechanism, password, b"salt", 4_096), first, "more")
    client.check(exchange.finish(client.prove(exchange.server_first)))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"e=other-error",
        f"r={NONCE},s=c2FsdA==,i=4096".encode(),  # adds nothing of its own
        b"r=another,s=c2FsdA==,i=4096",
        f"r={NONCE}x,s=c2FsdA==,i=1".encode(),  # so few would make the password easy to guess
        f"r={NONCE}x,s=c2FsdA==,i=99999999".encode(),
        f"r={NONCE}x,s=c2Fsd,i=4096".encode(),
    ],
)
def test_a_server_that_does_not_keep_to_it_gets_no_proof(message: bytes):
    with pytest.raises(AuthenticationFailed, match="SCRAM"):
        ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE).prove(message)


def test_a_server_that_does_not_know_the_password_is_found_out():
    client = ScramClient("SCRAM-SHA-512", "user", "pencil", NONCE)
    with pytest.raises(AuthenticationFailed, match="right one"):
        client.check(b"v=")  # before anything was proved
    client.prove(f"r={NONCE}x,s=c2FsdA==,i=4096".encode())
    with pytest.raises(AuthenticationFailed, match="right one"):
        client.check(b"v=bm8=")
