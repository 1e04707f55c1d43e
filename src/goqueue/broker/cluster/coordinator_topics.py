"""Where groups and transactions are coordinated, and where schemas and schedules are run: by who
leads the partition of their topic.

    __groups          topics of a cluster's metadata.  Each partition is a shard: it has replicas, a
    __transactions    leader that coordinates, an epoch and an ISR of its own
    __schemas         the same, always with one partition
    __schedules       the same

A group or a transactional id belongs to the shard `murmur2(id) mod partitions`, as a key does to a
partition; the attempts of an application to the application's (`transaction_key`).

In a cluster these topics are created by the node that decides, on the node that formed the cluster
(`home`), where their directories may be already; those of a broker that was alone become theirs.
When more nodes are there, the topics get more replicas, as many as others have by default.  A
broker that is alone has no such topics: nobody copies its logs.

How many shards there are is settled when the topics are created (`cluster.coordinators`).  They are
one where a broker that was alone, or a cluster of a former release, has its logs: those have all
groups in one.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, Protocol
from uuid import UUID, uuid5

import structlog

from goqueue.broker.machine_host import MachineHost
from goqueue.broker.storage.partition_store import INTERNAL_SETTINGS
from goqueue.cluster import Metadata, MetadataRecord, Topic, controller
from goqueue.cluster.controller import default_replication_factor
from goqueue.cluster.metadata import NO_LEADER, PartitionState
from goqueue.model.errors import GoQueueError, NotCoordinator
from goqueue.model.ids import NodeId, TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.model.murmur import murmur2
from goqueue.runtime import Clock

GROUPS_TOPIC: Final = "__groups"
TRANSACTIONS_TOPIC: Final = "__transactions"
SCHEMAS_TOPIC: Final = "__schemas"
SCHEDULES_TOPIC: Final = "__schedules"
SINGLE: Final = (SCHEMAS_TOPIC, SCHEDULES_TOPIC)  # always one partition
COORDINATED: Final = (GROUPS_TOPIC, TRANSACTIONS_TOPIC, *SINGLE)
AUDIT_TOPIC: Final = "__audit"  # coordinates nothing; created when there is something to write
TRACES_TOPIC: Final = "__traces"  # the same
REPLICATED: Final = (*COORDINATED, AUDIT_TOPIC, TRACES_TOPIC)
LOOK_SECONDS: Final = 1.0
CREATE_SECONDS: Final = 0.1  # after which it is looked again whether they are there

_ATTEMPT: Final = re.compile(r"(.+):\d+:-?\d+:\d+:\d+", re.DOTALL)  # see `attempt_name`
NAMESPACE: Final = UUID("6f7f5f50-6f8c-4f57-9a43-0d2f5d3f4a11")
_log = structlog.get_logger("goqueue.cluster")


class Decider(Protocol):
    """The broker, whose metadata this is."""

    @property
    def metadata(self) -> Metadata: ...


class CoordinatorTopics:
    def __init__(
        self,
        broker: Decider,
        clock: Clock,
        node_id: NodeId,
        replication: int,
        shards: int,
        home: Callable[[], NodeId],
        has_log: Callable[[str], Awaitable[bool]],
    ) -> None:
        """`replication` is the setting's factor; 0: as many as there are machines, at most 3.

        `home` is the node that has the metadata, or formed the cluster; `has_log` says whether this
        node has a log of that name.
        """
        self._shards = shards
        self._has_log = has_log
        self._broker = broker
        self._home = home
        self._clock = clock
        self._node_id = node_id
        self._replication = replication

    # --- asking -----------------------------------------------------------------------------------

    def find(self, name: str) -> Topic | None:
        """None for a broker that is alone."""
        return self._broker.metadata.find(name)

    def count(self, name: str) -> int:
        """How many shards there are."""
        topic = self.find(name)
        return 1 if topic is None else topic.partitions

    def group_shard(self, group_id: str) -> int:
        return shard_of(group_id, self.count(GROUPS_TOPIC))

    def transaction_shard(self, name: str) -> int:
        """Of a transactional id, or an application."""
        return shard_of(transaction_key(name), self.count(TRANSACTIONS_TOPIC))

    def leader(self, name: str, shard: int) -> NodeId:
        """Of a shard; raises `NotCoordinator` while nobody leads it."""
        topic = self.find(name)
        if topic is None:
            return self._home()
        leader = self._broker.metadata.partition(topic.topic_id, shard).leader
        if leader == NO_LEADER:
            raise NotCoordinator(f"no node leads partition {shard} of {name} now")
        return leader

    def leaders(self, name: str) -> dict[NodeId, list[int]]:
        """The shards of each node, in order; raises `NotCoordinator` while one has no leader."""
        found: dict[NodeId, list[int]] = {}
        for shard in range(self.count(name)):
            found.setdefault(self.leader(name, shard), []).append(shard)
        return found

    @property
    def are_created(self) -> bool:
        return all(self.find(name) is not None for name in COORDINATED)

    async def wait_created(self, seconds: float | None = None) -> bool:
        """Return when the topics are there; False after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                while not self.are_created:
                    await self._clock.sleep(CREATE_SECONDS)
        except TimeoutError:
            pass
        return self.are_created

    def states(self, name: str) -> list[PartitionState] | None:
        """Of its shards, in order; None for a broker that is alone."""
        topic = self.find(name)
        return None if topic is None else list(self._broker.metadata.partitions.of(topic.topic_id))

    def only_here(self, name: str) -> list[int]:
        """The shards that this node leads without being told: nobody else has a replica."""
        topic = self.find(name)
        if topic is None:
            return [0]
        states = self._broker.metadata.partitions.of(topic.topic_id)
        return [shard for shard, state in enumerate(states) if state.replicas == (self._node_id,)]

    # --- deciding ---------------------------------------------------------------------------------

    async def create(self, host: MachineHost[Metadata]) -> None:
        """Those that are not there yet."""
        for name in COORDINATED:
            if self.find(name) is None:
                shards = await self._choose_count(name)
                await host.submit(
                    lambda metadata, name=name, shards=shards: self._create(metadata, name, shards)  # type: ignore[misc]
                )
                _log.info("coordinators", topic=name, shards=shards)

    async def _choose_count(self, name: str) -> int:
        """One of schemas and schedules; also where a log may have all groups, or transactions.

        This node sees only its own disk.  Another one that formed the cluster had one before it had
        any topic.
        """
        if name in SINGLE:
            return 1
        if self._home() == self._node_id:
            return 1 if await self._has_log(name) else self._shards
        has_topics = any(not each.is_internal for each in self._broker.metadata.topics.values())
        return 1 if has_topics else self._shards

    def _create(
        self, metadata: Metadata, name: str, shards: int
    ) -> Decision[MetadataRecord, Topic]:
        return controller.create_topic(
            metadata,
            TopicName(name),
            topic_id=TopicId(uuid5(NAMESPACE, f"{metadata.cluster_id}/{name}")),
            partitions=shards,
            settings=INTERNAL_SETTINGS,
            now=self._clock.now(),
            may_look_alike=True,
            assignments=[[self._home_in(metadata)]] * shards,
        )

    def _home_in(self, metadata: Metadata) -> NodeId:
        """Where the logs may be; this node, if that one was removed."""
        home = self._home()
        return home if metadata.nodes.get(home) is not None else self._node_id

    async def run(
        self, host: Callable[[], MachineHost[Metadata]], decides: Callable[[], bool]
    ) -> None:
        """Create the topics, and give them more replicas when there are nodes for them.

        Until cancelled, and only while this node `decides`.
        """
        while True:
            await self._clock.sleep(LOOK_SECONDS if self.are_created else CREATE_SECONDS)
            if not decides():
                continue
            if not self.are_created:
                await self._try_create(host())
            for name in REPLICATED:
                for shard in range(self.count(name)):
                    if self._choose_replicas(self._broker.metadata, name, shard) is not None:
                        await self._grow(host(), name, shard)

    async def _try_create(self, host: MachineHost[Metadata]) -> None:
        try:
            await self.create(host)
        except GoQueueError as error:  # the node that formed the cluster is down, say
            _log.warning("internal topics not created yet", problem=str(error))
            await self._clock.sleep(LOOK_SECONDS)

    async def _grow(self, host: MachineHost[Metadata], name: str, shard: int) -> None:
        log = _log.bind(topic=name, partition=shard)
        try:
            state = await host.submit(lambda metadata: self._reassign(metadata, name, shard))
        except GoQueueError as error:  # it is looked at again
            log.warning("internal topic has too few replicas", problem=str(error))
        else:
            log.info("internal topic gets more replicas", replicas=state.replicas)

    def _reassign(
        self, metadata: Metadata, name: str, shard: int
    ) -> Decision[MetadataRecord, PartitionState]:
        topic = metadata.topic(name)
        wanted = self._choose_replicas(metadata, name, shard)
        if wanted is None:
            return Decision((), metadata.partition(topic.topic_id, shard))
        return controller.reassign(metadata, topic.topic_id, shard, wanted)

    def _choose_replicas(self, metadata: Metadata, name: str, shard: int) -> list[NodeId] | None:
        """The replicas that there are and some more; None when there are enough, or they move.

        Each shard prefers another one of them as its leader (see `ControllerService`).
        """
        topic = metadata.find(name)
        if topic is None or shard >= topic.partitions:
            return None
        state = metadata.partition(topic.topic_id, shard)
        factor = self._replication or default_replication_factor(metadata.nodes)
        missing = factor - len(state.replicas)
        if missing <= 0 or state.adding or state.removing or state.leader == NO_LEADER:
            return None
        used = {metadata.nodes.at(each).place for each in state.replicas}
        active = [each for each in metadata.nodes.members if each.state == "active"]
        others = [each for each in active if each.node_id not in state.replicas]
        free = [each for each in others if each.place not in used]
        if self._replication:  # on the same machine as well, if somebody wants it so
            free += [each for each in others if each.place in used]
        more = [each.node_id for each in free]
        more = [*more[shard % len(more) :], *more[: shard % len(more)]][:missing] if more else []
        if not more:
            return None
        return _prefer_one(metadata, topic, shard, [*state.replicas, *more])


def _prefer_one(
    metadata: Metadata, topic: Topic, shard: int, replicas: list[NodeId]
) -> list[NodeId]:
    """With the one first that fewest of the other shards prefer; a single shard stays."""
    states = metadata.partitions.of(topic.topic_id)
    taken = Counter(each.replicas[0] for index, each in enumerate(states) if index != shard)
    first = min(replicas, key=lambda each: (taken[each], each)) if taken else replicas[0]
    return [first, *(each for each in replicas if each != first)]


def shard_of(key: str, shards: int) -> int:
    """As Kafka's producers choose the partition of a key."""
    return 0 if shards == 1 else (murmur2(key.encode()) & 0x7FFF_FFFF) % shards


def transaction_key(name: str) -> str:
    """What the shard of a transactional id is chosen by: of an attempt, its application's name.

    One decision ends all attempts at a version, so they are in the application's shard.  Also those
    of an application whose own name looks like an attempt.
    """
    while found := _ATTEMPT.fullmatch(name):
        name = found[1]
    return name
