"""From a data directory to a broker that is open, and from there to a member of its cluster.

open        claim the directory, find the metadata, take roles, open the machines
announce    once the listeners have their addresses: register them, in a cluster with its
            controller
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

import msgspec

from goqueue.broker.cluster.cluster_node import ClusterNode
from goqueue.broker.cluster.membership import Membership
from goqueue.broker.coordinators import Coordinators
from goqueue.broker.delays.service import Delays
from goqueue.broker.groups.configs import GroupConfigs
from goqueue.broker.internal_topics import LEDGERS_TOPIC, METADATA_TOPIC, InternalTopics
from goqueue.broker.metadata.controller import Controller
from goqueue.broker.metadata.node_file import NodeFile, claim
from goqueue.broker.metadata.node_file import store as store_node
from goqueue.broker.metadata.registration import check, register
from goqueue.broker.queues.service import Queues
from goqueue.broker.storage.partition_store import Partitions
from goqueue.broker.topic_changes import TopicChanges
from goqueue.cluster import Metadata, Topic, controller
from goqueue.cluster.consensus import ConsensusLog
from goqueue.cluster.controller import Registration
from goqueue.cluster.features import supported_features
from goqueue.model.config import Address, Config
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, NodeId
from goqueue.model.quorum import LOCAL
from goqueue.runtime import Environment


class StartingBroker(Protocol):
    """The broker that is opened."""

    config: Config
    environment: Environment
    cluster: ClusterNode
    group_configs: GroupConfigs
    partitions: Partitions
    queues: Queues
    delays: Delays

    def topics(self) -> list[Topic]: ...

    async def open_metadata_log(self) -> ConsensusLog: ...

    async def change_group_config(
        self, group_id: GroupId, changes: Mapping[str, str | None], if_set: Mapping[str, str]
    ) -> None: ...


class Startup:
    def __init__(
        self,
        broker: StartingBroker,
        changes: TopicChanges,
        internal: InternalTopics,
        coordinators: Coordinators,
        start: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`start` runs work until it ends, or the broker stops."""
        self._broker = broker
        self._disk = broker.environment.disk
        self._changes = changes
        self._internal = internal
        self._coordinators = coordinators
        self._start = start
        self._node: NodeFile
        self._controller: Controller | None = None

    @property
    def controller(self) -> Controller:
        assert self._controller is not None, "the broker is not open"
        return self._controller

    # --- opening ----------------------------------------------------------------------------------

    async def open(self) -> None:
        disk, broker, cluster = self._disk, self._broker, self._broker.cluster
        config, random = broker.config, broker.environment.random
        await disk.in_background(lambda: disk.make_directory(f"{config.data_dir}/logs"))
        await broker.partitions.room.look()
        follows = bool(config.cluster.seeds)
        node = await disk.in_background(lambda: claim(disk, random, config, follows=follows))
        membership = await cluster.open(node)
        self._controller = await self._open_controller(node, membership)
        self._changes.is_open = True
        if cluster.elects:
            cluster.open_election()
        broker.group_configs.attach(self.controller.image, broker.change_group_config)
        cluster.roles.bind(self.controller.metadata)
        if not self._cluster_id:
            await disk.in_background(broker.partitions.directories.refuse_unknown_topics)
        if membership is None:
            node = await register(self.controller.host, node, random)
            cluster.roles.take_all(node.directory_id)
        else:
            node = msgspec.structs.replace(node, cluster_id=self._cluster_id)
        await self._note_node(node)
        registry = await self._internal.open_host(LEDGERS_TOPIC, broker.queues.new_registry())
        if membership is None:
            await self._coordinators.open(registry.ahead)
        await broker.queues.attach(registry)
        await broker.delays.open_all(broker.topics())

    async def _open_controller(self, node: NodeFile, membership: Membership | None) -> Controller:
        broker, cluster = self._broker, self._broker.cluster
        follows = membership is not None and not cluster.elects
        log = (
            membership.log
            if membership is not None and follows
            else await broker.open_metadata_log()
        )
        controller = Controller(
            log,
            broker.environment.clock,
            lambda: Metadata(broker.config.topics.settings, broker.config.topics.partitions_max),
            self._changes.apply,
            cluster.roles.replace,
            self._changes.tell_groups,
        )
        try:
            if membership is not None:
                await controller.open_as_follower()
            else:
                if node.quorum != LOCAL:  # whoever may not lead takes the term from nobody
                    check(await controller.look(), node)
                with self._internal.naming_damage(METADATA_TOPIC):
                    await controller.open()
            check(controller.image.current, node, is_alone=not cluster.elects)
        except GoQueueError:
            await log.close()
            raise
        return controller

    async def _note_node(self, node: NodeFile) -> None:
        disk, data_dir = self._disk, self._broker.config.data_dir
        self._node = node
        self._broker.cluster.note_cluster(node)
        await disk.in_background(lambda: store_node(disk, data_dir, node))

    @property
    def _cluster_id(self) -> str:
        return self.controller.metadata.cluster_id

    # --- announcing -------------------------------------------------------------------------------

    async def announce(self, addresses: Mapping[str, Address], machine: str) -> None:
        """Where this node listens, by listener, for clients that ask any node.

        A node that follows another one joins the cluster with it.
        """
        cluster, config = self._broker.cluster, self._broker.config
        rack, machine = config.cluster.rack, config.cluster.machine or machine
        if cluster.elects:
            await self._join_election(addresses, rack, machine)
            return
        if cluster.elsewhere is not None:
            await cluster.register(addresses, rack, machine)
            cluster.roles.take_all(self._node.directory_id)
            self._start(cluster.run_membership())
            return
        await self.controller.host.submit_or_defer(
            lambda metadata: controller.announce_node(
                metadata,
                NodeId(config.node_id),
                addresses=addresses,
                rack=rack,
                machine=machine,
            )
        )

    async def _join_election(
        self, addresses: Mapping[str, Address], rack: str, machine: str
    ) -> None:
        node, cluster = self._node, self._broker.cluster
        registration = Registration(
            node_id=node.node_id,
            directory_id=node.directory_id,
            incarnation=node.incarnation,
            addresses=addresses,
            rack=rack,
            machine=machine,
            features=supported_features(),
        )
        self._start(cluster.run_election(registration))
        await cluster.wait_until_registered()
        await self._note_node(msgspec.structs.replace(node, cluster_id=self._cluster_id))
        cluster.roles.take_all(node.directory_id)
        await self._coordinators.join()
