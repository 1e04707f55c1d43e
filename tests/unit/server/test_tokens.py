"""Tokens of an identity provider: which are taken, and which are not."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from goqueue.model.config import AuthConfig
from goqueue.model.errors import AuthenticationFailed
from goqueue.security import Principal
from goqueue.server import tokens
from goqueue.server.tokens import Tokens

EC_KEY = ec.generate_private_key(ec.SECP256R1())
RSA_KEY = rsa.generate_private_key(65537, 2048)


class Provider:
    """Keys in a file, as a provider publishes them."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "jwks.json"
        self.publish(one=ECAlgorithm.to_jwk(EC_KEY.public_key()))

    def publish(self, **keys: str) -> None:
        found = [{**json.loads(key), "kid": name} for name, key in keys.items()]
        self.file.write_text(json.dumps({"keys": found}))

    def config(self, **more: Any) -> AuthConfig:
        return AuthConfig(
            enabled=True,
            oauth_jwks=str(self.file),
            oauth_issuer="https://id.example.com",
            oauth_audience="goqueue",
            **more,
        )


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    return Provider(tmp_path)


def claims(**more: Any) -> dict[str, Any]:
    return {
        "sub": "alice",
        "iss": "https://id.example.com",
        "aud": "goqueue",
        "exp": int(time.time()) + 600,
        **more,
    }


def sign(key: Any = EC_KEY, algorithm: str = "ES256", kid: str = "one", **more: Any) -> str:
    return jwt.encode(claims(**more), key, algorithm, headers={"kid": kid})


class Clock:
    """Wall clock as it is, instants by hand."""

    def __init__(self) -> None:
        self.instant_ns = 0

    def now(self) -> int:
        return 0

    def instant(self) -> int:
        return self.instant_ns


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def made(config: AuthConfig) -> tuple[Tokens, Clock]:
    clock = Clock()
    return Tokens(config, clock), clock  # type: ignore[arg-type]


def test_a_good_token(provider: Provider) -> None:
    made_tokens, _ = made(provider.config())
    found = run(made_tokens.verify(sign()))
    assert found.principal == Principal("alice")
    assert run(made_tokens.verify(sign(aud=["other", "goqueue"]))).principal.name == "alice"


def test_claims_that_name_user_and_roles(provider: Provider) -> None:
    config = provider.config(oauth_principal_claim="email", oauth_roles_claim="roles")
    made_tokens, _ = made(config)
    for roles in (["consumer", "root", "admin"], "admin consumer"):
        found = run(made_tokens.verify(sign(email="a@example.com", roles=roles)))
        assert found.principal == Principal("a@example.com", ("admin", "consumer"))
    with pytest.raises(AuthenticationFailed, match="no claim 'email'"):
        run(made_tokens.verify(sign()))


PUBLIC_PEM = EC_KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


def _none() -> str:
    return jwt.encode(claims(), "", "none", headers={"kid": "one"})


def _public_key_as_secret() -> str:
    _, body, _ = sign().split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"one"}').rstrip(b"=").decode()
    signed = f"{header}.{body}"
    mac = hmac.digest(PUBLIC_PEM, signed.encode(), hashlib.sha256)
    return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        "é",
        sign() + "x",
        sign(exp=1),
        sign(nbf=99_999_999_999),
        sign(aud="other"),
        sign(iss="https://evil.example.com"),
        sign(sub=""),
        sign(key=ec.generate_private_key(ec.SECP256R1())),
        sign(kid="two"),
        sign(key=RSA_KEY, algorithm="RS256"),
        _none(),
        _public_key_as_secret(),
        jwt.encode({"sub": "alice"}, EC_KEY, "ES256", headers={"kid": "one"}),
        "x" * 10_000,
    ],
    ids=len,
)
def test_tokens_that_are_not_taken(provider: Provider, token: str) -> None:
    made_tokens, _ = made(provider.config())
    with pytest.raises(AuthenticationFailed):
        run(made_tokens.verify(token))


def test_a_new_key_is_asked_for_and_not_too_often(provider: Provider) -> None:
    made_tokens, clock = made(provider.config())
    assert run(made_tokens.verify(sign()))
    provider.publish(two=RSAAlgorithm.to_jwk(RSA_KEY.public_key()))
    new = sign(key=RSA_KEY, algorithm="RS256", kid="two")
    with pytest.raises(AuthenticationFailed, match="does not have"):
        run(made_tokens.verify(new))  # it was asked a moment ago
    clock.instant_ns += int(tokens.REFRESH_SECONDS * 1e9) + 1
    assert run(made_tokens.verify(new)).principal == Principal("alice")
    with pytest.raises(AuthenticationFailed):
        run(made_tokens.verify(sign()))  # the key of before is withdrawn


def test_a_provider_that_is_not_there(provider: Provider) -> None:
    provider.file.unlink()
    made_tokens, _ = made(provider.config())
    with pytest.raises(AuthenticationFailed, match="not known"):
        run(made_tokens.verify(sign()))


def test_without_a_provider_no_token_is_taken() -> None:
    made_tokens, _ = made(AuthConfig(enabled=True))
    assert not made_tokens.is_enabled
    with pytest.raises(AuthenticationFailed, match=r"auth\.oauth_jwks"):
        run(made_tokens.verify(sign()))
