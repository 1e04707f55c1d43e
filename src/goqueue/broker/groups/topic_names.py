"""Topic ids, which groups use, to the names and partitions of topics that exist, and back."""

from collections.abc import Iterable

from goqueue.broker.groups.coordinator import Groups
from goqueue.broker.groups.http_sessions import Session
from goqueue.broker.groups.services import GroupServices
from goqueue.broker.storage.partition import Partition, Waiter
from goqueue.groups import MemberAssignment
from goqueue.groups.records import MemberState
from goqueue.model.errors import TopicNotFound
from goqueue.model.ids import TopicIdPartition, TopicName
from goqueue.model.topic_partition import TopicPartition


class TopicNames:
    """A deleted topic has no name; its groups are told a moment later."""

    def __init__(self, services: GroupServices) -> None:
        self._services = services

    def find(self, topic_partition: TopicIdPartition) -> TopicName | None:
        metadata = self._services.metadata
        if not metadata.has_id(topic_partition.topic_id):
            return None
        return metadata.topic_by_id(topic_partition.topic_id).name

    def to_names(self, partitions: Iterable[TopicIdPartition]) -> list[TopicPartition]:
        """In order."""
        found = (
            (self.find(topic_partition), topic_partition.partition)
            for topic_partition in partitions
        )
        return sorted(TopicPartition(name, index) for name, index in found if name is not None)

    def to_ids(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, TopicIdPartition]:
        """Raises when a topic does not exist."""
        return {
            each: TopicIdPartition(self._services.topic(each.topic).topic_id, each.partition)
            for each in partitions
        }

    async def partition(self, topic_partition: TopicIdPartition) -> Partition | None:
        name = self.find(topic_partition)
        if name is None:
            return None
        try:
            return await self._services.partition(name, topic_partition.partition)
        except TopicNotFound:
            return None


class MemberSubscription:
    """Wakes a waiter when the member's group or one of its partitions changes."""

    def __init__(self, groups: Groups, names: TopicNames, session: Session, waiter: Waiter) -> None:
        self._groups = groups
        self._names = names
        self._session = session
        self._waiter = waiter
        self._partitions: dict[TopicIdPartition, Partition] = {}

    def __enter__(self) -> "MemberSubscription":
        return self

    def __exit__(self, *_: object) -> None:
        self._groups.unwatch(self._session.group_id, self._session.member_id, self._waiter)
        for partition in self._partitions.values():
            partition.unsubscribe(self._waiter)

    async def update(self, assignment: MemberAssignment) -> None:
        """Subscribe to the partitions that the member has now."""
        session = self._session
        is_waiting = assignment.state is MemberState.WAITING
        self._groups.watch(session.group_id, session.member_id, self._waiter, is_waiting=is_waiting)
        for topic_partition in self._partitions.keys() - assignment.assigned:
            self._partitions.pop(topic_partition).unsubscribe(self._waiter)
        for topic_partition in assignment.assigned - self._partitions.keys():
            partition = await self._names.partition(topic_partition)
            if partition is not None:
                partition.subscribe(self._waiter)
                self._partitions[topic_partition] = partition
