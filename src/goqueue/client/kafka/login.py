"""How the Kafka client says who it is: TLS, a certificate, SASL; in Kafka's own words.

KafkaClient("queue:9092", login=parse_login({
    "security.protocol": "SASL_SSL", "ssl.ca.location": "ca.pem",
    "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": "…"}))
"""

import functools
import re
import ssl
from collections.abc import Mapping
from typing import Final

import msgspec

from goqueue.client.errors import BadLogin
from goqueue.client.tls import tls_context
from goqueue.security import MECHANISMS

PLAIN: Final = "PLAIN"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SETTINGS: Final = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "sasl.jaas.config",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
)
_JAAS: Final = re.compile(r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")


class KafkaLogin(msgspec.Struct, frozen=True, kw_only=True):
    is_tls: bool = False
    mechanism: str | None = None
    """None: no SASL."""
    user: str = ""
    password: str = ""
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def __repr__(self) -> str:
        """Without the password: this is in error messages and logs."""
        return f"KafkaLogin(is_tls={self.is_tls}, {self.mechanism or 'no SASL'}, {self.user!r})"

    def context(self) -> ssl.SSLContext | None:
        if not self.is_tls:
            return None
        return _context(self.ca_file, self.cert_file, self.key_file)


@functools.lru_cache(maxsize=8)
def _context(ca_file: str | None, cert_file: str | None, key_file: str | None) -> ssl.SSLContext:
    """Read once: a client makes a connection to each node."""
    return tls_context(ca_file, cert_file, key_file)


NO_LOGIN: Final = KafkaLogin()


def parse_login(settings: Mapping[str, str]) -> KafkaLogin:
    """Of settings by Kafka's names; others are let be.  Raises `BadLogin`."""
    given = {name: settings[name].strip() for name in SETTINGS if settings.get(name)}
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise BadLogin(f"security.protocol {protocol!r}: choose one of {', '.join(PROTOCOLS)}")
    mechanism, user, password = None, "", ""
    if protocol.startswith("SASL"):
        mechanism, user, password = _sasl(given)
    _refuse_unused(given, protocol)
    return KafkaLogin(
        is_tls=protocol.endswith("SSL"),
        mechanism=mechanism,
        user=user,
        password=password,
        ca_file=given.get("ssl.ca.location"),
        cert_file=given.get("ssl.certificate.location"),
        key_file=given.get("ssl.key.location"),
    )


def _sasl(given: Mapping[str, str]) -> tuple[str, str, str]:
    mechanism = given.get("sasl.mechanism", "").upper()
    if mechanism not in (*MECHANISMS, PLAIN):
        known = ", ".join((*MECHANISMS, PLAIN))
        raise BadLogin(f"sasl.mechanism {mechanism!r}: choose one of {known}")
    jaas = {
        name: re.sub(r"\\(.)", r"\1", double) or single
        for name, double, single in _JAAS.findall(given.get("sasl.jaas.config", ""))
    }
    user = given.get("sasl.username") or jaas.get("username")
    password = given.get("sasl.password") or jaas.get("password")
    if not user or not password:
        raise BadLogin(
            "sasl.username and sasl.password are missing (or username and password in"
            " sasl.jaas.config)"
        )
    return mechanism, user, password


def _refuse_unused(given: Mapping[str, str], protocol: str) -> None:
    """A login that is given and not used would be sent nowhere, or in clear, unnoticed."""
    for word, prefix in (("SASL", "sasl."), ("SSL", "ssl.")):
        unused = [name for name in given if name.startswith(prefix)]
        used = protocol.startswith(word) if word == "SASL" else protocol.endswith(word)
        if unused and not used:
            raise BadLogin(
                f"{unused[0]} is given, and security.protocol is {protocol}: set it to"
                f" {'SASL_SSL' if word == 'SASL' else 'SSL or SASL_SSL'}"
            )
