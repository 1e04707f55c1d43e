"""The broker: the operations that all listeners share, and the parts that carry them out.

Listeners decode requests, call the broker, and encode replies.  Each operation checks the names
that it gets (`model/names.py`).  Produce uses partitions directly.

    startup           opening, and joining the cluster
    topic_admin       create, grow, configure and delete topics
    topic_changes     what follows from a change of the metadata
    cluster.admin     nodes, leaders and replicas as operators change them
    coordinators      which groups and transactions this node coordinates
    internal_topics   machines on the logs of the broker's own topics
    offset_lookup     offsets by time and position
    producer_ids      ids for idempotent producers

Their verbs are the broker's own: `broker.create_topic` is `TopicAdmin.create_topic`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from goqueue.broker import offset_lookup
from goqueue.broker.clock_watch import clock_offset_ms, watch_clock
from goqueue.broker.cluster.admin import ClusterAdmin
from goqueue.broker.cluster.cluster_node import ClusterNode
from goqueue.broker.cluster.coordinator_topics import CoordinatorTopics
from goqueue.broker.cluster.events import ClusterEvents
from goqueue.broker.cluster.log_sizes import LogSizes
from goqueue.broker.cluster.peer import Peers
from goqueue.broker.cluster.quorum_positions import QuorumPositions
from goqueue.broker.cluster.reassignments import Reassignments
from goqueue.broker.coordinators import Coordinators
from goqueue.broker.delays.service import Delays
from goqueue.broker.groups.configs import GroupConfigs
from goqueue.broker.groups.coordinator import Groups
from goqueue.broker.internal_topics import METADATA_TOPIC, InternalTopics
from goqueue.broker.machine_host import MachineHost
from goqueue.broker.metadata.controller import Controller
from goqueue.broker.metadata.local_log import LocalLog
from goqueue.broker.metadata.quorum import etcd_log
from goqueue.broker.producer_ids import ProducerIds
from goqueue.broker.queues.admin import QueueGroups
from goqueue.broker.queues.group_link import MARK
from goqueue.broker.queues.members import QueueMembers
from goqueue.broker.queues.service import Queues
from goqueue.broker.quotas import Quotas
from goqueue.broker.schedules.service import Schedules
from goqueue.broker.schemas.checks import SchemaChecks
from goqueue.broker.schemas.dead_letters import SchemaDeadLetters
from goqueue.broker.schemas.directory import SchemaDirectory
from goqueue.broker.schemas.service import Schemas
from goqueue.broker.security.audit import Audit
from goqueue.broker.security.keys import ApiKeys
from goqueue.broker.security.logins import Logins
from goqueue.broker.security.permissions import Permissions
from goqueue.broker.security.users import Users
from goqueue.broker.startup import Startup
from goqueue.broker.storage.backups import Backups
from goqueue.broker.storage.batch_validation import prepare
from goqueue.broker.storage.compactor import Cleaner
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_store import Partitions
from goqueue.broker.tenants import Tenants
from goqueue.broker.topic_admin import TopicAdmin
from goqueue.broker.topic_changes import TopicChanges
from goqueue.broker.traces.exporters import Exporters
from goqueue.broker.traces.group_events import GroupEvents
from goqueue.broker.traces.history import TraceHistory
from goqueue.broker.traces.latencies import LatencyCounter
from goqueue.broker.traces.ledger_events import LedgerEvents
from goqueue.broker.traces.recorder import TraceRecorder
from goqueue.broker.transactions.application_transactions import GroupTransactions
from goqueue.broker.transactions.coordinator import Transactions
from goqueue.broker.transactions.log import TransactionLog
from goqueue.broker.transactions.orphans import OrphanedTransactions
from goqueue.broker.transactions.peers import TransactionPeers
from goqueue.cluster import Metadata, Topic
from goqueue.cluster.consensus import ConsensusLog
from goqueue.log import Appended
from goqueue.model import batch as batches
from goqueue.model.config import Config
from goqueue.model.errors import (
    CorruptBatch,
    DiskFull,
    GoQueueError,
    InvalidRecord,
    NotEnoughReplicas,
    NotLeader,
    OffsetOutOfRange,
    ShuttingDown,
    UnsupportedBatch,
)
from goqueue.model.ids import NodeId, Offset, Timestamp, TopicId
from goqueue.model.partial_batch import LeftOut, leave_out
from goqueue.model.quorum import LOCAL, parse_quorum
from goqueue.runtime import Environment
from goqueue.runtime.tasks import owned_tasks


class Broker:
    """One node's topics and their data."""

    def __init__(self, environment: Environment, config: Config) -> None:
        self.environment = environment
        self.config = config
        self._disk, self._clock = environment.disk, environment.clock
        self._running: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self._stopping = False
        self.started_at = Timestamp(0)
        self.events = ClusterEvents(environment.clock)
        clock, node_id = self._clock, NodeId(config.node_id)
        coordinator_topics = CoordinatorTopics(
            self,
            clock,
            node_id,
            config.topics.replication,
            config.cluster.coordinators,
            self._home,
            self._has_log,
        )
        transaction_log = TransactionLog(coordinator_topics.transaction_shard)
        orphans = OrphanedTransactions(clock, transaction_log)
        self.recorder = TraceRecorder(clock, node_id, config.traces)
        self._make_storage(orphans)
        self._make_admin(coordinator_topics)
        self._make_security()
        self._make_cluster()
        self._make_families(coordinator_topics, transaction_log, orphans)

    def _make_storage(self, orphans: OrphanedTransactions) -> None:
        environment, config = self.environment, self.config
        self.partitions = Partitions(
            environment,
            config.data_dir,
            config.storage,
            node_id=self.node_id,
            on_opened=orphans.end_all,
        )
        self.partitions.tracer_of = self.recorder.tracer
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

    def _make_admin(self, coordinator_topics: CoordinatorTopics) -> None:
        """Whose verbs are the broker's own."""
        environment, clock = self.environment, self._clock
        changes = self._changes = TopicChanges(self, environment.disk, self._start)
        self._internal = InternalTopics(self, environment, self.config.data_dir, coordinator_topics)
        self._coordinators = Coordinators(
            self, clock, coordinator_topics, self._internal, changes.tell_groups
        )
        self.coordinate_groups = self._coordinators.coordinate_groups
        self.coordinate_transactions = self._coordinators.coordinate_transactions
        self.group_coordinator = self._coordinators.group_coordinator
        self.transaction_coordinator = self._coordinators.transaction_coordinator
        self.registry_node = self._coordinators.registry_node
        self.schedules_node = self._coordinators.schedules_node
        self.group_coordinators = self._coordinators.group_coordinators
        self.coordinator_states = self._coordinators.states
        self.transaction_coordinators = self._coordinators.transaction_coordinators

        topic_admin = TopicAdmin(self, changes)
        self.create_topic = topic_admin.create_topic
        self.ensure_topic = topic_admin.ensure_topic
        self.add_partitions = topic_admin.add_partitions
        self.change_settings = topic_admin.change_settings
        self.delete_topic = topic_admin.delete_topic
        self.note_data_removed = changes.note_data_removed

        cluster_admin = ClusterAdmin(self, clock)
        self.alter_partition = cluster_admin.alter_partition
        self.hand_over = cluster_admin.hand_over
        self.leave = cluster_admin.leave
        self.change_node = cluster_admin.change_node
        self.elect_leader = cluster_admin.elect_leader
        self.reassign_partition = cluster_admin.reassign_partition
        self.change_partition = cluster_admin.change_partition
        self.change_group_config = cluster_admin.change_group_config
        self.change_broker_config = cluster_admin.change_broker_config
        self.change_security = cluster_admin.change_security
        self.raise_features = cluster_admin.raise_features

        producer_ids = ProducerIds(self)
        self.reserve_producer_id = producer_ids.reserve_producer_id
        self.reserve_producer_ids = producer_ids.reserve_producer_ids

        self._startup = Startup(self, changes, self._internal, self._coordinators, self._start)
        self.announce = self._startup.announce

    def _make_security(self) -> None:
        """Who may ask for what."""
        disk, clock, random = self.environment.disk, self._clock, self.environment.random
        auth = self.config.auth
        self.permissions = Permissions(auth, lambda: self.metadata)
        self.quotas = Quotas(clock, lambda: self.metadata)
        self.logins = Logins(auth, clock, disk, random, lambda: self.metadata)
        self.tenants = Tenants(self, clock, self._start)
        self.users = Users(self, disk, random)
        self.api_keys = ApiKeys(self, clock, disk, random, self.logins.keys_used)

    def _make_cluster(self) -> None:
        """What asks the other nodes."""
        self.cluster = ClusterNode(self.environment, self.config, self)
        self.others = self.cluster.others
        self.audit = Audit(self)
        self.reassignments = Reassignments(self)
        self.log_sizes = LogSizes(self)
        self.quorum_positions = QuorumPositions(self)

    def _make_families(
        self,
        coordinator_topics: CoordinatorTopics,
        transaction_log: TransactionLog,
        orphans: OrphanedTransactions,
    ) -> None:
        environment, clock = self.environment, self._clock
        self.group_configs = GroupConfigs()
        self.groups = Groups(environment.clock, environment.random, coordinator_topics.group_shard)
        self.groups.check_join = self.tenants.check_join
        self.groups.may_see = self.permissions.shows
        self.queues = Queues(self)
        self.delays = Delays(self, orphans.end_all)
        self.schedules = Schedules(self)
        self.schemas = Schemas(environment.disk)
        self.schema_directory = SchemaDirectory(self)
        self.schema_checks = SchemaChecks(clock, environment.disk, self.schema_directory)
        self.schema_dead_letters = SchemaDeadLetters(self)
        self.transaction_peers = TransactionPeers(self)
        self.cluster.handlers |= self.transaction_peers.handlers
        orphans.coordinators = self.transaction_peers
        self.transactions = Transactions(
            clock,
            transaction_log,
            orphans,
            self.groups,
            self.queues,
            self.partition,
            self.partitions.find_open,
            self.reserve_producer_id,
            self.transaction_peers,
        )
        if self.others is not None:
            self.schema_dead_letters.serve(self.others)
            self.transactions.join_cluster(self.others, self.transaction_peers.leader_elsewhere)
        self.group_transactions = GroupTransactions(
            clock, self.transactions, self.reserve_producer_id
        )
        self.trace_history = TraceHistory(self, self.recorder)
        self.trace_exporters = Exporters(environment.disk, clock, self.config)
        if self.trace_exporters.names:
            self.trace_history.on_events.append(self.trace_exporters.take)
            self.trace_history.exporters += self.trace_exporters.names
        self.latency_counter = LatencyCounter(self, clock)
        self.trace_history.on_events.append(self.latency_counter.take)
        if self.others is not None:
            self.latency_counter.serve(self.others)
        if self.recorder.is_enabled:
            self.queues.ledgers.on_records = LedgerEvents(self.partitions, self._id_of).observe
            self.groups.on_records = GroupEvents(self.recorder, self._find_topic, MARK).observe
        self.queue_members = QueueMembers(self, self.queues)
        self.queue_groups = QueueGroups(self, self.queues, self.queue_members)
        self.partitions.on_recovered = self.queues.log_recovered
        self.partitions.on_led = self._coordinators.partition_led
        self.partitions.on_resigned = self._coordinators.partition_resigned

    def _home(self) -> NodeId:
        return self.cluster.voter

    def _find_topic(self, name: str) -> Topic | None:
        return self.metadata.find(name)

    def _id_of(self, topic: str) -> bytes:
        found = self.metadata.find(topic)
        return b"" if found is None else found.topic_id.bytes

    async def _has_log(self, name: str) -> bool:
        return await self.partitions.has_log(name)

    # --- life -------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Broker"]:
        """Start, and stop at the end of the block however it ends."""
        self.started_at = self._clock.now()
        await self._startup.open()
        self.events.begin()
        try:
            async with owned_tasks() as tasks:
                self._tasks = tasks
                await self.transactions.start(tasks)
                self._start_upkeep()
                self._coordinators.start()
                try:
                    yield self
                finally:
                    await self.api_keys.finish()
                    await self.audit.finish()
                    self._stopping = True
                    self._coordinators.stop()
                    await self.cluster.resign()
                    self.cleaner.stop()
                    self.backups.stop()
                    self.transactions.stop()
                    self.queues.stop()
                    for task in list(self._running):
                        task.cancel()
            await self.queues.finish()
            await self.trace_history.finish()
            await self.trace_exporters.flush()
            await self.controller.close()
        finally:
            self._stopping = True
            self._coordinators.close()
            await self.cluster.close()
            await self.partitions.close()

    def reconfigure(self, config: Config) -> None:
        """Take over what a reload may change (`RELOADABLE`)."""
        self.config = config
        self.partitions.reconfigure(config.storage)
        self.cleaner.reconfigure(config.storage)

    async def open_metadata_log(self) -> ConsensusLog:
        quorum = parse_quorum(self.config.cluster.quorum)
        if quorum is not None:
            return await etcd_log(self.environment, self.config.cluster, quorum)
        partition, snapshots = await self._internal.open(METADATA_TOPIC)
        return LocalLog(partition, self._disk, self._clock, snapshots)

    def _start_upkeep(self) -> None:
        deleted, topics = list(self.metadata.deleted), partial(self.topics, internal=True)
        for work in (
            self.controller.host.run(),
            self.controller.run(),
            *self._coordinators.upkeep(),
            self.transactions.run_upkeep(self.partitions),
            self.queues.run(),
            self.delays.run(),
            self.schedules.publisher.run(),
            self.trace_history.run(),
            self.trace_exporters.run(),
            self.latency_counter.run(),
            self.latency_counter.run_sending(),
            self.partitions.upkeep.run_flushes(),
            self.partitions.upkeep.run_watermarks(),
            self.partitions.upkeep.run_checkpoints(),
            self.partitions.room.run(),
            self.partitions.upkeep.run_retention(topics),
            self.cleaner.run(topics),
            self._changes.finish_deletions(deleted),
            watch_clock(self._clock),
            self.api_keys.run(),
            *self.audit.upkeep(),
            *self.cluster.upkeep(),
        ):
            self._start(work)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Until it ends, or the broker stops; not before the broker runs."""
        if self._tasks is None:
            work.close()
            return
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    @property
    def clock_offset_ms(self) -> int:
        """How far the wall clock is ahead of the steady one, since somebody set it."""
        return clock_offset_ms(self._clock)

    def hosts(self) -> Sequence[MachineHost[Any]]:
        """Of all machines that this node runs."""
        return (
            self.controller.host,
            *self.groups.hosts,
            *self.transactions.hosts,
            *([self.schemas.host] if self.schemas.is_coordinating else []),
            *([self.schedules.host] if self.schedules.is_coordinating else []),
            *self.queues.hosts,
            *self.delays.hosts,
        )

    # --- metadata ---------------------------------------------------------------------------------

    @property
    def node_id(self) -> NodeId:
        return NodeId(self.config.node_id)

    @property
    def peers(self) -> Peers:
        """The other nodes of the cluster."""
        return self.cluster.peers

    @property
    def controller(self) -> Controller:
        return self._startup.controller

    @property
    def metadata(self) -> Metadata:
        """What is committed: to look at, not to decide by."""
        return self._startup.controller.image.current

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

    # --- partitions -------------------------------------------------------------------------------

    latest_offset = staticmethod(offset_lookup.latest_offset)
    earliest_offset = staticmethod(offset_lookup.earliest_offset)
    offset_for_time = staticmethod(offset_lookup.offset_for_time)
    newest_record = staticmethod(offset_lookup.newest_record)

    async def partition(self, topic: str, index: int) -> Partition:
        """Raises `NotLeader` when another node leads it."""
        found = self.metadata.topic(topic)
        partition = await self.partitions.get(found, index)
        if not partition.leads:  # this node may be about to
            await self.partitions.bundle(found, index).lead()
        partition.check_leader()
        return partition

    async def check_schemas(
        self,
        partition: Partition,
        data: bytearray | memoryview,
        *,
        transactional_id: str | None = None,
        refuses: bool = False,
    ) -> LeftOut | None:
        """Raises `SchemaViolation`, if the topic validates.

        Or gives the records that went to the dead letters, for `append`.  With `refuses` none does.
        """
        settings = partition.log.settings
        if not settings.validates:
            return None
        verdict = await self.schema_checks.check(partition, data)
        if not verdict.problems:
            return None
        if refuses or not settings.dead_letters_invalid:
            try:
                verdict.refuse()
            except GoQueueError as error:
                if partition.tracer is not None:
                    partition.tracer.note_refused(error)
                raise
        await self.schema_dead_letters.take_out(partition, data, verdict, transactional_id or "")
        return verdict.left_out

    def append(
        self,
        partition: Partition,
        data: bytearray | memoryview,
        *,
        waits: bool = True,
        is_checked: bool = False,
        left_out: LeftOut | None = None,
    ) -> Appended:
        """Check and append what a producer sent; `partition.wait_committed(…)` tells if it is safe.

        Without `waits` nobody will ask for that, and it may lie on this node alone.  The bytes are
        stamped in place.  A topic that validates takes only what `check_schemas` let pass.
        Records that are `left_out` are elsewhere: the rest keep the offsets they have beside them.
        """
        if not is_checked and partition.log.settings.validates:
            raise InvalidRecord(f"{partition.topic} validates schemas, and nobody did")
        try:
            return self._append(partition, data, waits=waits, left_out=left_out)
        except GoQueueError as error:
            if partition.tracer is not None and not isinstance(error, NotLeader | ShuttingDown):
                partition.tracer.note_refused(error)
            raise

    def _append(
        self,
        partition: Partition,
        data: bytearray | memoryview,
        *,
        waits: bool,
        left_out: LeftOut | None,
    ) -> Appended:
        if self._stopping:
            raise ShuttingDown("this broker is shutting down")
        try:
            if waits and not partition.has_enough_replicas:
                partition.check_enough_replicas()
            self.partitions.room.take(len(data))
        except (NotEnoughReplicas, DiskFull) as error:
            with contextlib.suppress(CorruptBatch, UnsupportedBatch):
                partition.note_refused(batches.header_at(data, 0), error)
            raise
        now = self._clock.now()
        prepared, headers = prepare(data, partition.log.settings, now)
        if left_out:
            prepared, headers = leave_out(prepared, headers, left_out)
        try:
            return partition.append(prepared, headers, now)
        except DiskFull:
            self.partitions.room.note_refused(len(data))
            raise

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
