"""A follower fetches from its leader over the cluster port."""

import asyncio
from typing import cast
from uuid import UUID

import msgspec
import pytest

from goqueue.broker import Partition
from goqueue.broker.cluster.leader_peer import LeaderPeer
from goqueue.broker.cluster.peer import Peers
from goqueue.model.errors import Uncertain
from goqueue.model.ids import NodeId
from goqueue.server.cluster.listener import ClusterListener
from goqueue.server.cluster.replica_fetch import replica_fetch_handler
from goqueue.server.kafka.replica_sessions import ReplicaSessions
from goqueue.testing.sim import SimDisk, World
from goqueue.wire.apis import ApiKey
from goqueue.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.unit.broker.cluster.cluster_hosts import ONE, PORT, TWO, NoMetrics
from tests.unit.broker.replicas.replicas import FOLLOWER, TOPIC, leader_role, open_partition, write

ME = msgspec.structs.replace(TWO, node_id=NodeId(FOLLOWER))
REQUEST = FetchRequest(
    max_wait_ms=100,
    min_bytes=1,
    max_bytes=1 << 20,
    isolation_level=0,
    session_id=0,
    session_epoch=0,
    topics=[FetchTopic(TOPIC, [FetchPartition(0, 1, 0, -1, 0, 1 << 20, 0)])],
    forgotten=[],
    replica_id=FOLLOWER,
    replica_epoch=1,
    fetch_number=1,
)


def test_a_follower_fetches_as_itself():
    async def story(world: World) -> None:
        environment = world.environment("a")
        partition = open_partition(SimDisk(), leader_role(), 0)

        async def find(topic_id: UUID, index: int) -> Partition:
            return partition

        sessions = ReplicaSessions(environment.clock, 1 << 20, find, lambda _: None)
        handlers = {ApiKey.FETCH: replica_fetch_handler(sessions)}
        leader = msgspec.structs.replace(ONE, node_id=NodeId(FOLLOWER + 1))
        listener = ClusterListener(
            environment,
            f"0.0.0.0:{PORT}",
            lambda: leader,
            {},
            NoMetrics(),
            kafka_handlers=handlers,
        )
        peers = Peers(world.environment("b"), lambda: ME, lambda: {leader.node_id: f"a:{PORT}"})
        async with asyncio.TaskGroup() as tasks:
            await listener.start(tasks)
            write(partition, "one", "two")
            peer = LeaderPeer.of(peers, leader.node_id)
            reply = await peer.fetch(REQUEST, 5.0)
            records = [each.records for topic in reply.topics for each in topic.partitions]
            assert b"one" in bytes(cast(memoryview, records[0]))
            other = msgspec.structs.replace(REQUEST, replica_id=FOLLOWER + 7)
            with pytest.raises(Uncertain):  # refused, and the connection with it
                await peer.fetch(other, 5.0)
            assert (await peer.fetch(REQUEST, 5.0)).error_code == 0
            peer.close()
            peers.close()
            await listener.stop(0.1)
            sessions.close()

    with World() as world:
        world.run(story(world))
