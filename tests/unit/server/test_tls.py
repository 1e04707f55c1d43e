"""Certificates that are replaced, and that expire."""

import contextlib
import ssl
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from goqueue.model.config import TlsConfig
from goqueue.model.errors import InvalidSetting
from goqueue.runtime import MutualTlsNetwork, RealNetwork, real_environment
from goqueue.server.tls import ServerTls, WatchedCertificate, watch_nodes
from tests.conformance.certificates import Authority

DAY = 86_400


def test_changed_files_are_read_again_and_damaged_ones_change_nothing(tmp_path: Path):
    authority = Authority(tmp_path)
    cert, key = map(Path, authority.issue("server"))
    clock = real_environment(16).clock
    certificate = ServerTls(TlsConfig(cert_file=str(cert), key_file=str(key)), clock).certificate
    good = cert.read_bytes()
    with capture_logs() as logs:
        certificate.refresh()
        cert.write_text("damaged")
        certificate.refresh()
        cert.write_bytes(good)
        certificate.refresh()
    events = [each["event"] for each in logs]
    assert events.count("certificate not read, the one before stays") == 1
    assert events[-1] == "certificate read again" or "expires" in events[-1]


def test_before_a_certificate_expires_the_log_warns_once_a_day(tmp_path: Path):
    cert, _ = Authority(tmp_path).issue("server")

    class Clock:
        at = 0.0

        def now(self) -> int:
            return int(self.at * 1000)

    clock = Clock()
    watched = WatchedCertificate(cert, (), lambda: None, clock)  # type: ignore[arg-type]

    def warnings_at(left: float) -> int:
        clock.at = watched.expires_at - left
        with capture_logs() as logs:
            watched.refresh()
            watched.refresh()
        return len(logs)

    assert [warnings_at(days * DAY) for days in (15, 13.9, 13.5, 12, -1)] == [0, 1, 0, 1, 1]


def test_the_nodes_certificate_is_watched_too(tmp_path: Path):
    authority = Authority(tmp_path)
    network = MutualTlsNetwork(RealNetwork(), authority.file, *authority.issue("node"))
    clock = real_environment(16).clock
    assert watch_nodes(network, clock).expires_at > clock.now() / 1000
    with pytest.raises(InvalidSetting, match="cert_file"):
        watch_nodes(MutualTlsNetwork(RealNetwork(), "ca", "lacking", "key"), clock)


def test_records_are_read_and_written_as_by_the_standard_object(tmp_path: Path):
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    clock = real_environment(16).clock
    context = ServerTls(TlsConfig(cert_file=str(cert), key_file=str(key)), clock).context
    trusting = ssl.create_default_context(cafile=authority.file)
    trusting.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = trusting.wrap_bio(to_client, to_server)
    shake_hands(client, server)

    client.write(b"hello")
    client.write(b"world")
    room = bytearray(20)
    server.read(20, room)  # one record at a time
    assert (bytes(room[:6]), server.read(20)) == (b"hello\0", b"world")
    with pytest.raises(ssl.SSLWantReadError):
        server.read(20, room)
    assert server.write(memoryview(b"back")) == 4
    assert client.read(20) == b"back"


def test_connections_see_the_certificate_of_their_moment(tmp_path: Path):
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    clock = real_environment(16).clock
    tls = ServerTls(TlsConfig(cert_file=str(cert), key_file=str(key)), clock)
    trusting = ssl.create_default_context(cafile=authority.file)
    trusting.check_hostname = False
    shown = []
    for _ in range(3):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trusting.wrap_bio(to_client, to_server)
        shake_hands(client, tls.context.wrap_bio(to_server, to_client, server_side=True))
        shown.append(client.getpeercert(binary_form=True))
        if len(shown) == 2:
            authority.issue("server")
            tls.certificate.refresh()
    assert shown[0] == shown[1] != shown[2]


def shake_hands(*ends: ssl.SSLObject) -> None:
    for end in ends * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
