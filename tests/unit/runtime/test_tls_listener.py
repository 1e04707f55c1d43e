"""Handshakes that fail are told, with the client's address; the others are served."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goqueue.runtime import Handshakes, Listener, RealNetwork
from tests.conformance.certificates import Authority
from tests.unit.runtime.test_mutual_tls import LIMIT_S, Line

Failed = asyncio.Queue[tuple[str, ssl.SSLError]]


@contextlib.asynccontextmanager
async def listening(authority: Authority) -> AsyncIterator[tuple[Listener, Failed]]:
    """For clients with a certificate of the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    failed: Failed = asyncio.Queue()
    async with asyncio.TaskGroup() as tasks:
        handshakes = Handshakes(tasks, lambda host, error: failed.put_nowait((host, error)))
        listener = await RealNetwork().listen("127.0.0.1", 0, Line, context, handshakes)
        yield listener, failed
        await listener.close()


def client_context(trusted: Authority, shown: Authority | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trusted.file)
    context.check_hostname = False
    if shown is not None:
        context.load_cert_chain(*shown.issue("client"))
    return context


async def hear(listener: Listener, context: ssl.SSLContext) -> bytes:
    """What the listener said; nothing when it did not let the client in."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection(*listener.address, ssl=context)
        try:
            return await reader.read(5)
        finally:
            writer.close()
    return b""


@pytest.mark.timeout(60)
async def test_who_shows_a_foreign_certificate_or_none_is_told_of(tmp_path: Path):
    ours = Authority(tmp_path)
    (tmp_path / "foreign").mkdir()
    foreign = Authority(tmp_path / "foreign")
    async with asyncio.timeout(LIMIT_S), listening(ours) as (listener, failed):
        assert await hear(listener, client_context(ours, ours)) == b"hello"
        assert failed.empty()
        for shown in (foreign, None):
            assert await hear(listener, client_context(ours, shown)) == b""
        told = [await failed.get() for _ in range(2)]
        assert {host for host, _ in told} == {"127.0.0.1"}
        reasons = {error.reason for _, error in told}
        assert reasons == {"CERTIFICATE_VERIFY_FAILED", "PEER_DID_NOT_RETURN_A_CERTIFICATE"}
        assert await hear(listener, client_context(ours, ours)) == b"hello"


@pytest.mark.timeout(60)
async def test_who_only_looks_is_not_told_of_and_closing_does_not_wait_for_it(tmp_path: Path):
    async with asyncio.timeout(LIMIT_S), listening(Authority(tmp_path)) as (listener, failed):
        _, scanner = await asyncio.open_connection(*listener.address)
        scanner.close()
        _, silent = await asyncio.open_connection(*listener.address)
        await asyncio.sleep(0.05)
    silent.close()
    assert failed.empty()
