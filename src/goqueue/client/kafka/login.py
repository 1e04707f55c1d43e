"""How the Kafka client says who it is: TLS, a certificate, SASL; in Kafka's own words.

Names are librdkafka's and Java's: PEM files by `ssl.ca.location` or `ssl.truststore.location`.  A
token is read from a file whenever a connection is made (`sasl.oauthbearer.token.endpoint.url` with
a `file:` URL), so whatever renews it need not know of us.  `GOQUEUE_KAFKA_CONFIG` names a file of
such settings, as Kafka's tools take with `--command-config`, for whoever gives no login.

KafkaClient("queue:9092", login=parse_login({
    "security.protocol": "SASL_SSL", "ssl.ca.location": "ca.pem",
    "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": "…"}))
"""

import functools
import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from goqueue.client.errors import BadLogin
from goqueue.client.http.login import Login
from goqueue.client.tls import tls_context
from goqueue.security import MECHANISMS

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
CONFIG_VARIABLE: Final = "GOQUEUE_KAFKA_CONFIG"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOGIN_SETTINGS: Final = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "sasl.jaas.config",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.location",
    "ssl.truststore.type",
)
_JAAS: Final = re.compile(r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")


class KafkaLogin(msgspec.Struct, frozen=True, kw_only=True):
    is_tls: bool = False
    mechanism: str | None = None
    """None: no SASL."""
    user: str = ""
    password: str = ""
    token_file: str | None = None
    """Of OAUTHBEARER; it is read for each connection."""
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    @property
    def scheme(self) -> str:
        """Of the same server's HTTP listener."""
        return "https" if self.is_tls else "http"

    def read_token(self) -> str:
        """Raises `BadLogin`."""
        assert self.token_file is not None
        try:
            return Path(self.token_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadLogin(f"the token's file {self.token_file}: {error}") from error

    def for_http(self) -> Login:
        """The same for a client of HTTP."""
        files = Login(ca_file=self.ca_file, cert_file=self.cert_file, key_file=self.key_file)
        if not self.is_tls:
            files = Login()
        if self.mechanism == OAUTHBEARER:
            return Login(api_key=self.read_token(), **files)
        if self.mechanism is not None:
            return Login(user=self.user, password=self.password, **files)
        return files

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
    given = {name: settings[name].strip() for name in LOGIN_SETTINGS if settings.get(name)}
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise BadLogin(f"security.protocol {protocol!r}: choose one of {', '.join(PROTOCOLS)}")
    mechanism, user, password, token_file = None, "", "", None
    if protocol.startswith("SASL"):
        mechanism = _mechanism(given)
        if mechanism == OAUTHBEARER:
            token_file = _token_file(given.get("sasl.oauthbearer.token.endpoint.url", ""))
        else:
            user, password = _user_and_password(given)
    _refuse_unused(given, protocol)
    _refuse_java_stores(given)
    return KafkaLogin(
        is_tls=protocol.endswith("SSL"),
        mechanism=mechanism,
        user=user,
        password=password,
        token_file=token_file,
        ca_file=given.get("ssl.ca.location") or given.get("ssl.truststore.location"),
        cert_file=given.get("ssl.certificate.location") or given.get("ssl.keystore.location"),
        key_file=given.get("ssl.key.location"),
    )


def read_login(path: str) -> KafkaLogin:
    """Of a file of settings, a line each: `sasl.mechanism=SCRAM-SHA-512`.  Raises `BadLogin`."""
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadLogin(f"the file of Kafka's settings {path}: {error}") from error
    found: dict[str, str] = {}
    for line in text.replace("\\\n", "").splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.lstrip().startswith(("#", "!")):
            found[name.strip()] = value.strip()
    return parse_login(found)


def default_login() -> KafkaLogin:
    """Of the file that `GOQUEUE_KAFKA_CONFIG` names; without it nobody logs in."""
    path = os.environ.get(CONFIG_VARIABLE)
    return read_login(path) if path else NO_LOGIN


def _mechanism(given: Mapping[str, str]) -> str:
    mechanism = given.get("sasl.mechanism", "").upper()
    known = (*MECHANISMS, PLAIN, OAUTHBEARER)
    if mechanism not in known:
        raise BadLogin(f"sasl.mechanism {mechanism!r}: choose one of {', '.join(known)}")
    return mechanism


def _token_file(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "file" or not parts.path:
        raise BadLogin(
            "OAUTHBEARER takes its token from a file: write"
            " sasl.oauthbearer.token.endpoint.url=file:///path/of/the/token"
        )
    return unquote(parts.path)


def _refuse_java_stores(given: Mapping[str, str]) -> None:
    for name in ("truststore", "keystore"):
        kind = given.get(f"ssl.{name}.type", "PEM").upper()
        if kind != "PEM" or given.get(f"ssl.{name}.location", "").endswith((".jks", ".p12")):
            raise BadLogin(
                f"ssl.{name}.location: only PEM is read here (ssl.{name}.type=PEM): take it out of"
                " the Java store with `keytool -exportcert -rfc`, or `openssl pkcs12`"
            )


def _user_and_password(given: Mapping[str, str]) -> tuple[str, str]:
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
    return user, password


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
