"""The broker: the operations that all listeners share, and the parts that carry them out.

Listeners decode requests, call the broker, and encode replies.  Each operation checks the names
that it gets (`model/names.py`).  Produce uses partitions directly.
"""

import asyncio
import contextlib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
import structlog

from goqueue.broker.cluster.cluster_node import ClusterNode
from goqueue.broker.cluster.coordinator_topics import (
    COORDINATED,
    GROUPS_TOPIC,
    TRANSACTIONS_TOPIC,
    CoordinatorTopics,
)
from goqueue.broker.cluster.forwarding import NodeChange
from goqueue.broker.cluster.membership import Membership
from goqueue.broker.cluster.peer import Peers
from goqueue.broker.groups.configs import GroupConfigs
from goqueue.broker.groups.coordinator import Groups, view_of
from goqueue.broker.host_upkeep import HostUpkeep
from goqueue.broker.image import Image
from goqueue.broker.machine_host import Committed, MachineHost
from goqueue.broker.metadata.controller import Controller
from goqueue.broker.metadata.local_log import LocalLog
from goqueue.broker.metadata.node_file import NodeFile, claim
from goqueue.broker.metadata.node_file import store as store_node
from goqueue.broker.metadata.quorum import etcd_log
from goqueue.broker.metadata.registration import check, register
from goqueue.broker.queues.admin import QueueGroups
from goqueue.broker.queues.members import QueueMembers
from goqueue.broker.queues.service import Queues
from goqueue.broker.storage.backups import Backups
from goqueue.broker.storage.batch_validation import prepare
from goqueue.broker.storage.bundle import Bundle
from goqueue.broker.storage.compactor import Cleaner
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_journal import PartitionJournal
from goqueue.broker.storage.partition_store import INTERNAL_SETTINGS, Partitions
from goqueue.broker.transactions.application_transactions import GroupTransactions
from goqueue.broker.transactions.coordinator import Transactions
from goqueue.broker.transactions.log import TransactionLog
from goqueue.broker.transactions.orphans import OrphanedTransactions
from goqueue.broker.transactions.peers import TransactionPeers
from goqueue.cluster import (
    Metadata,
    MetadataRecord,
    PartitionChanged,
    SettingsChanged,
    Topic,
    TopicDeleted,
    controller,
)
from goqueue.cluster.consensus import ConsensusLog
from goqueue.cluster.controller import ElectionType, IsrChange, Registration
from goqueue.cluster.errors import NodeInUse
from goqueue.cluster.metadata import PartitionsAdded, PartitionState, TopicCreated
from goqueue.groups import GroupMachine
from goqueue.log import Appended, TimedOffset
from goqueue.model.config import Address, Config
from goqueue.model.errors import (
    CorruptData,
    GoQueueError,
    LeadershipLost,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeader,
    OffsetOutOfRange,
    PolicyViolation,
    ShuttingDown,
    TopicExists,
    TopicNotFound,
)
from goqueue.model.ids import (
    NO_EPOCH,
    NO_TIMESTAMP,
    GroupId,
    NodeEpoch,
    NodeId,
    Offset,
    Timestamp,
    TopicId,
)
from goqueue.model.machine import Decision, Machine
from goqueue.model.names import is_internal, refuse_internal, topic_name
from goqueue.model.quorum import LOCAL, parse_quorum
from goqueue.model.settings import topic_settings
from goqueue.queue import QueueRegistry
from goqueue.runtime import Environment
from goqueue.runtime.tasks import owned_tasks
from goqueue.txn import TransactionMachine

METADATA_TOPIC: Final = "__metadata"
LEDGERS_TOPIC: Final = "__ledgers"
PRODUCER_ID_BLOCK: Final = 1000
DRAINED_AT_ONCE: Final = 50  # partitions

MachineT = TypeVar("MachineT", bound=Machine)  # type: ignore[type-arg] # any machine's records

DecideTopic = Callable[[Metadata], Decision[MetadataRecord, Topic]]

CLOCK_CHECK_SECONDS: Final = 10.0
CLOCK_JUMP_MS: Final = 1_000  # a change of the wall clock that is worth a warning

_log = structlog.get_logger("goqueue.broker")


