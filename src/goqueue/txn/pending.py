"""Which positions of which groups wait for the end of a transaction."""

from collections.abc import Iterable

from goqueue.model.ids import TopicPartition


class PendingOffsets:
    """Group, and partition in it, to the transactions that are going to move it."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, set[str]]] = {}

    def add(
        self, transactional_id: str, group_id: str, partitions: Iterable[TopicPartition]
    ) -> None:
        held = self._by_group.setdefault(group_id, {})
        for partition in partitions:
            held.setdefault(partition, set()).add(transactional_id)

    def drop(
        self, transactional_id: str, group_id: str, partitions: Iterable[TopicPartition]
    ) -> None:
        held = self._by_group.get(group_id)
        if held is None:
            return
        for partition in partitions:
            owners = held.get(partition, set())
            owners.discard(transactional_id)
            if not owners:
                held.pop(partition, None)
        if not held:
            del self._by_group[group_id]

    def has(self, group_id: str, partition: TopicPartition) -> bool:
        return partition in self._by_group.get(group_id, ())
