"""TLS: certificates that may be replaced under way, and that expire.

The Kafka and HTTP listeners have one context, the cluster port has its own (`MutualTlsNetwork`).
Both are watched alike: files that changed are read again, and before a certificate expires the log
warns, once a day.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import structlog
from cryptography import x509

from goqueue.broker.security.audit import Audit
from goqueue.model.config import TlsConfig
from goqueue.model.errors import InvalidSetting
from goqueue.model.principal_rules import map_principal
from goqueue.runtime import Clock, MutualTlsNetwork
from goqueue.security import ANONYMOUS, Principal

LOOK_SECONDS: Final = 5.0  # for files that changed
WARN_SECONDS: Final = 14 * 86_400.0  # before a certificate expires
WARN_AGAIN_SECONDS: Final = 86_400.0

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}

_log = structlog.get_logger("goqueue.tls")


class DirectSSLObject(ssl.SSLObject):
    """Without a Python call around every record: a writer's 1.3 records a message cost 7 % less.

    The loop takes both methods once a connection; they mean the same as those of `SSLObject`.
    """

    @property
    def read(self) -> Any:
        return self._sslobj.read  # type: ignore[attr-defined]

    @property
    def write(self) -> Any:
        return self._sslobj.write  # type: ignore[attr-defined]


class WatchedCertificate:
    """Blocking where it reads files."""

    def __init__(
        self, cert_file: str, others: Sequence[str], reload: Callable[[], None], clock: Clock
    ) -> None:
        """`reload` reads the certificate and the other files again, or raises `InvalidSetting`."""
        self._cert_file = cert_file
        self._paths = [path for path in (cert_file, *others) if path]
        self._reload = reload
        self._clock = clock
        self._warned_at = 0.0
        self._stamps = list(_stamps(self._paths))
        self.expires_at = _expiry(cert_file)  # seconds since 1970

    async def run(self) -> None:
        """Take up files that change, and warn before the certificate expires; until cancelled."""
        while True:
            await asyncio.to_thread(self.refresh)
            await self._clock.sleep(LOOK_SECONDS)

    def refresh(self) -> None:
        stamps = list(_stamps(self._paths))
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._reload()
                self.expires_at = _expiry(self._cert_file)
                _log.info("certificate read again", file=self._cert_file)
            except (InvalidSetting, OSError, ValueError) as error:
                _log.error("certificate not read, the one before stays", problem=str(error))
        self._warn()

    def _warn(self) -> None:
        now = self._clock.now() / 1000
        left = self.expires_at - now
        if left < WARN_SECONDS and now - self._warned_at > WARN_AGAIN_SECONDS:
            self._warned_at = now
            days = round(left / 86_400, 1)
            _log.warning("the certificate expires", file=self._cert_file, days=days)


class ServerTls:
    """Of the Kafka and HTTP listeners.  Blocking where it reads files."""

    def __init__(self, config: TlsConfig, clock: Clock) -> None:
        """Raises `InvalidSetting`."""
        self._config = config
        self.context = self._current = self._new_context()
        self.context.sni_callback = self._show_current  # called for every handshake
        self.certificate = WatchedCertificate(
            config.cert_file, (config.key_file, config.ca_file), self._reload, clock
        )

    def _reload(self) -> None:
        """As a whole: a handshake between a new certificate and its key would fail."""
        self._current = self._new_context()

    def _show_current(
        self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        connection.context = self._current

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sslobject_class = DirectSSLObject
        context.minimum_version = _VERSIONS[self._config.min_version]
        context.verify_mode = _CLIENT_AUTH[self._config.client_auth]
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        config = self._config
        try:
            context.load_cert_chain(config.cert_file, config.key_file or None, _no_password)
        except (OSError, ssl.SSLError, InvalidSetting) as error:
            raise InvalidSetting(
                f"tls.cert_file, tls.key_file: {config.cert_file}: {error}"
            ) from error
        if config.ca_file:
            try:
                context.load_verify_locations(config.ca_file)
            except (OSError, ssl.SSLError) as error:
                raise InvalidSetting(f"tls.ca_file: {config.ca_file}: {error}") from error


def watch_nodes(network: MutualTlsNetwork, clock: Clock) -> WatchedCertificate:
    """The certificate of the cluster port; blocking, and raises `InvalidSetting`."""
    ca_file, cert_file, key_file = network.files
    try:
        return WatchedCertificate(cert_file, (key_file, ca_file), network.reload, clock)
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"cluster.cert_file: {cert_file}: {error}") from error


def _no_password() -> str:
    raise InvalidSetting("the private key has a password: store it without one")


def _stamps(paths: Iterable[str]) -> Iterable[tuple[str, int, int]]:
    for path in paths:
        try:
            found = os.stat(path)
            yield path, found.st_mtime_ns, found.st_ino
        except OSError:
            yield path, 0, 0


def _expiry(path: str) -> float:
    """Of the first certificate in the file."""
    with open(path, "rb") as file:
        return x509.load_pem_x509_certificate(file.read()).not_valid_after_utc.timestamp()


def note_failed_handshake(audit: Audit, listener: str, host: str, error: ssl.SSLError) -> None:
    """On record: a client that could not log in, since its certificate is not good, say."""
    audit.note(
        "authentication",
        allowed=False,
        principal=str(ANONYMOUS),
        host=host,
        listener=listener,
        operation="TLS",
        reason=f"the TLS handshake failed: {error.reason or error}",
    )


def certificate_principal(transport: asyncio.BaseTransport, rules: list[str]) -> Principal | None:
    """Whom the client's certificate names, which an authority of ours has signed; if it has one."""
    connection = transport.get_extra_info("ssl_object")
    data = connection.getpeercert(binary_form=True) if connection is not None else None
    if not data:
        return None
    subject = x509.load_der_x509_certificate(data).subject.rfc4514_string()
    name = map_principal(rules, subject)
    return Principal(name) if name else None
