"""A connection to another node, byte by byte."""

import asyncio
import socket
from typing import Any

import pytest

from goqueue.broker.cluster.connection import SILENT_MS, NodeConnection, notice_cuts
from goqueue.model.errors import NodeUnreachable, Uncertain
from goqueue.testing.sim import run
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.node_messages import (
    FRAME_BYTES_MAX,
    MetadataEnd,
    MetadataEndReply,
    encode_done,
)
from goqueue.wire.primitives import INT32


class Wire(asyncio.Transport):
    """Keeps what is written, and whether it was broken off."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.aborted = False

    def writelines(self, parts: Any) -> None:
        for part in parts:
            self.written += part

    def abort(self) -> None:
        self.aborted = True


def test_a_connection_that_is_cut_is_noticed_by_the_kernel():
    with socket.socket() as handle:
        notice_cuts(handle)
        assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 1
        assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == SILENT_MS


def connected() -> tuple[NodeConnection, Wire]:
    connection, wire = NodeConnection("a:1"), Wire()
    connection.connection_made(wire)
    return connection, wire


def feed(connection: NodeConnection, data: bytes) -> None:
    for at in range(len(data)):
        connection.get_buffer(-1)[:1] = data[at : at + 1]
        connection.buffer_updated(1)


def answer(number: int, end: int) -> bytes:
    body = INT32.pack(number) + b"".join(bytes(part) for part in encode_done(MetadataEndReply(end)))
    return INT32.pack(len(body)) + body


def test_answers_go_by_their_number():
    async def story() -> None:
        connection, wire = connected()
        asked = []
        for _ in range(2):
            asked.append(asyncio.ensure_future(connection.ask(MetadataEnd(), 5.0)))
            await asyncio.sleep(0.01)
        assert wire.written.count(b"\x4e\x23") == 2  # the number of the API
        feed(connection, answer(2, 20) + answer(1, 10))
        assert [reply.end for reply in await asyncio.gather(*asked)] == [10, 20]

    run(story())


def test_an_answer_that_comes_too_late_is_dropped():
    async def story() -> None:
        connection, wire = connected()
        with pytest.raises(Uncertain, match="did not answer metadata_end in 1 s"):
            await connection.ask(MetadataEnd(), 1.0)
        feed(connection, answer(1, 10))
        assert wire.aborted
        with pytest.raises(NodeUnreachable, match="was not answered within 1 s"):
            await connection.ask(MetadataEnd(), 1.0)

    run(story())


@pytest.mark.parametrize(
    "data",
    [
        answer(7, 1),  # nobody asked
        INT32.pack(2) + b"xx",
        INT32.pack(FRAME_BYTES_MAX + 1),
        INT32.pack(-1),
        b"HTTP/1.1 400",
    ],
)
def test_what_is_no_answer_ends_the_connection(data: bytes):
    async def story() -> None:
        connection, wire = connected()
        asked = asyncio.ensure_future(connection.ask(MetadataEnd(), 5.0))
        await asyncio.sleep(0.01)
        feed(connection, data)
        assert wire.aborted
        with pytest.raises(Uncertain):
            await asked

    run(story())


@pytest.mark.parametrize("body", [b"", b"\x07", b"\x00\xff", b"\x01\xff", b"\x00"])
def test_an_answer_that_cannot_be_read_is_told_as_that(body: bytes):
    async def story() -> None:
        connection, _ = connected()
        asked = asyncio.ensure_future(connection.ask(MetadataEnd(), 5.0))
        await asyncio.sleep(0.01)
        feed(connection, INT32.pack(4 + len(body)) + INT32.pack(1) + body)
        with pytest.raises((MalformedRequest, Uncertain)):
            await asked

    run(story())


def test_the_end_of_the_connection_ends_all_waiting():
    async def story() -> None:
        connection, _ = connected()
        asked = asyncio.ensure_future(connection.ask(MetadataEnd(), 5.0))
        await asyncio.sleep(0.01)
        connection.connection_lost(ConnectionResetError("reset"))
        with pytest.raises(Uncertain, match="reset"):
            await asked
        with pytest.raises(NodeUnreachable, match="reset"):
            await connection.ask(MetadataEnd(), 5.0)

    run(story())
