"""Fetch by a follower, at the leader of its partitions."""

from goqueue.model.errors import Unauthorized
from goqueue.model.ids import NodeId
from goqueue.server.cluster.listener import KafkaHandler
from goqueue.server.kafka.replica_sessions import ReplicaSessions
from goqueue.server.kafka.reply import ReplySlot
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.fetch import decode_fetch
from goqueue.wire.frames import RequestHeader
from goqueue.wire.replica_fetch import VERSION


def replica_fetch_handler(sessions: ReplicaSessions) -> KafkaHandler:
    async def handle(node_id: NodeId, header: RequestHeader, slot: ReplySlot) -> None:
        if header.api_version != VERSION:
            raise MalformedRequest(f"fetch v{header.api_version}: replicas use v{VERSION}")
        request = decode_fetch(VERSION, header.body)
        if request.replica_id != node_id:
            raise Unauthorized(f"node {node_id} fetches as node {request.replica_id}")
        slot.fill(await sessions.fetch(request))

    return handle
