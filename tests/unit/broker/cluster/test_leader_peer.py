"""Fetches of a follower, in bytes: a leader that answers as it is told."""

import asyncio

import msgspec
import pytest

from goqueue.broker.cluster.leader_peer import LeaderPeer
from goqueue.model.ids import NodeId
from goqueue.server.cluster.listener import ClusterListener
from goqueue.server.kafka.reply import ReplySlot
from goqueue.testing.sim import World
from goqueue.wire.apis import ApiKey
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.fetch import decode_fetch, encode_fetch_response
from goqueue.wire.frames import RequestHeader
from goqueue.wire.replica_fetch import VERSION
from tests.unit.broker.cluster.cluster_hosts import ONE, PORT, NoMetrics, peer_on
from tests.unit.server.cluster.test_replica_fetch import REQUEST


def test_a_leader_gets_the_request_and_its_answer_is_read():
    asked: list[int] = []

    async def fetch(node_id: NodeId, header: RequestHeader, slot: ReplySlot) -> None:
        asked.append(decode_fetch(VERSION, header.body).replica_id)
        if len(asked) == 1:
            slot.fill(encode_fetch_response(VERSION, [], session_id=9))
        else:
            slot.fill([b"\xff" * 40])

    async def story(world: World) -> None:
        listener = ClusterListener(
            world.environment("a"),
            f"0.0.0.0:{PORT}",
            lambda: ONE,
            {},
            NoMetrics(),
            kafka_handlers={ApiKey.FETCH: fetch},
        )
        async with asyncio.TaskGroup() as tasks:
            await listener.start(tasks)
            leader = LeaderPeer(peer_on(world, "b", "a"))
            request = msgspec.structs.replace(REQUEST, replica_id=2)
            reply = await leader.fetch(request, 5.0)
            assert (reply.session_id, reply.error_code, reply.topics) == (9, 0, [])
            with pytest.raises(MalformedRequest):
                await leader.fetch(request, 5.0)
            leader.close()
            await listener.stop(0.1)
        assert asked == [2, 2]

    with World() as world:
        world.run(story(world))
