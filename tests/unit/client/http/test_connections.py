"""How many calls may be under way at once."""

import asyncio
import contextlib
from typing import Any, Final

import httpx
import pytest

from goqueue.api.server import VersionBody
from goqueue.client import AsyncClient, errors
from goqueue.client.http.calls.call import Call
from goqueue.client.http.connections import IDLE_MAX, ConnectionPool
from tests.unit.client.http.fake_server import FakeServer, client_of, page, said


class Held:
    """A server that answers `/version`, and holds long polls until it is told to go on."""

    def __init__(self) -> None:
        self.polling = asyncio.Event()
        self.go_on = asyncio.Event()
        self.transport = httpx.MockTransport(self._answer)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        if "wait" not in request.url.params:
            return said(200, VersionBody("1", []))
        self.polling.set()
        await self.go_on.wait()
        return page(0)


async def test_a_long_poll_takes_no_connection_from_short_calls():
    server = Held()
    async with AsyncClient(
        "http://queue.test", transport=server.transport, connections_max=1, long_polls_max=1
    ) as client:
        poll = asyncio.create_task(client.fetch("t", 0, wait_ms=60_000))
        await server.polling.wait()
        assert (await client.version()).version == "1"
        server.go_on.set()
        assert [each.offset for each in (await poll).messages] == [0]


async def test_a_call_that_finds_no_free_connection_says_what_to_raise():
    server = Held()
    async with AsyncClient(
        "http://queue.test", transport=server.transport, long_polls_max=1, timeout=0.01
    ) as client:
        poll = asyncio.create_task(client.fetch("t", 0, wait_ms=60_000))
        await server.polling.wait()
        with pytest.raises(errors.NoFreeConnection, match="1 long polls under way; raise its long"):
            await client.fetch("t", 0, wait_ms=60_000)
        server.go_on.set()
        await poll


def test_the_synchronous_client_says_it_too():
    def answer(_: httpx.Request) -> httpx.Response:
        with pytest.raises(errors.NoFreeConnection, match="raise its connections_max"):
            client.health()
        return said(200, VersionBody("1", []))

    client = client_of(FakeServer(answer), connections_max=1, timeout=0.01)
    assert client.version().version == "1"


SHORT: Final[Call[Any]] = Call(method="GET", path="/x", result=dict)


def pool_of(connections_max: int = 100) -> ConnectionPool:
    return ConnectionPool(
        None, {"verify": False}, connections_max=connections_max, long_polls_max=1
    )


def test_the_connection_that_was_used_last_is_given_first():
    pool = pool_of()
    with pool.connection(SHORT, 1.0) as first, pool.connection(SHORT, 1.0) as second:
        assert first is not second
    with pool.connection(SHORT, 1.0) as again:
        assert again is first, "it came back last"
    pool.close()


def test_a_connection_is_free_again_after_an_error():
    pool = pool_of(connections_max=1)
    for _ in range(3):
        with pytest.raises(ValueError, match="mine"), pool.connection(SHORT, 0.01):
            raise ValueError("mine")
    pool.close()


def test_few_connections_are_kept_for_later_calls():
    pool = pool_of()
    with contextlib.ExitStack() as stack:
        used = [stack.enter_context(pool.connection(SHORT, 1.0)) for _ in range(IDLE_MAX + 2)]
    assert sum(each.is_closed for each in used) == 2
    pool.close()
    assert all(each.is_closed for each in used)
