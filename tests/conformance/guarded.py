"""A server with TLS and logins by every means, and what its clients need."""

import json
import ssl
import time
from pathlib import Path
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from goqueue.model.config import AuthConfig, GroupsConfig, TlsConfig
from tests.conformance.certificates import Authority
from tests.conformance.conftest import free_port_config
from tests.conformance.server import Server


class Guarded:
    """A server with TLS, and what its clients need."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority(directory)
        certificate, key = self.authority.issue("server")
        password = directory / "password"
        password.write_text("s3cret\n")
        self.signing_key = ec.generate_private_key(ec.SECP256R1())
        jwks = directory / "jwks.json"
        public = json.loads(ECAlgorithm.to_jwk(self.signing_key.public_key()))
        jwks.write_text(json.dumps({"keys": [{**public, "kid": "one"}]}))
        config = msgspec.structs.replace(
            free_port_config(directory / "data"),
            groups=GroupsConfig(initial_rebalance_delay_ms=0),
            auth=AuthConfig(
                enabled=True,
                init_admin="root",
                init_admin_password_file=str(password),
                super_users=["operator"],
                oauth_jwks=str(jwks),
                oauth_issuer="tests",
                oauth_audience="goqueue",
            ),
            tls=TlsConfig(
                cert_file=certificate,
                key_file=key,
                ca_file=self.authority.file,
                client_auth="requested",
            ),
        )
        self.server = Server(config).start()

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority.file)

    def token(self, user: str = "operator", seconds: int = 600) -> str:
        claims = {"sub": user, "iss": "tests", "aud": "goqueue", "exp": int(time.time()) + seconds}
        return jwt.encode(claims, self.signing_key, "ES256", headers={"kid": "one"})

    def rdkafka(self, mechanism: str, password: str = "s3cret") -> dict[str, Any]:
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority.file,
            "sasl.mechanism": mechanism,
            "sasl.username": "root",
            "sasl.password": password,
        }

    def python(self, mechanism: str, password: str = "s3cret") -> dict[str, Any]:
        return {
            "security_protocol": "SASL_SSL",
            "ssl_context": self.context,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "root",
            "sasl_plain_password": password,
        }
