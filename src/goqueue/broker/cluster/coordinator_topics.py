"""Where groups and transactions are coordinated, and where the schema registry runs: by who leads
the partition of their topic.

    __groups, __transactions, __schemas    topics of a cluster's metadata, with replicas, a leader

In a cluster these topics are created by the node that decides, on the node that formed the cluster
(`home`), where their directories may be already; those of a broker that was alone become theirs.
When more nodes are there, the topics get more replicas, as many as others have by default.  A
broker that is alone has no such topics: nobody copies its logs.

There is one partition of each for now.  Who coordinates a name is asked by that name, so that more
partitions can share the work.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol
from uuid import UUID, uuid5

import structlog
from crc32c import crc32c

from goqueue.broker.machine_host import MachineHost
from goqueue.broker.storage.partition_store import INTERNAL_SETTINGS
from goqueue.cluster import Metadata, MetadataRecord, Topic, controller
from goqueue.cluster.controller import default_replication_factor
from goqueue.cluster.metadata import NO_LEADER, PartitionState
from goqueue.model.errors import GoQueueError, NotCoordinator
from goqueue.model.ids import NodeId, TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.runtime import Clock

GROUPS_TOPIC: Final = "__groups"
TRANSACTIONS_TOPIC: Final = "__transactions"
SCHEMAS_TOPIC: Final = "__schemas"  # always one partition
COORDINATED: Final = (GROUPS_TOPIC, TRANSACTIONS_TOPIC, SCHEMAS_TOPIC)
LOOK_SECONDS: Final = 1.0
CREATE_SECONDS: Final = 0.1  # after which it is looked again whether they are there

_NAMESPACE: Final = UUID("6f7f5f50-6f8c-4f57-9a43-0d2f5d3f4a11")
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
        home: Callable[[], NodeId],
    ) -> None:
        """`replication` is the setting's factor; 0: as many as there are machines, at most 3.

        `home` is the node that has the metadata, or formed the cluster.
        """
        self._broker = broker
        self._home = home
        self._clock = clock
        self._node_id = node_id
        self._replication = replication

    # --- asking -----------------------------------------------------------------------------------

    def find(self, name: str) -> Topic | None:
        """None for a broker that is alone."""
        return self._broker.metadata.find(name)

    def coordinator(self, name: str, key: str) -> NodeId | None:
        """The node that leads the key's partition; None for a broker that is alone.

        Raises `NotCoordinator` while nobody leads it.
        """
        topic = self.find(name)
        if topic is None:
            return None
        index = crc32c(key.encode()) % topic.partitions
        leader = self._broker.metadata.partition(topic.topic_id, index).leader
        if leader == NO_LEADER:
            raise NotCoordinator(f"no node leads partition {index} of {name} now")
        return leader

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

    def is_only_here(self, name: str) -> bool:
        """Whether this node coordinates it without being told: nobody else has a replica."""
        topic = self.find(name)
        if topic is None:
            return True
        replicas = self._broker.metadata.partition(topic.topic_id, 0).replicas
        return replicas == (self._node_id,)

    # --- deciding ---------------------------------------------------------------------------------

    async def create(self, host: MachineHost[Metadata]) -> None:
        """Those that are not there yet."""
        for name in COORDINATED:
            if self.find(name) is None:
                await host.submit(lambda metadata, name=name: self._create(metadata, name))  # type: ignore[misc]

    def _create(self, metadata: Metadata, name: str) -> Decision[MetadataRecord, Topic]:
        return controller.create_topic(
            metadata,
            TopicName(name),
            topic_id=TopicId(uuid5(_NAMESPACE, f"{metadata.cluster_id}/{name}")),
            partitions=1,
            settings=INTERNAL_SETTINGS,
            now=self._clock.now(),
            may_look_alike=True,
            assignments=[[self._home_in(metadata)]],
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
            for name in COORDINATED:
                if self._choose_replicas(self._broker.metadata, name) is not None:
                    await self._grow(host(), name)

    async def _try_create(self, host: MachineHost[Metadata]) -> None:
        try:
            await self.create(host)
        except GoQueueError as error:  # the node that formed the cluster is down, say
            _log.warning("internal topics not created yet", problem=str(error))
            await self._clock.sleep(LOOK_SECONDS)

    async def _grow(self, host: MachineHost[Metadata], name: str) -> None:
        try:
            state = await host.submit(lambda metadata: self._reassign(metadata, name))
        except GoQueueError as error:  # it is looked at again
            _log.warning("internal topic has too few replicas", topic=name, problem=str(error))
        else:
            _log.info("internal topic gets more replicas", topic=name, replicas=state.replicas)

    def _reassign(self, metadata: Metadata, name: str) -> Decision[MetadataRecord, PartitionState]:
        topic = metadata.topic(name)
        wanted = self._choose_replicas(metadata, name)
        if wanted is None:
            return Decision((), metadata.partition(topic.topic_id, 0))
        return controller.reassign(metadata, topic.topic_id, 0, wanted)

    def _choose_replicas(self, metadata: Metadata, name: str) -> list[NodeId] | None:
        """The replicas that there are and some more; None when there are enough, or they move."""
        topic = metadata.find(name)
        if topic is None:
            return None
        state = metadata.partition(topic.topic_id, 0)
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
        more = [each.node_id for each in free][:missing]
        return [*state.replicas, *more] if more else None
