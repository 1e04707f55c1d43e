"""All that this node copies from others: two connections to each node that leads something.

    catching up ──> has all that is committed ──> in sync
         ^────────── has not, or was refused ────────┘

A partition that catches up must not delay the commits of others, so it has a connection of its own;
a new one begins there.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from goqueue.broker.replicas.catch_up_quota import CatchUpQuota
from goqueue.broker.replicas.fetcher import (
    CatchUpFetcher,
    FollowerNode,
    InSyncFetcher,
    LeaderNode,
    OnBeside,
    OnProblem,
    ReplicationLimits,
)
from goqueue.broker.replicas.replica import Following, ReplicaLog
from goqueue.broker.storage.disk_room import DiskRoom
from goqueue.broker.storage.partition import Partition
from goqueue.cluster.replication import Follower
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeEpoch, NodeId, TopicIdPartition
from goqueue.runtime import Clock

CLOSE_SECONDS_MAX: Final = 10.0

_log = structlog.get_logger("goqueue.replication")


class ReplicaFetchers:
    """Only the event loop's thread touches it."""

    def __init__(
        self,
        clock: Clock,
        *,
        node: NodeId,
        node_epoch: Callable[[], NodeEpoch],
        connect: Callable[[NodeId], LeaderNode],
        on_problem: OnProblem = lambda _replica, _error: None,
        on_beside: OnBeside = lambda _replica, _beside: None,
        limits: ReplicationLimits | None = None,
        quota: CatchUpQuota | None = None,
        room: DiskRoom | None = None,
    ) -> None:
        """`connect` gives a new connection each time, which is made when it is first used.

        `on_problem` hears of a replica that stopped: for good after `StorageFailed` (and so if it
        is frozen), else until the disk has room or the leader sends what can be taken.
        `on_beside` hears which logs the leader has beside this one, to be followed, too.
        """
        self._clock = clock
        self._follower = FollowerNode(node, node_epoch, room)
        self._connect = connect
        self._on_problem = on_problem
        self._on_beside = on_beside
        self._limits = limits or ReplicationLimits()
        self._quota = quota or CatchUpQuota(clock)  # of what this node copies
        self._lanes: dict[NodeId, tuple[InSyncFetcher, CatchUpFetcher]] = {}
        self._tasks: dict[NodeId, list[asyncio.Task[None]]] = {}
        self._replicas: dict[TopicIdPartition, ReplicaLog] = {}

    def follow(
        self,
        key: TopicIdPartition,
        partition: Partition,
        *,
        is_unclean: bool = False,
        spares_reserve: bool = False,
    ) -> None:
        """Copy the log from the leader of its role, from now on.

        A log that `spares_reserve` waits while the disk is full; small ones go on.

        Whoever followed another one calls `stop` first, and takes the role after that: so the old
        leader hears no more acks before the new epoch begins here.
        """
        assert key not in self._replicas, f"{partition} is followed already"
        role = partition.role
        assert isinstance(role, Follower), f"{partition} is not a follower's"
        replica = ReplicaLog(key, partition, Following(role, is_unclean))
        replica.has_room = self._follower.has_room or not spares_reserve
        self._replicas[key] = replica
        self._lane(role.leader)[1].add(replica)

    async def stop(self, key: TopicIdPartition) -> None:
        """Nothing more is asked for the log, and nothing is written to it.

        The first is so at once, the second when this returns.
        """
        replica = self._replicas.pop(key, None)
        if replica is None:
            return
        replica.is_stopped = True
        lanes = self._lanes.get(replica.following.role.leader, ())
        for lane in lanes:
            lane.remove(replica)
        for lane in lanes:
            await lane.wait_settled(replica)
        self._end_idle()

    async def close(self) -> None:
        """What is being cut is cut to its end: a log that is not would have to be recovered."""
        for replica in self._replicas.values():
            replica.is_stopped = True
        self._replicas.clear()
        for lane in [lane for lanes in self._lanes.values() for lane in lanes]:
            await lane.wait_all_settled(CLOSE_SECONDS_MAX)
        tasks = [task for tasks in self._tasks.values() for task in tasks]
        self._tasks.clear()
        self._lanes.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def find(self, key: TopicIdPartition) -> ReplicaLog | None:
        return self._replicas.get(key)

    def replicas(self) -> list[ReplicaLog]:
        return list(self._replicas.values())

    def _lane(self, leader: NodeId) -> tuple[InSyncFetcher, CatchUpFetcher]:
        lanes = self._lanes.get(leader)
        if lanes is None:
            rest = self._clock, self._limits, self._problem, self._on_beside
            in_sync = InSyncFetcher(self._follower, self._connect(leader), *rest)
            catch_up = CatchUpFetcher(
                self._follower, self._connect(leader), *rest, in_sync, self._quota
            )
            in_sync.catch_up = catch_up
            lanes = self._lanes[leader] = (in_sync, catch_up)
            self._tasks[leader] = [
                _start(in_sync.run(), f"copy from node {leader}"),
                _start(catch_up.run(), f"catch up with node {leader}"),
            ]
        return lanes

    def _end_idle(self) -> None:
        """Leave nodes that lead nothing any more, and of which nothing is being written."""
        led = {replica.following.role.leader for replica in self._replicas.values()}
        for leader, lanes in list(self._lanes.items()):
            if leader in led or any(lane.is_settling for lane in lanes):
                continue
            del self._lanes[leader]
            for task in self._tasks.pop(leader):
                task.cancel()

    def _problem(self, replica: ReplicaLog, error: GoQueueError) -> None:
        _log.error(
            "a replica does not follow its leader",
            partition=str(replica.partition),
            leader=replica.following.role.leader,
            problem=str(error),
        )
        self._on_problem(replica, error)


def _start(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work, name=name)  # rule-ok: `close` ends it
