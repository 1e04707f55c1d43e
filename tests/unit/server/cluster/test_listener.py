"""The cluster listener and whoever connects to it: nodes, strangers, and clients gone astray."""

import asyncio
from typing import cast

import pytest

from goqueue.broker.cluster.connection import NodeConnection
from goqueue.broker.cluster.handshake import check_reply, say_hello
from goqueue.model.errors import GoQueueError, Unauthorized, Uncertain
from goqueue.model.ids import NodeId
from goqueue.server.cluster.listener import ClusterListener, Handler
from goqueue.server.kafka.reply import ReplySlot
from goqueue.testing.sim import World
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import encode_request
from goqueue.wire.frames import RequestHeader
from goqueue.wire.node_messages import (
    FRAME_BYTES_MAX,
    MetadataEnd,
    MetadataEndReply,
    MetadataFollow,
    MetadataPart,
    NodeApi,
    Prove,
    encode_node_request,
)
from goqueue.wire.primitives import INT32
from tests.unit.broker.cluster.cluster_hosts import ONE, PORT, TWO, NoMetrics, listening, peer_on


async def end(node_id: NodeId, request: MetadataEnd) -> MetadataEndReply:
    return MetadataEndReply(100 + node_id)


async def wait(node_id: NodeId, request: MetadataFollow) -> MetadataPart:
    await asyncio.Event().wait()
    raise AssertionError


async def fail(node_id: NodeId, request: object) -> object:
    raise ZeroDivisionError


HANDLERS: dict[NodeApi, Handler] = {
    NodeApi.METADATA_END: end,
    NodeApi.METADATA_FOLLOW: wait,
    NodeApi.FORWARD: fail,
    NodeApi.NODE_HEARTBEAT: fail,
}


class Stranger(asyncio.Protocol):
    """Sends bytes, and keeps what comes until the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.received = bytearray()
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._data)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set_result(None)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"cluster port, for the other nodes"),
        (INT32.pack(FRAME_BYTES_MAX + 1), b""),
        (INT32.pack(10) + b"\x00\x03\x00\x00\x00\x00\x00\x01\xff\xff", b""),  # Kafka's Metadata
        (INT32.pack(3) + b"abc", b""),
        (encode_node_request(1, MetadataEnd()), b"has not said who it is"),
        (encode_node_request(1, Prove(b"guess")), b"a proof without a greeting"),
    ],
)
def test_a_stranger_costs_its_connection(data: bytes, expected: bytes):
    async def story(world: World) -> None:
        async with listening(world.environment("a"), HANDLERS):
            stranger = Stranger(data)
            await world.environment("b").network.connect("a", PORT, lambda: stranger)
            await stranger.ended
            assert expected in stranger.received
            peer = peer_on(world, "b", "a")
            assert (await peer.ask(MetadataEnd(), 1.0)).end == 102
            peer.close()

    with World() as world:
        world.run(story(world))


def test_a_wrong_proof_gets_no_second_try():
    async def story(world: World) -> None:
        async with listening(world.environment("a"), HANDLERS):
            connection = NodeConnection("a")
            await world.environment("b").network.connect("a", PORT, lambda: connection)
            hello = say_hello(TWO, b"nonce")
            reply = await connection.ask(hello, 1.0)
            with pytest.raises(Unauthorized):
                await connection.ask(Prove(b"wrong"), 1.0)
            with pytest.raises(GoQueueError):
                await connection.ask(check_reply(TWO, hello, reply), 1.0)

    with World() as world:
        world.run(story(world))


def test_a_bug_in_a_handler_costs_its_request_only():
    async def story(world: World) -> None:
        async with listening(world.environment("a"), {**HANDLERS, NodeApi.METADATA_END: fail}):
            peer = peer_on(world, "b", "a")
            for _ in range(2):
                with pytest.raises(GoQueueError, match="node 1 failed"):
                    await peer.ask(MetadataEnd(), 1.0)
            peer.close()

    with World() as world:
        world.run(story(world))


def test_nodes_use_requests_of_kafka_and_strangers_do_not():
    async def fetch(node_id: NodeId, header: RequestHeader, slot: ReplySlot) -> None:
        slot.fill([b"%d of node %d: " % (header.api_version, node_id), bytes(header.body)])

    async def story(world: World) -> None:
        a = world.environment("a")
        listener = ClusterListener(
            a,
            f"0.0.0.0:{PORT}",
            lambda: ONE,
            HANDLERS,
            NoMetrics(),
            kafka_handlers={ApiKey.FETCH: fetch},
        )
        async with asyncio.TaskGroup() as tasks:
            await listener.start(tasks)
            peer = peer_on(world, "b", "a")
            for body in (b"first", b"x" * 100_000):
                answer = await peer.ask_kafka(ApiKey.FETCH, 18, [body[:3], body[3:]], 5.0)
                assert answer == b"18 of node 2: " + body
            assert (await peer.ask(MetadataEnd(), 1.0)).end == 102
            with pytest.raises(Uncertain):  # it is not served here, and the connection ends
                await peer.ask_kafka(ApiKey.METADATA, 12, [b""], 5.0)
            stranger = Stranger(b"".join(encode_request(ApiKey.FETCH, 1, "", [b"x"], 18)))
            await world.environment("b").network.connect("a", PORT, lambda: stranger)
            await stranger.ended
            assert not stranger.received
            peer.close()
            await listener.stop(0.1)

    with World() as world:
        world.run(story(world))


def test_a_listener_that_stops_does_not_wait_for_long_polls():
    async def story(world: World) -> None:
        async with listening(world.environment("a"), HANDLERS) as listener:
            peer = peer_on(world, "b", "a")
            await peer.connect(1.0)
            polling = asyncio.ensure_future(peer.ask(MetadataFollow(0, 5000), 7.0))
            await asyncio.sleep(0.1)
            assert listener.connection_count == 1
            before = asyncio.get_running_loop().time()
            await listener.stop(10.0)
            assert asyncio.get_running_loop().time() - before < 1.0
            with pytest.raises(GoQueueError):
                await polling
            peer.close()

    with World() as world:
        world.run(story(world))
