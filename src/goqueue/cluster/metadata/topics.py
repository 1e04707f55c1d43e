"""The topics, by name and by id, and those whose deletion is not carried out everywhere."""

from collections.abc import Mapping

import msgspec

from goqueue.cluster.metadata.records import Nodes, TopicDeleted
from goqueue.model.errors import PartitionNotFound
from goqueue.model.ids import NodeId, Timestamp, TopicId, TopicName
from goqueue.model.names import is_internal
from goqueue.model.settings import TopicSettings


class Topic(msgspec.Struct, frozen=True):
    topic_id: TopicId
    name: TopicName
    partitions: int
    overrides: dict[str, str]  # what was set for this topic, as text
    settings: TopicSettings  # the same with defaults, ready for use
    created_at: Timestamp
    replication_factor: int = 1

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)

    def has_partition(self, partition: int) -> bool:
        return 0 <= partition < self.partitions

    def check_partition(self, partition: int) -> None:
        if not self.has_partition(partition):
            raise PartitionNotFound(
                f"topic {self.name!r} has partitions 0 to {self.partitions - 1}, not {partition}"
            )


class TopicTable:
    def __init__(self) -> None:
        self.by_name: dict[TopicName, Topic] = {}
        self.by_id: dict[TopicId, Topic] = {}
        self._by_folded_name: dict[str, TopicName] = {}
        # Whose data may still be there, and on which nodes; in order.
        self.deleted: dict[TopicId, Nodes] = {}

    def copy(self) -> "TopicTable":
        copy = TopicTable()
        copy.by_name.update(self.by_name)
        copy.by_id.update(self.by_id)
        copy._by_folded_name.update(self._by_folded_name)
        copy.deleted.update(self.deleted)
        return copy

    def look_alike(self, name: TopicName) -> TopicName | None:
        """Whose name would be one and the same in metrics: `a.b` and `a_b`."""
        return self._by_folded_name.get(_fold(name))

    def put(self, topic: Topic) -> None:
        self.by_name[topic.name] = topic
        self.by_id[topic.topic_id] = topic
        self._by_folded_name[_fold(topic.name)] = topic.name

    def delete(self, record: TopicDeleted) -> None:
        self.deleted[record.topic_id] = record.nodes
        topic = self.by_id.pop(record.topic_id, None)
        if topic is None:  # a snapshot's record
            return
        del self.by_name[topic.name]
        if self._by_folded_name.get(_fold(topic.name)) == topic.name:
            del self._by_folded_name[_fold(topic.name)]

    def forget_replica(self, topic_id: TopicId, node_id: NodeId) -> None:
        left = tuple(each for each in self.deleted.get(topic_id, ()) if each != node_id)
        if left:
            self.deleted[topic_id] = left
        else:
            self.deleted.pop(topic_id, None)


def merge_settings(before: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """What is set afterwards; None unsets."""
    after = {**before, **changes}
    return {key: value for key, value in after.items() if value is not None}


def _fold(name: str) -> str:
    return name.replace(".", "_")
