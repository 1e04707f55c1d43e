"""A leader and its follower as partitions in one process; requests are calls."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from goqueue.broker import Partition
from goqueue.broker.replicas import ReplicaFetchers, ReplicationLimits
from goqueue.broker.replicas.replica import ReplicaLog
from goqueue.cluster.replication import Follower, Leader, Role
from goqueue.log import open_log
from goqueue.log.replica import Replica
from goqueue.model import batch as batches
from goqueue.model.errors import GoQueueError, TopicIdNotFound
from goqueue.model.ids import (
    Epoch,
    NodeEpoch,
    NodeId,
    Offset,
    PartitionId,
    Timestamp,
    TopicId,
    TopicIdPartition,
)
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from goqueue.server.kafka.replica_sessions import ReplicaSessions
from goqueue.testing.sim import SimClock, SimDisk, SimLoop
from goqueue.wire.fetch import FetchRequest, decode_fetch
from goqueue.wire.replica_fetch import (
    VERSION,
    ReplicaFetchResponse,
    decode_replica_fetch,
    encode_replica_fetch,
)

TOPIC = TopicId(UUID(int=7))
LEADER, FOLLOWER = NodeId(1), NodeId(2)
NOW = Timestamp(1_750_000_000_000)
LIMITS = ReplicationLimits(wait_ms=200, partition_bytes=1000)


def key_of(index: int = 0) -> TopicIdPartition:
    return TopicIdPartition(TOPIC, index)


def open_partition(
    disk: SimDisk, role: Role, index: int = 0, directory: str = "/log", **settings: str
) -> Partition:
    chosen = topic_settings({"segment.bytes": "1024", "min.insync.replicas": "2"} | settings)
    log, _ = open_log(disk, f"{directory}/{index}", chosen, Replica(TOPIC, index))
    return Partition(
        "topic",
        TOPIC,
        PartitionId(index),
        log,
        role,
        disk,
        lambda _partition: None,
        lambda _partition, _seconds, _error: None,
        lambda _partition: None,
    )


def leader_role(epoch: int = 1, isr: tuple[NodeId, ...] = (LEADER, FOLLOWER)) -> Leader:
    return Leader(node=LEADER, epoch=Epoch(epoch), replicas=(LEADER, FOLLOWER), isr=frozenset(isr))


def follower_role(epoch: int = 1) -> Follower:
    return Follower(LEADER, Epoch(epoch))


def write(partition: Partition, *values: str) -> Offset:
    """The last offset; a sync is under way."""
    data = batches.encode([Record(0, NOW, None, value.encode()) for value in values])
    appended = partition.append(data, batches.verified_headers(data), NOW)
    partition.demand_flush()
    return appended.last_offset


def content(partition: Partition) -> bytes:
    return b"".join(s.log.read(0, s.size) for s in partition.log.segments)


def sim_clock() -> SimClock:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return SimClock(loop, origin_ns=5)


class DirectLeader:
    """See `LeaderNode`: the bytes of requests and answers, without a wire."""

    def __init__(self, pair: "Pair") -> None:
        self._pair = pair
        self.is_closed = False

    async def fetch(self, request: FetchRequest, timeout_seconds: float) -> ReplicaFetchResponse:
        pair = self._pair
        pair.requests.append(request)
        if pair.failure is not None:
            raise pair.failure
        read = decode_fetch(VERSION, memoryview(encode_replica_fetch(request)))
        body = b"".join(await pair.sessions.fetch(read))
        return decode_replica_fetch(memoryview(body))

    def close(self) -> None:
        self.is_closed = True


class Pair:
    """A node that leads some partitions, and one that copies them."""

    def __init__(self, partitions: int = 1, **settings: str) -> None:
        self.leader_disk, self.disk = SimDisk("leader"), SimDisk("follower")
        self.clock = sim_clock()
        self.leaders = [
            open_partition(self.leader_disk, leader_role(), index, **settings)
            for index in range(partitions)
        ]
        self.followers = [
            open_partition(self.disk, follower_role(), index, **settings)
            for index in range(partitions)
        ]
        self.requests: list[FetchRequest] = []
        self.connections: list[DirectLeader] = []
        self.problems: list[GoQueueError] = []
        self.ledgers: list[ReplicaLog] = []
        self.failure: Exception | None = None
        self.acks: list[Partition] = []
        self.with_ledger: set[Partition] = set()
        self.sessions = ReplicaSessions(
            self.clock, 1 << 20, self._find, self.acks.append, self.with_ledger.__contains__
        )
        self.fetchers = ReplicaFetchers(
            self.clock,
            node=FOLLOWER,
            node_epoch=lambda: NodeEpoch(1),
            connect=self._connect,
            on_problem=lambda _replica, error: self.problems.append(error),
            on_beside=lambda replica, _: self.ledgers.append(replica),
            limits=LIMITS,
        )

    @property
    def leader(self) -> Partition:
        return self.leaders[0]

    @property
    def follower(self) -> Partition:
        return self.followers[0]

    async def _find(self, topic_id: UUID, index: int) -> Partition:
        if topic_id != TOPIC or index >= len(self.leaders):
            raise TopicIdNotFound(f"no topic {topic_id}")
        return self.leaders[index]

    def _connect(self, leader: NodeId) -> DirectLeader:
        assert leader == LEADER
        self.connections.append(DirectLeader(self))
        return self.connections[-1]

    def follow_all(self) -> None:
        for index, partition in enumerate(self.followers):
            self.fetchers.follow(key_of(index), partition)

    async def caught_up(self) -> None:
        """Return when all is committed on both sides."""
        pairs = list(zip(self.leaders, self.followers, strict=True))
        await self.until(
            lambda: all(
                one.log.high_watermark == other.log.high_watermark == one.log.end_offset
                for one, other in pairs
            )
        )

    async def until(self, holds: Callable[[], bool], seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while True:
                if holds():
                    return
                await asyncio.sleep(0.001)


def tell(story: Callable[[Pair], Awaitable[None]], partitions: int = 1, **settings: str) -> None:
    async def main() -> None:
        pair = Pair(partitions, **settings)
        await story(pair)
        await pair.fetchers.close()
        assert all(connection.is_closed for connection in pair.connections)

    loop = SimLoop(0)
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
