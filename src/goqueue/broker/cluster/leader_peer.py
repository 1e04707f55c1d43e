"""A partition's leader, as its follower asks it: Kafka's Fetch over the cluster port."""

from typing import Final

from goqueue.broker.cluster.peer import Peer, Peers
from goqueue.model.ids import NodeId
from goqueue.wire.apis import ApiKey
from goqueue.wire.fetch import FetchRequest
from goqueue.wire.replica_fetch import (
    VERSION,
    ReplicaFetchResponse,
    decode_replica_fetch,
    encode_replica_fetch,
)

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024  # one batch comes whole, however large it may be


class LeaderPeer:
    """See `goqueue.broker.replicas.fetcher.LeaderNode`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer  # with a connection of its own: fetches wait

    @classmethod
    def of(cls, peers: Peers, leader: NodeId) -> "LeaderPeer":
        return cls(peers.another(leader, ANSWER_BYTES_MAX))

    async def fetch(self, request: FetchRequest, timeout_seconds: float) -> ReplicaFetchResponse:
        body = [encode_replica_fetch(request)]
        answer = await self._peer.ask_kafka(ApiKey.FETCH, VERSION, body, timeout_seconds)
        return decode_replica_fetch(answer)

    def close(self) -> None:
        self._peer.close()
