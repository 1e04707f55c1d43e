"""Topic ids, which groups use, to the names and partitions of topics that exist, and back."""

from collections.abc import Iterable

from goqueue.broker.groups.services import GroupServices
from goqueue.broker.messages.remote_partition import Readable, readable
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

    async def partition(self, topic_partition: TopicIdPartition) -> Readable | None:
        name = self.find(topic_partition)
        if name is None:
            return None
        try:
            topic = self._services.topic(name)
            return await readable(self._services, topic, topic_partition.partition)
        except TopicNotFound:
            return None

    async def partitions(self, assigned: Iterable[TopicIdPartition]) -> list[Readable]:
        """Those that are there."""
        found = [await self.partition(topic_partition) for topic_partition in assigned]
        return [partition for partition in found if partition is not None]
