"""Whoever has no certificate of the nodes' authority gets nowhere, on either side."""

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest

from goqueue.model.errors import InvalidSetting
from goqueue.runtime import MutualTlsNetwork, RealNetwork
from tests.conformance.certificates import Authority

LIMIT_S = 20.0


class Line(asyncio.Protocol):
    """Says hello, and remembers what it heard, or that it ended."""

    def __init__(self) -> None:
        self.heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(b"hello")

    def data_received(self, data: bytes) -> None:
        if not self.heard.done():
            self.heard.set_result(data)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.heard.done():
            self.heard.set_result(b"")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def network(directory: Path, authority: Authority, name: str) -> MutualTlsNetwork:
    cert_file, key_file = authority.issue(name)
    return MutualTlsNetwork(RealNetwork(), authority.file, cert_file, key_file)


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def foreign(tmp_path: Path) -> Authority:
    directory = tmp_path / "foreign"
    directory.mkdir()
    return Authority(directory)


async def talk(server: MutualTlsNetwork, client: MutualTlsNetwork | RealNetwork) -> bytes:
    """What the client heard; nothing if it was not let in."""
    accepted: list[Line] = []

    def accept() -> Line:
        accepted.append(Line())
        return accepted[-1]

    async with asyncio.timeout(LIMIT_S):
        listener = await server.listen("127.0.0.1", 0, accept)
        line = Line()
        try:
            with contextlib.suppress(ssl.SSLError, ConnectionError):
                await client.connect(*listener.address, lambda: line)
                return await line.heard
            return b""
        finally:
            line.close()
            for each in accepted:
                each.close()
            await listener.close()


async def test_nodes_of_one_authority_talk(tmp_path: Path, ours: Authority):
    pair = network(tmp_path, ours, "one"), network(tmp_path, ours, "two")
    assert await talk(*pair) == b"hello"


async def test_others_are_refused_on_both_sides(
    tmp_path: Path, ours: Authority, foreign: Authority
):
    inside, outside = network(tmp_path, ours, "one"), network(tmp_path, foreign, "two")
    assert await talk(inside, outside) == b""
    assert await talk(outside, inside) == b""
    assert await talk(inside, RealNetwork()) == b""  # without TLS
    knows_us = MutualTlsNetwork(RealNetwork(), ours.file, *foreign.issue("three"))
    assert await talk(inside, knows_us) == b""


async def test_files_that_cannot_be_used_are_named(tmp_path: Path, ours: Authority):
    cert_file, key_file = ours.issue("one")
    for ca, cert, key, setting in (
        (str(tmp_path / "none"), cert_file, key_file, "cluster.ca_file"),
        (ours.file, str(tmp_path / "none"), "", "cluster.cert_file"),
        (ours.file, cert_file, ours.issue("two")[1], "cluster.key_file"),
    ):
        with pytest.raises(InvalidSetting, match=setting):
            await MutualTlsNetwork(RealNetwork(), ca, cert, key).connect("127.0.0.1", 1, Line)


def copy(target: Path, *sources: str) -> str:
    target.write_bytes(b"".join(Path(each).read_bytes() for each in sources))
    return str(target)


async def test_renewed_certificates_count_from_the_next_connection_on(
    tmp_path: Path, ours: Authority
):
    """A node that changes to another authority is known by those who know that one."""
    cert, key, ca = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "both.pem"
    old_cert, old_key = ours.issue("server")
    server = MutualTlsNetwork(
        RealNetwork(), copy(ca, ours.file), copy(cert, old_cert), copy(key, old_key)
    )
    client = network(tmp_path, ours, "client")
    assert await talk(server, client) == b"hello"

    directory = tmp_path / "next"
    directory.mkdir()
    following = Authority(directory, "The next authority")
    newcomer = network(directory, following, "newcomer")
    assert await talk(server, newcomer) == b""
    copy(cert, old_key)
    with pytest.raises(InvalidSetting):
        server.reload()
    assert await talk(server, client) == b"hello"  # the one before stays
    new_cert, new_key = following.issue("server")
    copy(cert, new_cert)
    copy(key, new_key)
    copy(ca, ours.file, following.file)
    server.reload()
    assert await talk(server, newcomer) == b"hello"
