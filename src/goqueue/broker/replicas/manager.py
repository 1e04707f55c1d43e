"""What this node is to each partition: its logs are told, and so is who copies them.

    change_role ── all logs of the partition have it, at once ── the former leader's copies end
                ── a follower's logs are opened, and copied from the leader;  a leader's take writes

The queue ledger beside a partition's data is copied once the leader says that there is one.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from uuid import UUID

import structlog

from goqueue.broker.replicas.fetcher import LeaderNode, OnProblem, ReplicationLimits
from goqueue.broker.replicas.fetchers import ReplicaFetchers
from goqueue.broker.replicas.replica import ReplicaLog
from goqueue.broker.storage.bundle import DATA, KINDS, LEDGER, log_id
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Topic
from goqueue.cluster.replication import Follower, Role
from goqueue.model.errors import GoQueueError, NotLeader
from goqueue.model.ids import NodeEpoch, NodeId, TopicId, TopicIdPartition
from goqueue.runtime import Clock

_log = structlog.get_logger("goqueue.replication")


class ReplicaManager:
    """Only the event loop's thread touches it."""

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        *,
        node: NodeId,
        node_epoch: Callable[[], NodeEpoch],
        connect: Callable[[NodeId], LeaderNode],
        on_problem: OnProblem = lambda _replica, _error: None,
        limits: ReplicationLimits | None = None,
    ) -> None:
        """The callables are those of `ReplicaFetchers`."""
        self._partitions = partitions
        self._fetchers = ReplicaFetchers(
            clock,
            node=node,
            node_epoch=node_epoch,
            connect=connect,
            on_problem=on_problem,
            on_ledger=self._note_ledger,
            limits=limits,
        )
        self._followed: dict[TopicIdPartition, tuple[Topic, bool]] = {}  # whether uncleanly elected
        self._changing: defaultdict[TopicIdPartition, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: set[asyncio.Task[None]] = set()

    async def change_role(
        self, topic: Topic, index: int, role: Role, *, is_unclean: bool = False
    ) -> None:
        """Return when it is so; what the former role allowed has ended before the first wait.

        Raises what keeps this node from it: a log that cannot be opened or written.
        """
        key = TopicIdPartition(topic.topic_id, index)
        is_done = self._partitions.change_role(topic, index, role)
        async with self._changing[key]:
            if self._partitions.bundle(topic, index).role == role and not self._copies(key, role):
                await self._stop(topic, index)
                if isinstance(role, Follower):
                    self._followed[key] = (topic, is_unclean)
                    await self._follow(topic, index, DATA, role, is_unclean=is_unclean)
        await is_done

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self._fetchers.close()

    # --- for sessions of followers ----------------------------------------------------------------

    async def find_log(self, topic_id: UUID, index: int) -> Partition:
        """A log that this node leads, by what other nodes call it; raises `NotLeader`."""
        found = self._partitions.find_bundle(TopicId(topic_id), index)
        log = None if found is None else found[0].find(found[1])
        if log is None:
            raise NotLeader(f"partition {index} of {topic_id} is not open here")
        return log

    def has_ledger(self, partition: Partition) -> bool:
        if partition.kind != DATA or partition.topic_id is None:
            return False
        found = self._partitions.find_bundle(partition.topic_id, partition.index)
        return found is not None and found[0].find(LEDGER) is not None

    # --- copying ----------------------------------------------------------------------------------

    def _copies(self, key: TopicIdPartition, role: Role) -> bool:
        """Whether the data is copied already as the role says."""
        found = self._fetchers.find(key)
        return found is not None and found.following.role == role

    async def _stop(self, topic: Topic, index: int) -> None:
        self._followed.pop(TopicIdPartition(topic.topic_id, index), None)
        for kind in KINDS:
            await self._fetchers.stop(TopicIdPartition(log_id(topic.topic_id, kind), index))

    async def _follow(
        self, topic: Topic, index: int, kind: str, role: Follower, *, is_unclean: bool
    ) -> None:
        log = await self._partitions.open_log(topic, index, kind)
        key = TopicIdPartition(log_id(topic.topic_id, kind), index)
        if log.role == role and self._fetchers.find(key) is None:
            self._fetchers.follow(key, log, is_unclean=is_unclean)

    def _note_ledger(self, replica: ReplicaLog) -> None:
        task = asyncio.get_running_loop().create_task(  # rule-ok: `close` ends it
            self._follow_ledger(replica)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow_ledger(self, replica: ReplicaLog) -> None:
        key = replica.key
        async with self._changing[key]:
            found = self._followed.get(key)
            if found is None or not replica.is_following:
                return
            topic, is_unclean = found
            role = replica.following.role
            try:
                await self._follow(topic, key.partition, LEDGER, role, is_unclean=is_unclean)
            except GoQueueError as error:
                _log.error("a ledger is not copied", partition=str(key), problem=str(error))
