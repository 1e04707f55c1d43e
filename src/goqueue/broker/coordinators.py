"""Which groups and transactions this node coordinates, and which other node coordinates the rest.

A node that leads a partition of `__groups`, `__transactions`, `__schemas` or `__schedules`, a shard
(`CoordinatorTopics`), opens the machine on it, and drops the machine when it leads no more.  The
machines wait for the broker to be started, and those of a shard are opened one at a time: one is
read when the one before writes no more.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import structlog

from goqueue.broker.cluster.cluster_node import ClusterNode
from goqueue.broker.cluster.coordinator_topics import (
    COORDINATED,
    GROUPS_TOPIC,
    SCHEDULES_TOPIC,
    SCHEMAS_TOPIC,
    TRANSACTIONS_TOPIC,
    CoordinatorTopics,
)
from goqueue.broker.delays.service import Delays
from goqueue.broker.groups.configs import GroupConfigs
from goqueue.broker.groups.coordinator import Groups, view_of
from goqueue.broker.host_upkeep import HostUpkeep
from goqueue.broker.internal_topics import InternalTopics
from goqueue.broker.machine_host import MachineHost
from goqueue.broker.metadata.controller import Controller
from goqueue.broker.queues.service import Queues
from goqueue.broker.schedules.service import Schedules
from goqueue.broker.schemas.service import Schemas
from goqueue.broker.standby import Standbys
from goqueue.broker.storage.bundle import Bundle
from goqueue.broker.storage.partition_store import Partitions
from goqueue.broker.transactions.coordinator import Transactions
from goqueue.cluster import PartitionState, Topic
from goqueue.groups import GroupMachine
from goqueue.model.config import Config
from goqueue.model.errors import NotCoordinator, NotLeader
from goqueue.model.ids import NodeId
from goqueue.queue import QueueRegistry
from goqueue.runtime import Clock
from goqueue.schemas import RegistryMachine
from goqueue.txn import TransactionMachine

WAIT_SECONDS_MAX: Final = 10.0  # of a start, for the controller to create the topics

_log = structlog.get_logger("goqueue.cluster")


class CoordinatingBroker(Protocol):
    """The broker of this node."""

    config: Config
    cluster: ClusterNode
    groups: Groups
    group_configs: GroupConfigs
    partitions: Partitions
    queues: Queues
    delays: Delays
    schedules: Schedules
    schemas: Schemas
    transactions: Transactions

    @property
    def controller(self) -> Controller: ...


class Coordinators:
    def __init__(
        self,
        broker: CoordinatingBroker,
        clock: Clock,
        topics: CoordinatorTopics,
        internal: InternalTopics,
        tell_groups: Callable[[], Awaitable[None]],
    ) -> None:
        """`tell_groups` tells the groups of this node which topics there are."""
        self._broker = broker
        self._topics = topics
        self._internal = internal
        self._tell_groups = tell_groups
        self._started = asyncio.Event()  # what this node leads of them waits for it
        self._joined = asyncio.Event()  # of nodes that elect their controller
        self._is_stopping = False
        self._locks: dict[tuple[str, int], asyncio.Lock] = {}  # by topic and shard
        self._standbys = Standbys(
            broker.partitions,
            clock,
            internal.open_committed,
            {
                GROUPS_TOPIC: self._new_group_machine,
                TRANSACTIONS_TOPIC: TransactionMachine,
            },
            topics.count,
        )
        # Of the machines that other nodes may run at times: they outlive their hosts.
        self._group_upkeep, self._transaction_upkeep = HostUpkeep(clock), HostUpkeep(clock)
        self._registry_upkeep, self._schedule_upkeep = HostUpkeep(clock), HostUpkeep(clock)

    # --- life -------------------------------------------------------------------------------------

    async def open(self, registry: QueueRegistry) -> None:
        """Those that no other node may run; the others when this node leads their partitions."""
        broker = self._broker
        if broker.config.cluster.listen:
            await self._topics.create(broker.controller.host)
            broker.controller.image.catch_up()
        if mine := self._topics.only_here(GROUPS_TOPIC):
            await asyncio.gather(*map(self.coordinate_groups, mine))
            if 0 in mine:  # where a former release had all of them
                await self._take_over(registry)
        for shard in self._topics.only_here(TRANSACTIONS_TOPIC):
            broker.transactions.attach(await self._open_transactions(shard), shard)
        if self._topics.only_here(SCHEMAS_TOPIC):
            await self.run_registry()
        if self._topics.only_here(SCHEDULES_TOPIC):
            await self.run_schedules()

    async def _take_over(self, registry: QueueRegistry) -> None:
        """What former releases kept in other logs."""
        groups, host = self._broker.groups, self._broker.controller.host
        await self._broker.group_configs.take_over(host, groups.host.ahead, registry)
        await groups.take_over_members(registry)

    async def join(self) -> None:
        """This node has registered with those that elect their controller."""
        if not await self._topics.wait_created(WAIT_SECONDS_MAX):
            _log.warning("no groups and transactions yet: the controller may be an older release")
        await self._coordinate_own()
        self._joined.set()

    async def _join_late(self) -> None:
        """As `join`, when the topics came later."""
        await self._joined.wait()
        await self._topics.wait_created()
        await self._coordinate_own()

    async def _coordinate_own(self) -> None:
        """What this node alone has a replica of: no role tells it that it leads."""
        for name in COORDINATED:
            if self._topics.find(name) is not None:
                await asyncio.gather(
                    *(self._open_own(name, shard) for shard in self._topics.only_here(name))
                )

    async def _open_own(self, name: str, shard: int) -> None:
        async with self._opening(name, shard):
            if not self._runs(name, shard) and not self._is_stopping:
                with contextlib.suppress(NotLeader, NotCoordinator):  # then its role tells
                    await self._coordinate(name, shard)

    def start(self) -> None:
        """The broker runs: what waited for it goes on."""
        self._started.set()

    def upkeep(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What runs until it is cancelled."""
        yield self._group_upkeep.run()
        yield self._transaction_upkeep.run()
        yield self._registry_upkeep.run()
        yield self._schedule_upkeep.run()
        cluster, controller = self._broker.cluster, self._broker.controller
        if self._broker.config.cluster.listen and self._broker.config.cluster.standbys:
            yield self._standbys.run()
        if self._broker.config.cluster.listen and (cluster.elects or cluster.elsewhere is None):
            yield self._topics.run(lambda: controller.host, lambda: controller.is_leading)
        if cluster.elects:
            yield self._join_late()

    def stop(self) -> None:
        """Open none any more."""
        self._is_stopping = True

    def close(self) -> None:
        self.stop()
        self._started.set()
        self._broker.groups.resign_all()
        self._broker.transactions.resign_all()
        self._broker.schemas.resign()
        self._broker.schedules.resign()

    # --- what this node leads ---------------------------------------------------------------------

    async def partition_led(self, topic: Topic, bundle: Bundle) -> None:
        """All logs of the partition take writes; see `Partitions.on_led`."""
        await self._started.wait()
        if topic.name not in COORDINATED:
            await self._broker.queues.partition_led(topic, bundle)
            await self._broker.delays.partition_led(topic, bundle)
            return
        async with self._opening(topic.name, bundle.index):
            if self._is_stopping or not bundle.leads:
                return
            self.partition_resigned(bundle)
            await self._coordinate(topic.name, bundle.index)
        if topic.name == GROUPS_TOPIC:
            await self._broker.transactions.groups_led(bundle.index)

    def partition_resigned(self, bundle: Bundle) -> None:
        """None of its logs takes writes any more."""
        if bundle.topic == GROUPS_TOPIC:
            self._broker.groups.resign(bundle.index)
        elif bundle.topic == TRANSACTIONS_TOPIC:
            self._broker.transactions.resign(bundle.index)
        elif bundle.topic == SCHEMAS_TOPIC:
            self._broker.schemas.resign()
        elif bundle.topic == SCHEDULES_TOPIC:
            self._broker.schedules.resign()
        else:
            self._broker.queues.partition_resigned(bundle)
            self._broker.delays.partition_resigned(bundle)

    def _runs(self, name: str, shard: int) -> bool:
        """Whether the machine of the shard is open here."""
        if name == SCHEMAS_TOPIC:
            return self._broker.schemas.is_coordinating
        if name == SCHEDULES_TOPIC:
            return self._broker.schedules.is_coordinating
        seat = self._broker.groups if name == GROUPS_TOPIC else self._broker.transactions
        return shard in seat.shards

    def _opening(self, name: str, shard: int) -> asyncio.Lock:
        """Held while the log of the shard is read."""
        return self._locks.setdefault((name, shard), asyncio.Lock())

    async def _coordinate(self, name: str, shard: int) -> None:
        """This node leads the shard, or does so again, after its coordinator had resigned."""
        if name == GROUPS_TOPIC:
            await self.coordinate_groups(shard)
        elif name == TRANSACTIONS_TOPIC:
            await self.coordinate_transactions(shard)
        elif name == SCHEMAS_TOPIC:
            await self.run_registry()
        else:
            await self.run_schedules()

    async def coordinate_transactions(self, shard: int = 0) -> None:
        """This node leads the shard of `__transactions`."""
        host = await self._open_transactions(shard)
        await self._broker.transactions.lead(host, shard)

    async def coordinate_groups(self, shard: int = 0) -> None:
        """This node leads the shard of `__groups`."""
        broker = self._broker
        found, warm = await self._standbys.take(GROUPS_TOPIC, shard)
        machine = found or self._new_group_machine()
        machine.show_topics(
            view_of(broker.controller.metadata.topics.values(), broker.groups.may_see)
        )
        release = partial(broker.groups.release_when_committed, shard)
        host = await self._internal.open_host(
            GROUPS_TOPIC, machine, release, self._group_upkeep, index=shard, warm=warm
        )
        broker.groups.attach(host, shard)
        if self._started.is_set():  # topics may have come since the machine was made
            await self._tell_groups()

    def _new_group_machine(self) -> GroupMachine:
        broker = self._broker
        return GroupMachine(
            broker.config.groups,
            settings_of=broker.group_configs.consumer_settings,
            share_settings_of=broker.group_configs.share_settings,
            statistics=broker.groups.statistics,
        )

    async def _open_transactions(self, shard: int) -> MachineHost[TransactionMachine]:
        machine, warm = await self._standbys.take(TRANSACTIONS_TOPIC, shard)
        return await self._internal.open_host(
            TRANSACTIONS_TOPIC,
            machine or TransactionMachine(),
            self._broker.transactions.on_deadline,
            self._transaction_upkeep,
            index=shard,
            warm=warm,
        )

    async def run_registry(self) -> None:
        """This node leads `__schemas`."""
        machine, upkeep = RegistryMachine(), self._registry_upkeep
        host = await self._internal.open_host(SCHEMAS_TOPIC, machine, upkeep=upkeep)
        self._broker.schemas.attach(host)

    async def run_schedules(self) -> None:
        """This node leads `__schedules`."""
        machine, upkeep = self._broker.schedules.new_machine(), self._schedule_upkeep
        host = await self._internal.open_host(SCHEDULES_TOPIC, machine, upkeep=upkeep)
        self._broker.schedules.attach(host)

    # --- who coordinates --------------------------------------------------------------------------

    def group_coordinator(self, group_id: str) -> NodeId:
        """The node that coordinates the group; raises `NotCoordinator` while none does."""
        return self._topics.leader(GROUPS_TOPIC, self._topics.group_shard(group_id))

    def transaction_coordinator(self, transactional_id: str) -> NodeId:
        """As `group_coordinator`, of the transactions of an id."""
        shard = self._topics.transaction_shard(transactional_id)
        return self._topics.leader(TRANSACTIONS_TOPIC, shard)

    def registry_node(self) -> NodeId:
        """As `group_coordinator`, of the schema registry."""
        return self._topics.leader(SCHEMAS_TOPIC, 0)

    def schedules_node(self) -> NodeId:
        """As `group_coordinator`, of the recurring schedules."""
        return self._topics.leader(SCHEDULES_TOPIC, 0)

    def states(self, name: str) -> list[PartitionState] | None:
        """Of the shards of `__groups` or `__transactions`; None for a broker that is alone."""
        return self._topics.states(name)

    def group_coordinators(self) -> Mapping[NodeId, Sequence[int]]:
        """The shards of groups by node; raises `NotCoordinator` while one has no leader."""
        return self._topics.leaders(GROUPS_TOPIC)

    def transaction_coordinators(self) -> Mapping[NodeId, Sequence[int]]:
        """As `group_coordinators`, of transactions."""
        return self._topics.leaders(TRANSACTIONS_TOPIC)
