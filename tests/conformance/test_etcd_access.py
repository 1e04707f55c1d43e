"""etcd that lets in only those it knows: user and password, certificates."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from goqueue.model.errors import QuorumUnavailable
from tests.conformance.etcd_server import Certificates, EtcdQuorum, EtcdServers
from tests.unit.cluster.consensus.quorums import append, read_all


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[EtcdServers]:
    """With a user `root` whose password is `secret`."""
    servers = EtcdServers(tmp_path / "etcd")
    try:
        servers.start()
        for path, body in (
            ("user/add", {"name": "root", "password": "secret"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        ):
            url = f"{servers.endpoints[0]}/v3/auth/{path}"
            httpx.post(url, content=msgspec.json.encode(body)).raise_for_status()
        yield servers
    finally:
        servers.stop()


async def test_user_and_password(guarded: EtcdServers):
    stranger = EtcdQuorum(guarded.settings("a", give_up_seconds=0.5))
    with pytest.raises(QuorumUnavailable, match="user name is empty"):
        await stranger.connect().lead()
    liar = EtcdQuorum(guarded.settings("a", user="root", password="no", give_up_seconds=0.5))
    with pytest.raises(QuorumUnavailable, match="authentication failed"):
        await liar.connect().lead()
    known = EtcdQuorum(guarded.settings("a", user="root", password="secret", watch_seconds=0.5))
    log = known.connect()
    await append(log, (await log.lead()).term, b"a")
    log._etcd._token = "Bearer of an old token"  # as after etcd's restart
    assert await read_all(log) == [b"a"]
    for each in (stranger, liar, known):
        await each.close()


@pytest.mark.slow
async def test_certificates(tmp_path: Path):
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    made = Certificates(tmp_path)
    servers = EtcdServers(tmp_path / "etcd", tls=made)
    try:
        servers.start()
        stranger = EtcdQuorum(servers.settings("a", give_up_seconds=0.5))
        with pytest.raises(QuorumUnavailable, match=r"(?i)certificate"):
            await stranger.connect().lead()
        ca_file = made.path("ca.pem")
        nameless = EtcdQuorum(servers.settings("a", ca_file=ca_file, give_up_seconds=0.5))
        with pytest.raises(QuorumUnavailable):
            await nameless.connect().lead()
        pair = {"certificate_file": made.path("client.pem"), "key_file": made.path("client.key")}
        known = EtcdQuorum(servers.settings("a", ca_file=ca_file, **pair))
        log = known.connect()
        await append(log, (await log.lead()).term, b"a")
        assert await read_all(log) == [b"a"]
        for each in (stranger, nameless, known):
            await each.close()
    finally:
        servers.stop()
