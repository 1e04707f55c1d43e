"""Certificates for tests: an authority, a server on loopback, and users."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey
DAYS = 30


class Authority:
    """Writes `NAME.pem` and `NAME.key` into a directory."""

    def __init__(self, directory: Path, name: str = "Test Authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.file = self._write("ca", self._key, self._sign(self._name, self._key, is_ca=True))

    def issue(self, name: str, days: int = DAYS) -> tuple[str, str]:
        """The files of the certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._sign(_name(name), key, days=days)
        return self._write(name, key, made), str(self._directory / f"{name}.key")

    def _sign(
        self, subject: x509.Name, key: Key, *, is_ca: bool = False, days: int = DAYS
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        if not is_ca:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, key: Key, certificate: x509.Certificate) -> str:
        file = self._directory / f"{name}.pem"
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        file.with_suffix(".key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return str(file)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
