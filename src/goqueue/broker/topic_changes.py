"""What follows when a change of the metadata is committed, whoever decided it.

Partitions take their roles and settings, groups and queues hear of topics that came or went, and
the data of a deleted topic is removed.  The controller is told of that, so that the topic's id is
not kept for ever.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, Protocol

import structlog

from goqueue.broker.cluster.cluster_node import ClusterNode
from goqueue.broker.cluster.events import ClusterEvents
from goqueue.broker.delays.service import Delays
from goqueue.broker.groups.coordinator import Groups
from goqueue.broker.metadata.controller import Controller
from goqueue.broker.queues.service import Queues
from goqueue.broker.schedules.service import Schedules
from goqueue.broker.storage.backups import Backups
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import (
    Metadata,
    MetadataRecord,
    PartitionChanged,
    SettingsChanged,
    Topic,
    TopicDeleted,
    controller,
)
from goqueue.cluster.metadata import (
    AclsAdded,
    AclsRemoved,
    NodeChanged,
    PartitionsAdded,
    RolesSet,
    TenantRemoved,
    TenantSet,
    TopicCreated,
    UserTenantSet,
)
from goqueue.model.errors import (
    GoQueueError,
    LeadershipLost,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeader,
)
from goqueue.model.ids import NodeId, TopicId
from goqueue.runtime import Disk

_log = structlog.get_logger("goqueue.broker")


# Who may see what.
PermissionRecord = AclsAdded | AclsRemoved | RolesSet | TenantRemoved | TenantSet | UserTenantSet


class ChangingBroker(Protocol):
    """The broker that changes with its metadata."""

    cluster: ClusterNode
    events: ClusterEvents
    groups: Groups
    partitions: Partitions
    queues: Queues
    delays: Delays
    schedules: Schedules
    backups: Backups

    @property
    def controller(self) -> Controller: ...


class TopicChanges:
    def __init__(
        self,
        broker: ChangingBroker,
        disk: Disk,
        start: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`start` runs work until it ends, or the broker stops."""
        self._broker = broker
        self._disk = disk
        self._start = start
        self._is_telling = False
        self.is_open = False  # the metadata was read to its end: what comes now is news

    def apply(self, metadata: Metadata, record: MetadataRecord) -> None:
        """To what is shown, and to the partitions that are open: nobody sees one without the other.

        Once a deletion shows, the topic's name may be taken again.
        """
        broker, grown = self._broker, 0
        broker.events.note(metadata, record)
        roles, partitions = broker.cluster.roles, broker.partitions
        if isinstance(record, TopicDeleted):
            topic = metadata.topic_by_id(record.topic_id)
            roles.forget(topic)
            broker.queues.topic_deleted(topic.name)
            broker.delays.topic_deleted(topic.name)
            # Else the verb does it, or `finish_deletions`.
            if self.is_open and broker.cluster.elsewhere is not None:
                self._start(self.delete_data(topic))
                self._start(self.tell_deleted(topic))
        elif isinstance(record, PartitionsAdded):
            grown = metadata.topic_by_id(record.topic_id).partitions
        metadata.apply(record)
        if isinstance(record, SettingsChanged):
            partitions.apply_settings(metadata.topic_by_id(record.topic_id))
        elif isinstance(record, PartitionChanged):
            if record.partition == 0:  # the default of min.insync.replicas goes with its replicas
                partitions.apply_settings(metadata.topic_by_id(record.topic_id))
            roles.change(metadata, record.topic_id, record.partition)
        elif isinstance(record, TopicCreated | PartitionsAdded):
            roles.take_of(metadata, [metadata.topic_by_id(record.topic_id)], grown)
        elif isinstance(record, PermissionRecord) and self.is_open:
            self._tell_groups_soon()
        elif isinstance(record, NodeChanged) and not metadata.nodes.live(record.node_id):
            broker.cluster.peers.give_up(record.node_id)

    # --- groups -----------------------------------------------------------------------------------

    async def tell_groups(self) -> None:
        """Which topics there are now."""
        broker = self._broker
        if broker.groups.is_coordinating:
            with _another_tells():
                await broker.groups.topics_changed(broker.controller.metadata.topics.values())
        broker.queues.retry_dead_letters()
        broker.schedules.publisher.retry()

    def _tell_groups_soon(self) -> None:
        """Regular expressions match what their members may see: that may have changed."""
        if not self._is_telling:
            self._is_telling = True
            self._start(self._tell_groups_once())

    async def _tell_groups_once(self) -> None:
        await asyncio.sleep(0)  # with what else is changed by the same request
        self._is_telling = False
        await self.tell_groups()

    async def tell_deleted(self, topic: Topic) -> None:
        if self._broker.groups.is_coordinating:
            with _another_tells():
                await self._broker.groups.topics_deleted((topic.name,))

    # --- data -------------------------------------------------------------------------------------

    async def delete_data(self, topic: Topic) -> None:
        """The files of a topic that is deleted, on this node."""
        if await self._broker.partitions.delete(topic):
            self._note_own_data_removed([topic.topic_id])

    async def finish_deletions(self, deleted: list[TopicId]) -> None:
        """What the last process left."""
        in_background = self._disk.in_background
        directories = self._broker.partitions.directories
        try:
            if await in_background(lambda: directories.finish_deletions(deleted)):
                self._note_own_data_removed(deleted)
            await in_background(directories.report_orphans)
            await self._broker.backups.remove_all()
        except GoQueueError as error:
            _log.error("data of deleted topics left", problem=str(error))

    def _note_own_data_removed(self, topic_ids: Sequence[TopicId]) -> None:
        cluster = self._broker.cluster
        if cluster.elsewhere is not None:
            self._start(_try(cluster.elsewhere.note_data_removed(topic_ids)))
            return
        if cluster.elects:  # what is deferred would be lost with the term
            self._start(_try(self.note_data_removed(cluster.node_id, topic_ids)))
            return
        with contextlib.suppress(GoQueueError):  # noted after the next start
            self._broker.controller.host.defer(
                lambda metadata: controller.note_data_removed(metadata, cluster.node_id, topic_ids)
            )

    async def note_data_removed(self, node_id: NodeId, topic_ids: Sequence[TopicId]) -> None:
        """The node has no data of the topics, which are deleted, any more."""
        await self._broker.controller.host.submit(
            lambda metadata: controller.note_data_removed(metadata, node_id, topic_ids)
        )


@contextlib.contextmanager
def _another_tells() -> Iterator[None]:
    """Whoever coordinates the groups next knows by itself which topics there are."""
    try:
        yield
    except (NotCoordinator, NotLeader, LeadershipLost, NotEnoughReplicas) as error:
        _log.warning("groups not told of a topic", problem=str(error))


async def _try(work: Awaitable[None]) -> None:
    """What fails now is done after the next start."""
    with contextlib.suppress(GoQueueError):
        await work
