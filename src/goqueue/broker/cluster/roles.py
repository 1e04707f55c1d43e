"""What this node is to each partition, as the image says; the partitions are told when it changes.

    record in the image ──> role of each partition that it concerns ──> ReplicaManager

A partition whose only replica is here, and always was, is not told: its logs are opened when they
are first used, and need not note epochs.  One with several replicas is opened at once, by its
leader and by its followers: they cannot be in sync with a log that nobody has opened.

Until the node has registered it leads nothing, whatever the image says: another process may have
been elected since that image was written.
"""

from collections.abc import Iterable
from uuid import UUID

from goqueue.broker.replicas import ReplicaManager
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Metadata, Topic
from goqueue.cluster.metadata import PartitionState, role_of
from goqueue.cluster.replication import Leader, Offline, Role
from goqueue.log import Replica
from goqueue.model.ids import NodeId, TopicId


class Roles:
    """Only the event loop's thread changes it; threads of the disk ask, too."""

    def __init__(self, node_id: NodeId, partitions: Partitions, replicas: ReplicaManager) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._replicas = replicas
        self._metadata: Metadata | None = None
        self._is_registered = False
        self._directory_id: UUID | None = None
        partitions.role_of = self._role_of
        partitions.replica_of = self._replica_of

    def bind(self, metadata: Metadata) -> None:
        """The image as it is from now on, the same object until it is bound again."""
        self._metadata = metadata
        self._partitions.directories.topic_exists = metadata.has_id
        self._partitions.directories.topic_was_deleted = metadata.deleted.__contains__

    def take_all(self, directory_id: str) -> None:
        """The node has registered: it is what the image says."""
        self._is_registered = True
        self._directory_id = UUID(directory_id)
        if self._metadata is not None:
            self.take_of(self._metadata, self._metadata.topics.values())
            self._replicas.drop_former(self._find_former)

    def _find_former(self, topic_id: TopicId, index: int) -> Topic | None:
        """The topic, if the partition is on other nodes."""
        state = self._state_of(topic_id, index)
        if state is None or self._node_id in state.replicas or self._metadata is None:
            return None
        return self._metadata.topic_by_id(topic_id)

    # --- records of the image ---------------------------------------------------------------------

    def take_of(self, metadata: Metadata, topics: Iterable[Topic], first: int = 0) -> None:
        """Of topics that are new, from the partition `first` on."""
        if not self._is_registered:
            return
        for topic in topics:
            states = metadata.partitions.of(topic.topic_id)
            for index in range(first, len(states)):
                state = states[index]
                if len(state.replicas) > 1 and self._node_id in state.replicas:
                    self._change(topic, index, state)

    def change(self, metadata: Metadata, topic_id: TopicId, index: int) -> None:
        """The partition has another leader, or other replicas, or others are in sync."""
        state = metadata.partition(topic_id, index)
        topic = metadata.topic_by_id(topic_id)
        is_used = self._partitions.used_bundle(topic.name, index) is not None
        if self._is_registered and self._node_id in state.replicas:
            self._change(topic, index, state)
        elif self._is_registered and is_used:
            self._replicas.drop(topic, index, role_of(state, self._node_id))

    def forget(self, topic: Topic) -> None:
        """It was deleted."""
        self._replicas.forget(topic)
        self._partitions.abandon(topic)

    def replace(self, before: Metadata, after: Metadata) -> None:
        """A snapshot took the image's place: the partitions get to know what has changed."""
        self.bind(after)
        for topic in before.topics.values():
            if not after.has_id(topic.topic_id):
                self.forget(topic)
                continue
            now = after.topic_by_id(topic.topic_id)
            if now.settings != topic.settings:
                self._partitions.apply_settings(now)
            states = before.partitions.of(topic.topic_id)
            for index, state in enumerate(states):
                if after.partition(topic.topic_id, index) != state:
                    self.change(after, topic.topic_id, index)
            self.take_of(after, [now], len(states))
        self.take_of(
            after, [each for each in after.topics.values() if not before.has_id(each.topic_id)]
        )

    # --- roles ------------------------------------------------------------------------------------

    def _change(self, topic: Topic, index: int, state: PartitionState) -> None:
        role = role_of(state, self._node_id)
        bundle = self._partitions.used_bundle(topic.name, index)
        if (
            bundle is not None
            and bundle.topic_id == topic.topic_id
            and _is_older(role, bundle.role)
        ):
            return
        _ = self._replicas.change_role(topic, index, role, unclean_epoch=state.unclean_epoch)

    def _role_of(self, topic_id: TopicId | None, index: int) -> Role | None:
        """None: this node has the only replica, and always had."""
        state = self._state_of(topic_id, index)
        if state is None or (state.replicas == (self._node_id,) and not state.partition_epoch):
            return None
        if not self._is_registered:
            return Offline("this node has not joined its cluster yet", state.leader_epoch)
        return role_of(state, self._node_id)

    def _replica_of(self, topic_id: TopicId | None, index: int) -> Replica | None:
        """None: there is no other one."""
        state = self._state_of(topic_id, index)
        if state is None or len(state.replicas) == 1:
            return None
        return Replica(topic_id, index, self._directory_id)

    def _state_of(self, topic_id: TopicId | None, index: int) -> PartitionState | None:
        if topic_id is None or self._metadata is None:
            return None
        return self._metadata.partitions.find(topic_id, index)


def _is_older(role: Role, before: Role | None) -> bool:
    """Whether the leader knows more than the image: of a proposal, or that it was granted."""
    return (
        isinstance(role, Leader)
        and isinstance(before, Leader)
        and role != before
        and role.epoch == before.epoch
        and role.partition_epoch <= before.partition_epoch
    )