class Broker:
    """One node's topics and their data."""

    def __init__(self, environment: Environment, config: Config) -> None:
        self.environment = environment
        self.config = config
        self._disk, self._clock = environment.disk, environment.clock
        clock = self._clock
        transaction_log = TransactionLog()
        orphans = OrphanedTransactions(clock, transaction_log)
        self.partitions = Partitions(
            environment,
            config.data_dir,
            config.storage,
            node_id=NodeId(config.node_id),
            on_opened=orphans.end_all,
        )
        self.cleaner = Cleaner(environment, self.partitions, config.storage)
        self.backups = Backups(
            environment,
            config.data_dir,
            self.partitions,
            partial(self.topics, internal=True),
            self.hosts,
            lambda: self.config.storage.free_bytes_min,
            has_metadata=config.cluster.quorum == LOCAL,
        )
        self._controller: Controller | None = None
        self.cluster = ClusterNode(environment, config, self)
        self.others = self.cluster.others
        self.group_configs = GroupConfigs()
        self.groups = Groups(environment.clock, environment.random)
        self.queues = Queues(self)
        self.transaction_peers = TransactionPeers(self)
        self.cluster.handlers |= self.transaction_peers.handlers
        orphans.elsewhere = self.transaction_peers
        self.transactions = Transactions(
            clock,
            transaction_log,
            orphans,
            self.groups,
            self.queues,
            self.partition,
            self.partitions.opened,
            self.reserve_producer_id,
            self.transaction_peers,
        )
        if self.others is not None:
            self.transactions.join_cluster(self.others, self.transaction_peers.leader_elsewhere)
        self.group_transactions = GroupTransactions(
            clock, self.transactions, self.reserve_producer_id
        )
        self.queue_members = QueueMembers(self, self.queues)
        self.queue_groups = QueueGroups(self, self.queues, self.queue_members)
        self.partitions.on_recovered = self.queues.log_recovered
        self.partitions.on_led = self._partition_led
        self.partitions.on_resigned = self._partition_resigned
        self._coordinators = CoordinatorTopics(
            self, clock, NodeId(config.node_id), config.topics.replication
        )
        self._started = asyncio.Event()  # what this node leads of them waits for it
        self._coordinating = asyncio.Lock()  # held while the log of one of them is read
        # Of the machines that other nodes may run at times: they outlive their hosts.
        self._group_upkeep, self._transaction_upkeep = HostUpkeep(clock), HostUpkeep(clock)
        self._running: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self._node: NodeFile
        self._producer_ids = iter(range(0))
        self.started_at = Timestamp(0)
        self._stopping = False

    # --- life -------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Broker"]:
        """Start, and stop at the end of the block however it ends."""
        await self._open()
        try:
            async with owned_tasks() as tasks:
                self._tasks = tasks
                await self.transactions.start(tasks)
                self._start_upkeep()
                self._started.set()
                try:
                    yield self
                finally:
                    self._stopping = True
                    await self.cluster.resign()
                    self.cleaner.stop()
                    self.backups.stop()
                    self.transactions.stop()
                    self.queues.stop()
                    for task in list(self._running):
                        task.cancel()
            await self.queues.finish()
            await self.controller.close()
        finally:
            self._stopping = True
            self._started.set()
            self.groups.resign()
            self.transactions.resign()
            await self.cluster.close()
            await self.partitions.close()

    def reconfigure(self, config: Config) -> None:
        """Take over what a reload may change (`RELOADABLE`)."""
        self.config = config
        self.partitions.reconfigure(config.storage)
        self.cleaner.reconfigure(config.storage)

    async def _open(self) -> None:
        disk, data_dir = self._disk, self.config.data_dir
        self.started_at = self._clock.now()
        await disk.in_background(lambda: disk.make_directory(f"{data_dir}/logs"))
        await self.partitions.room.look()
        follows = bool(self.config.cluster.seeds)
        random = self.environment.random
        node = await disk.in_background(lambda: claim(disk, random, self.config, follows=follows))
        membership = await self.cluster.open(node)
        self._controller = await self._open_controller(node, membership)
        if self.cluster.elects:
            self.cluster.open_election()
        self.group_configs.attach(self._image, self.change_group_config)
        self.cluster.roles.bind(self.metadata)
        if not self.cluster_id:
            await disk.in_background(self.partitions.refuse_unknown_topics)
        if membership is None:
            node = await register(self._host, node, random)
            self.cluster.roles.take_all(node.directory_id)
        else:
            node = msgspec.structs.replace(node, cluster_id=self.cluster_id)
        self._node = node
        self.cluster.note_cluster(node)
        await disk.in_background(lambda: store_node(disk, data_dir, node))
        registry = await self._open_host(LEDGERS_TOPIC, self.queues.new_registry())
        if membership is None:
            await self._open_coordinators(registry.ahead)
        await self.queues.attach(registry)

    async def _open_coordinators(self, registry: QueueRegistry) -> None:
        """Those that no other node may run; the others when this node leads their partitions."""
        if self.config.cluster.listen:
            await self._coordinators.create(self._host)
            self._image.catch_up()
        if self._coordinators.is_only_here(GROUPS_TOPIC):
            await self.coordinate_groups()
            await self.group_configs.take_over(self._host, self.groups.host.ahead, registry)
            await self.groups.take_over_members(registry)
        if self._coordinators.is_only_here(TRANSACTIONS_TOPIC):
            self.transactions.attach(await self._open_transactions())

    async def _partition_led(self, topic: Topic, bundle: Bundle) -> None:
        if topic.name not in COORDINATED:
            await self.queues.partition_led(topic, bundle)
            return
        await self._started.wait()
        async with self._coordinating:  # a machine is read when the one before writes no more
            if self._stopping or not bundle.leads:
                return
            self._partition_resigned(bundle)
            if topic.name == GROUPS_TOPIC:
                await self.coordinate_groups()
            else:
                await self.coordinate_transactions()

    def _partition_resigned(self, bundle: Bundle) -> None:
        if bundle.topic == GROUPS_TOPIC:
            self.groups.resign()
        elif bundle.topic == TRANSACTIONS_TOPIC:
            self.transactions.resign()
        else:
            self.queues.partition_resigned(bundle)

    async def coordinate_groups(self) -> None:
        """This node leads `__groups`: at the start, or again after its coordinator had resigned."""
        machine = GroupMachine(
            self.config.groups,
            view_of(self.metadata.topics.values()),
            settings_of=self.group_configs.consumer_settings,
            share_settings_of=self.group_configs.share_settings,
        )
        release, upkeep = self.groups.release_when_committed, self._group_upkeep
        self.groups.attach(await self._open_host(GROUPS_TOPIC, machine, release, upkeep))
        if self._started.is_set():  # topics may have come since the machine was made
            await self._tell_groups()

    async def _open_transactions(self) -> MachineHost[TransactionMachine]:
        return await self._open_host(
            TRANSACTIONS_TOPIC,
            TransactionMachine(),
            self.transactions.on_deadline,
            self._transaction_upkeep,
        )

    async def coordinate_transactions(self) -> None:
        """This node leads `__transactions` again, after its coordinator had resigned."""
        await self.transactions.lead(await self._open_transactions())

    async def announce(self, addresses: Mapping[str, Address], machine: str) -> None:
        """Where this node listens, by listener, for clients that ask any node.

        A node that follows another one joins the cluster with it.
        """
        cluster = self.config.cluster
        if self.cluster.elects:
            await self._join_election(addresses, cluster.rack, cluster.machine or machine)
            return
        if self.cluster.elsewhere is not None:
            await self.cluster.register(addresses, cluster.rack, cluster.machine or machine)
            self.cluster.roles.take_all(self._node.directory_id)
            self._start(self.cluster.run_membership())
            return
        await self._host.submit_or_defer(
            lambda metadata: controller.announce_node(
                metadata,
                NodeId(self.config.node_id),
                addresses=addresses,
                rack=cluster.rack,
                machine=cluster.machine or machine,
            )
        )

    async def _join_election(
        self, addresses: Mapping[str, Address], rack: str, machine: str
    ) -> None:
        node, disk, data_dir = self._node, self._disk, self.config.data_dir
        registration = Registration(
            node_id=node.node_id,
            directory_id=node.directory_id,
            incarnation=node.incarnation,
            addresses=addresses,
            rack=rack,
            machine=machine,
        )
        self._start(self.cluster.run_election(registration))
        await self.cluster.wait_until_registered()
        self._node = node = msgspec.structs.replace(node, cluster_id=self.cluster_id)
        self.cluster.note_cluster(node)
        await disk.in_background(lambda: store_node(disk, data_dir, node))
        self.cluster.roles.take_all(node.directory_id)
        if self.cluster.voter == self.cluster.node_id:
            await self.coordinate_groups()
            await self.coordinate_transactions()

    async def _open_controller(self, node: NodeFile, membership: Membership | None) -> Controller:
        follows = membership is not None and not self.cluster.elects
        log = membership.log if membership is not None and follows else await self._metadata_log()
        controller = Controller(
            log,
            self._clock,
            lambda: Metadata(self.config.topics.settings, self.config.topics.partitions_max),
            self._apply_committed,
            self.cluster.roles.replace,
            self._tell_groups,
        )
        try:
            if membership is not None:
                await controller.open_as_follower()
            else:
                if node.quorum != LOCAL:  # whoever may not lead takes the term from nobody
                    check(await controller.look(), node)
                with self._naming_damage(METADATA_TOPIC):
                    await controller.open()
            check(controller.image.current, node, is_alone=not self.cluster.elects)
        except GoQueueError:
            await log.close()
            raise
        return controller

    async def _metadata_log(self) -> ConsensusLog:
        quorum = parse_quorum(self.config.cluster.quorum)
        if quorum is not None:
            return await etcd_log(self.environment, self.config.cluster, quorum)
        partition, snapshots = await self._internal(METADATA_TOPIC)
        return LocalLog(partition, self._disk, self._clock, snapshots)

    async def _open_host(
        self,
        topic: str,
        machine: MachineT,
        on_deadline_reply: Callable[[Any, Committed], None] | None = None,
        upkeep: HostUpkeep | None = None,
    ) -> MachineHost[MachineT]:
        """The machine, on the internal topic's log, as it was when the broker stopped."""
        partition, snapshots = await self._internal(topic)
        journal = PartitionJournal(partition, self._disk, self._clock, snapshots)
        host = MachineHost(machine, journal, self._clock, on_deadline_reply, upkeep)
        epoch = partition.leader_epoch
        with self._naming_damage(topic):
            await host.open()
        if not partition.leads or partition.leader_epoch != epoch:
            lost = partial(NotCoordinator, f"{partition} has a new leader")
            host.resign(lost, lost)
            raise lost()
        return host

    async def _internal(self, topic: str) -> tuple[Partition, str]:
        """The one partition of an internal topic, and the directory of its snapshots.

        Raises `NotLeader` when another node leads it.
        """
        snapshots = f"{self.config.data_dir}/snapshots/{topic}"
        placed = self._coordinators.find(topic) if topic in COORDINATED else None
        if placed is not None:
            return await self.partition(topic, 0), snapshots
        return await self.partitions.internal(topic, topic_settings(INTERNAL_SETTINGS)), snapshots

    @contextlib.contextmanager
    def _naming_damage(self, topic: str) -> Iterator[None]:
        try:
            yield
        except CorruptData as error:
            raise CorruptData(
                f"{topic}, a log of the server itself, is damaged: {error}. Restore a backup, or"
                f" run `goqueue doctor --data-dir {self.config.data_dir} --repair`, which says"
                " what is lost and keeps the damaged files"
            ) from error

    def _start_upkeep(self) -> None:
        deleted, topics = list(self.metadata.deleted), partial(self.topics, internal=True)
        for work in (
            self._host.run(),
            self.controller.run(),
            self._group_upkeep.run(),
            self._transaction_upkeep.run(),
            self.transactions.run_upkeep(self.partitions),
            self.queues.run(),
            self.partitions.run_flushes(),
            self.partitions.run_watermarks(),
            self.partitions.run_checkpoints(),
            self.partitions.room.run(),
            self.partitions.run_retention(topics),
            self.cleaner.run(topics),
            self._finish_deletions(deleted),
            self._watch_clock(),
        ):
            self._start(work)
        for work in self.cluster.upkeep():
            self._start(work)
        if self.config.cluster.listen and self.cluster.elsewhere is None:
            self._start(self._coordinators.run(lambda: self._host))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Until it ends, or the broker stops; not before the broker runs."""
        if self._tasks is None:
            work.close()
            return
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _finish_deletions(self, deleted: list[TopicId]) -> None:
        in_background = self._disk.in_background
        try:
            if await in_background(lambda: self.partitions.finish_deletions(deleted)):
                self._note_data_removed(deleted)
            await in_background(self.partitions.report_orphans)
            await self.backups.remove_all()
        except GoQueueError as error:
            _log.error("data of deleted topics left", problem=str(error))

    @property
    def clock_offset_ms(self) -> int:
        """How far the wall clock is ahead of the steady one, since somebody set it."""
        return self._clock.now() - self._clock.steady()

    async def _watch_clock(self) -> None:
        before = 0
        while True:
            await self._clock.sleep(CLOCK_CHECK_SECONDS)
            offset = self.clock_offset_ms
            if abs(offset - before) > CLOCK_JUMP_MS:
                _log.warning(
                    "the wall clock was set: deadlines go on by the time that passes",
                    offset_ms=offset,
                )
                before = offset
            elif abs(offset) < abs(before):
                before = offset  # it is being made up for

    def hosts(self) -> Sequence[MachineHost[Any]]:
        """Of all machines that this node runs."""
        coordinators: list[MachineHost[Any]] = (
            [self.groups.host] if self.groups.is_coordinating else []
        )
        if self.transactions.is_coordinating:
            coordinators.append(self.transactions.host)
        return (self._host, *coordinators, *self.queues.hosts)

    # --- topics -----------------------------------------------------------------------------------

    @property
    def node_id(self) -> NodeId:
        return NodeId(self.config.node_id)

    @property
    def controller(self) -> Controller:
        assert self._controller is not None, "the broker is not open"
        return self._controller

    @property
    def _host(self) -> MachineHost[Metadata]:
        return self.controller.host

    @property
    def metadata(self) -> Metadata:
        """What is committed: to look at, not to decide by."""
        return self._image.current

    @property
    def _image(self) -> Image[Metadata]:
        return self.controller.image

    @property
    def cluster_id(self) -> str:
        return self.metadata.cluster_id

    def topics(self, *, internal: bool = False) -> list[Topic]:
        """All topics by name; the broker's own ones only when asked for."""
        found = (t for t in self.metadata.topics.values() if internal or not t.is_internal)
        return sorted(found, key=lambda topic: topic.name)

    def topic(self, name: str) -> Topic:
        return self.metadata.topic(name)

    def has_topic(self, name: str) -> bool:
        return self.metadata.find(name) is not None

    def topic_by_id(self, topic_id: UUID) -> Topic:
        return self.metadata.topic_by_id(TopicId(topic_id))

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
        may_look_alike: bool = False,
        replication_factor: int | None = None,
        assignments: Sequence[Sequence[NodeId]] | None = None,
    ) -> Topic:
        """With `may_look_alike` also when its name differs from another's only by '.' and '_'.

        `assignments` are the nodes of each partition's replicas; without them they are chosen.
        """
        checked = topic_name(name)
        if is_internal(checked):
            raise PolicyViolation(f"{name!r}: names that start with __ are the broker's own")
        count = self.config.topics.partitions if partitions is None else partitions
        default = self.config.topics.replication or None
        factor = default if replication_factor is None else replication_factor
        topic_id = TopicId(UUID(bytes=self.environment.random.bytes(16), version=4))
        elsewhere = self.cluster.elsewhere
        if elsewhere is not None and not validate_only:
            return await elsewhere.create_topic(
                checked,
                partitions=partitions,
                settings=settings,
                may_look_alike=may_look_alike,
                replication_factor=replication_factor,
                assignments=assignments,
            )

        def decide(metadata: Metadata) -> Decision[MetadataRecord, Topic]:
            is_new = metadata.find(checked) is None
            if is_new and len(metadata.topics) >= self.config.topics.count_max:
                raise PolicyViolation(
                    f"{len(metadata.topics)} topics are there, and no more are allowed"
                    " (setting topics.count_max)"
                )
            return controller.create_topic(
                metadata,
                checked,
                topic_id=topic_id,
                partitions=count,
                settings=settings or {},
                now=self._clock.now(),
                may_look_alike=may_look_alike,
                replication_factor=factor,
                assignments=assignments,
            )

        if validate_only:
            return await self._validate(decide)
        topic = await self._change(decide)
        await self._tell_groups()
        _log.info("topic created", topic=name, partitions=count, settings=settings or {})
        return topic

    async def ensure_topic(self, name: str) -> Topic:
        """The topic; created with the defaults when missing and `topics.auto_create` allows it."""
        topic = self.metadata.find(name)
        if topic is not None:
            return topic
        checked = topic_name(name)
        if not self.config.topics.auto_create or is_internal(checked):
            raise TopicNotFound(f"there is no topic {name!r}")
        with contextlib.suppress(TopicExists):  # made by somebody else just now
            return await self.create_topic(name)
        return self.topic(name)

    async def add_partitions(
        self,
        name: str,
        count: int,
        *,
        assignments: Sequence[Sequence[NodeId]] | None = None,
        validate_only: bool = False,
    ) -> Topic:
        """Grow the topic to `count` partitions in all; `assignments` are of the new ones."""
        refuse_internal(name)

        def decide(metadata: Metadata) -> Decision[MetadataRecord, Topic]:
            return controller.add_partitions(metadata, name, count, assignments)

        if validate_only:
            return await self._validate(decide)
        if self.cluster.elsewhere is not None:
            return await self.cluster.elsewhere.add_partitions(name, count, assignments)
        topic = await self._change(decide)
        await self._tell_groups()
        _log.info("partitions added", topic=name, partitions=count)
        return topic

    async def change_settings(
        self,
        name: str,
        changes: Mapping[str, str | None],
        *,
        replace: bool = False,
        validate_only: bool = False,
    ) -> Topic:
        """Set or, with None, unset topic settings; with `replace` the others are unset too."""
        refuse_internal(name)

        def decide(metadata: Metadata) -> Decision[MetadataRecord, Topic]:
            return controller.change_settings(metadata, name, changes, replace=replace)

        if validate_only:
            return await self._validate(decide)
        if self.cluster.elsewhere is not None:
            return await self.cluster.elsewhere.change_settings(name, changes, replace=replace)
        topic = await self._change(decide)
        self.queues.retry_dead_letters()
        _log.info("settings changed", topic=name, settings=topic.overrides)
        return topic

    async def delete_topic(self, name: str) -> Topic:
        """Gone for clients when this returns; the files go in the background."""
        refuse_internal(name)
        if self.cluster.elsewhere is not None:
            return await self.cluster.elsewhere.delete_topic(name)
        topic = await self._change(lambda metadata: controller.delete_topic(metadata, name))
        await self._tell_deleted(topic)
        await self._tell_groups()
        await self._delete_data(topic)
        _log.info("topic deleted", topic=name)
        return topic

    async def _delete_data(self, topic: Topic) -> None:
        if await self.partitions.delete(topic):
            self._note_data_removed([topic.topic_id])

    async def _validate(
        self, decide: Callable[[Metadata], Decision[MetadataRecord, Topic]]
    ) -> Topic:
        """What would be decided; raises what it would be refused with."""
        if self.cluster.elsewhere is not None:
            return decide(self.metadata).reply
        return await self._host.read(lambda metadata: decide(metadata).reply)

    async def _change(self, decide: DecideTopic) -> Topic:
        """As the host's `submit`; it shows when this returns."""
        topic = await self._host.submit(decide)
        self._image.catch_up()
        return topic

    def _apply_committed(self, metadata: Metadata, record: MetadataRecord) -> None:
        """To what is shown, and to the partitions that are open: nobody sees one without the other.

        Once a deletion shows, the topic's name may be taken again.
        """
        roles, grown = self.cluster.roles, 0
        if isinstance(record, TopicDeleted):
            topic = metadata.topic_by_id(record.topic_id)
            roles.forget(topic)
            self.queues.topic_deleted(topic.name)
            if self.cluster.elsewhere is not None:  # else the verb does
                self._start(self._delete_data(topic))
                self._start(self._tell_deleted(topic))
        elif isinstance(record, PartitionsAdded):
            grown = metadata.topic_by_id(record.topic_id).partitions
        metadata.apply(record)
        if isinstance(record, SettingsChanged):
            self.partitions.apply_settings(metadata.topic_by_id(record.topic_id))
        elif isinstance(record, PartitionChanged):
            if record.partition == 0:  # the default of min.insync.replicas goes with its replicas
                self.partitions.apply_settings(metadata.topic_by_id(record.topic_id))
            roles.change(metadata, record.topic_id, record.partition)
        elif isinstance(record, TopicCreated | PartitionsAdded):
            roles.take_of(metadata, [metadata.topic_by_id(record.topic_id)], grown)

    def _note_data_removed(self, topic_ids: Sequence[TopicId]) -> None:
        if self.cluster.elsewhere is not None:
            self._start(_try(self.cluster.elsewhere.note_data_removed(topic_ids)))
            return
        if self.cluster.elects:  # what is deferred would be lost with the term
            self._start(_try(self.note_data_removed(self.cluster.node_id, topic_ids)))
            return
        with contextlib.suppress(GoQueueError):  # noted after the next start
            self._host.defer(
                lambda metadata: controller.note_data_removed(
                    metadata, self.cluster.node_id, topic_ids
                )
            )

    async def note_data_removed(self, node_id: NodeId, topic_ids: Sequence[TopicId]) -> None:
        """The node has no data of the topics, which are deleted, any more."""
        await self._host.submit(
            lambda metadata: controller.note_data_removed(metadata, node_id, topic_ids)
        )

    async def _tell_groups(self) -> None:
        if self.groups.is_coordinating:
            with self._another_tells():
                await self.groups.topics_changed(self.metadata.topics.values())
        self.queues.retry_dead_letters()

    async def _tell_deleted(self, topic: Topic) -> None:
        if self.groups.is_coordinating:
            with self._another_tells():
                await self.groups.topics_deleted((topic.name,))

    @contextlib.contextmanager
    def _another_tells(self) -> Iterator[None]:
        """Whoever coordinates the groups next knows by itself which topics there are."""
        try:
            yield
        except (NotCoordinator, NotLeader, LeadershipLost, NotEnoughReplicas) as error:
            _log.warning("groups not told of a topic", problem=str(error))

    async def change_group_config(
        self, group_id: GroupId, changes: Mapping[str, str | None], if_set: Mapping[str, str]
    ) -> None:
        """Settings of a group; `if_set` are those of `changes` that differ if one was set."""
        if self.cluster.elsewhere is not None:
            await self.cluster.elsewhere.change_group_config(group_id, changes, if_set)
            return
        await self._host.submit(
            lambda metadata: controller.change_group_config(metadata, group_id, changes, if_set)
        )

    # --- partitions -------------------------------------------------------------------------------

    async def alter_partition(
        self, node_id: NodeId, node_epoch: NodeEpoch, change: IsrChange
    ) -> PartitionState:
        """The leader on that node proposes who is in sync."""
        return await self.change_partition(
            lambda metadata: controller.alter_partition(metadata, node_id, node_epoch, change)
        )

    async def hand_over(self, node_id: NodeId, limit: int) -> int:
        """Have other nodes lead what that one leads, for it is about to stop; gives how many.

        It gets nothing to lead until it has started again.
        """
        await self._host.submit(lambda metadata: controller.drain_node(metadata, node_id))
        count = await self._host.submit(
            lambda metadata: controller.hand_over(metadata, node_id, limit)
        )
        self._image.catch_up()
        return count

    async def leave(self, node_id: NodeId) -> None:
        """That node stops now: commits do not wait for it from now on."""
        await self._host.submit(lambda metadata: controller.fence_node(metadata, node_id))
        self._image.catch_up()

    async def change_node(self, node_id: NodeId, change: NodeChange) -> None:
        """Have a node lead nothing, let it lead again, or remove it for good."""
        if self.cluster.elsewhere is not None:
            await self.cluster.elsewhere.change_node(node_id, change)
            return
        match change:
            case "drain":
                await self._host.submit(lambda metadata: controller.drain_node(metadata, node_id))
                while await self.hand_over(node_id, DRAINED_AT_ONCE):
                    await self._clock.sleep(0)
            case "undrain":
                await self._host.submit(lambda metadata: controller.undrain_node(metadata, node_id))
            case "remove" if node_id == self.node_id:
                raise NodeInUse(f"node {node_id} keeps the metadata, and cannot be removed")
            case "remove":
                await self._host.submit(lambda metadata: controller.remove_node(metadata, node_id))
        self._image.catch_up()
        _log.info("node changed", node=node_id, change=change)

    async def elect_leader(
        self, topic_id: TopicId, index: int, election_type: ElectionType
    ) -> PartitionState:
        """Raises `ElectionNotNeeded` or `LeaderNotAvailable`."""
        if self.cluster.elsewhere is not None:
            return await self.cluster.elsewhere.elect_leader(topic_id, index, election_type)
        return await self.change_partition(
            lambda metadata: controller.elect_leader(metadata, topic_id, index, election_type)
        )

    async def reassign_partition(
        self, topic_id: TopicId, index: int, replicas: Sequence[NodeId] | None
    ) -> PartitionState:
        """Move it to these nodes; with None the move that is under way is cancelled."""
        if self.cluster.elsewhere is not None:
            return await self.cluster.elsewhere.reassign_partition(topic_id, index, replicas)

        def decide(metadata: Metadata) -> Decision[MetadataRecord, PartitionState]:
            if replicas is None:
                return controller.cancel_reassignment(metadata, topic_id, index)
            return controller.reassign(metadata, topic_id, index, replicas)

        return await self.change_partition(decide)

    async def change_partition(
        self, decide: Callable[[Metadata], Decision[MetadataRecord, PartitionState]]
    ) -> PartitionState:
        """By a verb of the controller: another leader, say.  It shows when this returns."""
        state = await self._host.submit(decide)
        self._image.catch_up()
        return state

    async def partition(self, topic: str, index: int) -> Partition:
        """Raises `NotLeader` when another node leads it."""
        found = self.metadata.topic(topic)
        partition = await self.partitions.get(found, index)
        if not partition.leads:  # this node may be about to
            await self.partitions.bundle(found, index).lead()
        partition.check_leader()
        return partition

    # --- nodes ------------------------------------------------------------------------------------

    @property
    def peers(self) -> Peers:
        """The other nodes of the cluster."""
        return self.cluster.peers

    # --- coordinators -----------------------------------------------------------------------------

    def group_coordinator(self, group_id: str) -> NodeId:
        """The node that coordinates the group; raises `NotCoordinator` while none does."""
        found = self._coordinators.coordinator(GROUPS_TOPIC, group_id)
        return self._voter() if found is None else found

    def transaction_coordinator(self, transactional_id: str) -> NodeId:
        """As `group_coordinator`, of the transactions of an id."""
        found = self._coordinators.coordinator(TRANSACTIONS_TOPIC, transactional_id)
        return self._voter() if found is None else found

    def _voter(self) -> NodeId:
        return self.cluster.voter

    # --- writing ----------------------------------------------------------------------------------

    def append(
        self, partition: Partition, data: bytearray | memoryview, *, waits: bool = True
    ) -> Appended:
        """Check and append what a producer sent.  `partition.committed(…)` tells when it is safe.

        Without `waits` nobody will ask for that, and it may lie on this node alone.  The bytes are
        stamped in place.
        """
        if waits and not partition.has_enough_replicas:
            partition.check_enough_replicas()
        if self._stopping:
            raise ShuttingDown("this broker is shutting down")
        self.partitions.room.take(len(data))
        now = self._clock.now()
        prepared, headers = prepare(data, partition.log.settings, now)
        return partition.append(prepared, headers, now)

    async def delete_records(self, partition: Partition, before: Offset) -> Offset:
        """Delete what lies before the offset (-1: everything readable); gives the new start."""
        partition.check_leader()
        await partition.flush()
        log = partition.log
        target = log.high_watermark if before == -1 else before
        if not 0 <= target <= log.high_watermark:
            raise OffsetOutOfRange(
                f"offset {target} is outside {log.start_offset} to {log.high_watermark}"
            )
        if target > log.start_offset:
            await partition.remove_before(target)
        return log.start_offset

    async def reserve_producer_id(self) -> int:
        """An id that no producer was ever given; durable in blocks."""
        following = next(self._producer_ids, None)
        if following is None:
            first = await self.reserve_producer_ids(PRODUCER_ID_BLOCK)
            self._producer_ids = iter(range(first, first + PRODUCER_ID_BLOCK))
            following = next(self._producer_ids)
        return following

    async def reserve_producer_ids(self, count: int) -> int:
        """The first of so many ids."""
        if self.cluster.elsewhere is not None:
            return await self.cluster.elsewhere.reserve_producer_ids(count)
        return await self._host.submit(
            lambda metadata: controller.reserve_producer_ids(metadata, count)
        )

    # --- finding offsets --------------------------------------------------------------------------

    async def latest_offset(self, partition: Partition, *, committed_only: bool) -> TimedOffset:
        """The offset of the next record a reader will see."""
        await partition.flush_visible()
        partition.check_watermark()
        limit = partition.read_limit(committed_only=committed_only)
        return TimedOffset(limit, NO_TIMESTAMP, partition.log.epochs.latest)

    def earliest_offset(self, partition: Partition) -> TimedOffset:
        log = partition.log
        return TimedOffset(log.start_offset, NO_TIMESTAMP, log.epochs.epoch_of(log.start_offset))

    async def offset_for_time(
        self, partition: Partition, timestamp: Timestamp, *, committed_only: bool
    ) -> TimedOffset | None:
        await partition.flush_visible()
        limit = partition.read_limit(committed_only=committed_only)
        found = await partition.offset_for_time(timestamp, limit)
        if found is None:
            partition.check_watermark()
        return found

    async def newest_record(
        self, partition: Partition, *, committed_only: bool
    ) -> TimedOffset | None:
        await partition.flush_visible()
        partition.check_watermark()
        limit = partition.read_limit(committed_only=committed_only)
        return await partition.newest_record(limit)


async def _try(work: Awaitable[None]) -> None:
    """What fails now is done after the next start."""
    with contextlib.suppress(GoQueueError):
        await work


NO_OFFSET: Final = TimedOffset(Offset(-1), NO_TIMESTAMP, NO_EPOCH)
