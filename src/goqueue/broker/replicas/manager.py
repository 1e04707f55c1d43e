"""What this node is to each partition: its logs are told, and so is who copies them.

    change_role ── all logs of the partition have it, at once ── the former leader's copies end
                ── a follower's logs are opened, and copied from the leader;  a leader's take writes

The logs beside a partition's data are copied once the leader says that they are there.

A disk without room for a log's first files keeps the node from its role until there is some:
nobody tells the role again, so it is tried again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

import structlog

from goqueue.broker.replicas.catch_up_quota import CatchUpQuota
from goqueue.broker.replicas.fetcher import LeaderNode, OnProblem, ReplicationLimits
from goqueue.broker.replicas.fetchers import ReplicaFetchers
from goqueue.broker.replicas.replica import ReplicaLog
from goqueue.broker.storage.bundle import BESIDE, DATA, KINDS, log_id
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Topic
from goqueue.cluster.replication import Follower, Offline, Role
from goqueue.model.errors import DiskFull, NotLeader, TopicNotFound
from goqueue.model.ids import NO_EPOCH, Epoch, NodeEpoch, NodeId, TopicId, TopicIdPartition
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
        quota: CatchUpQuota | None = None,
    ) -> None:
        """The callables are those of `ReplicaFetchers`."""
        self._partitions = partitions
        self._clock = clock
        self._full_disk_seconds = (limits or ReplicationLimits()).full_disk_seconds
        self._fetchers = ReplicaFetchers(
            clock,
            node=node,
            node_epoch=node_epoch,
            connect=connect,
            on_problem=on_problem,
            on_beside=self._note_beside,
            limits=limits,
            quota=quota,
            room=partitions.room,
        )
        self._followed: dict[TopicIdPartition, tuple[Topic, Epoch]] = {}  # last unclean election
        self._changing: defaultdict[TopicIdPartition, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._without_room: set[TopicIdPartition] = set()  # since they were last copied
        self._tasks: set[asyncio.Task[None]] = set()

    def change_role(
        self, topic: Topic, index: int, role: Role, *, unclean_epoch: Epoch = NO_EPOCH
    ) -> asyncio.Future[None]:
        """What the former role allowed ends before this returns.  Done when the new one is taken.

        `unclean_epoch` is that of the last leader that may have lacked committed records.  The
        future's error is what keeps this node from it: a log that cannot be opened or written.
        """
        is_done = self._partitions.change_role(topic, index, role)
        return self._start(self._take(topic, index, role, unclean_epoch, is_done))

    def drop(self, topic: Topic, index: int, role: Role) -> None:
        """The partition is on other nodes from now on: nothing is copied, and its files go.

        `role` says who leads it.  If the node gets another replica meanwhile, that one stays.
        """
        _ = self._partitions.change_role(topic, index, role)
        _ = self._start(self._drop(topic, index, role))

    def drop_former(self, find_former: Callable[[TopicId, int], Topic | None]) -> None:
        """Files of replicas that this node had when it was last running, and has no more."""
        _ = self._start(self._drop_former(find_former))

    async def _drop_former(self, find_former: Callable[[TopicId, int], Topic | None]) -> None:
        for topic_id, index in await self._partitions.find_stored_replicas():
            topic = find_former(topic_id, index)
            if topic is not None:
                async with self._changing[TopicIdPartition(topic_id, index)]:
                    if find_former(topic_id, index) is not None:
                        await self._remove(topic, index)

    async def _drop(self, topic: Topic, index: int, role: Role) -> None:
        async with self._changing[TopicIdPartition(topic.topic_id, index)]:
            await self._stop(topic, index)
            bundle = self._partitions.used_bundle(topic.name, index)
            is_current = bundle is not None and bundle.topic_id == topic.topic_id
            if is_current and bundle is not None and bundle.role == role:
                await self._remove(topic, index)

    async def _remove(self, topic: Topic, index: int) -> None:
        await self._partitions.drop_replica(topic, index)
        _log.info("replica removed: other nodes have it", topic=topic.name, partition=index)

    def forget(self, topic: Topic) -> None:
        """The topic was deleted: nothing of it is copied any more."""
        for index in range(topic.partitions):
            if TopicIdPartition(topic.topic_id, index) in self._followed:
                _ = self._start(self._stop(topic, index))

    async def _take(
        self,
        topic: Topic,
        index: int,
        role: Role,
        unclean_epoch: Epoch,
        is_done: asyncio.Future[None],
    ) -> None:
        while True:
            try:
                await self._copy(topic, index, role, unclean_epoch)
                await is_done
                return
            except DiskFull as error:
                full = error
            taken = self._told_role(topic, index)
            await self._wait_for_room(topic, index, full)
            is_offline = isinstance(taken, Offline) and taken.epoch == role.epoch
            if self._told_role(topic, index) is not taken or not (taken == role or is_offline):
                return  # it was told another one
            is_done = self._partitions.change_role(topic, index, role)

    async def _wait_for_room(self, topic: Topic, index: int, error: DiskFull) -> None:
        """Said once for each partition."""
        key = TopicIdPartition(topic.topic_id, index)
        if key not in self._without_room:
            self._without_room.add(key)
            _log.error(
                "no room for a replica: it is tried again",
                topic=topic.name,
                partition=index,
                problem=str(error),
            )
        await self._clock.sleep(self._full_disk_seconds)

    async def _copy(self, topic: Topic, index: int, role: Role, unclean_epoch: Epoch) -> None:
        """A follower's logs are opened, and copied; what was copied before is so no more."""
        key = TopicIdPartition(topic.topic_id, index)
        async with self._changing[key]:
            if self._told_role(topic, index) == role and not self._copies(key, role):
                await self._stop(topic, index)
                if isinstance(role, Follower):
                    self._followed[key] = (topic, unclean_epoch)
                    await self._follow(topic, index, DATA, role, unclean_epoch)

    def _told_role(self, topic: Topic, index: int) -> Role | None:
        bundle = self._partitions.used_bundle(topic.name, index)
        is_its_own = bundle is not None and bundle.topic_id == topic.topic_id
        return bundle.role if bundle is not None and is_its_own else None

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._fetchers.close()

    # --- for sessions of followers ----------------------------------------------------------------

    async def find_log(self, topic_id: UUID, index: int) -> Partition:
        """A log that this node leads, by what other nodes call it; raises `NotLeader`."""
        found = self._partitions.find_bundle(TopicId(topic_id), index)
        log = None if found is None else found[0].find(found[1])
        if log is None:
            raise NotLeader(f"partition {index} of {topic_id} is not open here")
        return log

    def beside(self, partition: Partition) -> int:
        """Which logs there are beside the partition's data; see `Bundle.beside`."""
        if partition.kind != DATA or partition.topic_id is None:
            return 0
        found = self._partitions.find_bundle(partition.topic_id, partition.index)
        return 0 if found is None else found[0].beside

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
        self, topic: Topic, index: int, kind: str, role: Follower, unclean_epoch: Epoch
    ) -> None:
        log = await self._partitions.open_log(topic, index, kind)
        key = TopicIdPartition(log_id(topic.topic_id, kind), index)
        if log.role == role and self._fetchers.find(key) is None:
            # Whoever has records of that epoch or a later one has taken part in it.
            is_unclean = unclean_epoch > log.log.last_epoch
            spares_reserve = kind == DATA and not topic.is_internal
            self._fetchers.follow(key, log, is_unclean=is_unclean, spares_reserve=spares_reserve)
            self._without_room.discard(TopicIdPartition(topic.topic_id, index))

    def _note_beside(self, replica: ReplicaLog, beside: int) -> None:
        _ = self._start(self._follow_beside(replica, beside))

    async def _follow_beside(self, replica: ReplicaLog, beside: int) -> None:
        key = replica.key
        while replica.is_following:
            async with self._changing[key]:
                found = self._followed.get(key)
                if found is None or not replica.is_following:
                    return
                topic, epoch = found
                role = replica.following.role
                try:
                    for bit, kind in enumerate(BESIDE):
                        if beside & (1 << bit):
                            await self._follow(topic, key.partition, kind, role, epoch)
                    return
                except DiskFull as error:
                    full = error
            await self._wait_for_room(topic, key.partition, full)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)  # rule-ok: `close` ends it
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, TopicNotFound):
            _log.error("a replica is not what it should be", problem=str(error))
