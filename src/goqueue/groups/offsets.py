"""Committed offsets: a group's floor in each partition.

Kept apart from members, because they outlive them: a group may have offsets and no members, and
changes its protocol without touching them.
"""

from collections.abc import Iterator, Mapping

from goqueue.groups.records import CommittedOffset, OffsetRecord, OffsetsCommitted, OffsetsDeleted
from goqueue.model.ids import GroupId, TopicName

PartitionKey = tuple[TopicName, int]
SNAPSHOT_OFFSETS_MAX = 1_000  # in one record


class OffsetStore:
    """Only `apply` changes it."""

    def __init__(self) -> None:
        self._groups: dict[GroupId, dict[PartitionKey, CommittedOffset]] = {}

    def groups(self) -> Iterator[GroupId]:
        return iter(self._groups)

    def of(self, group_id: GroupId) -> Mapping[PartitionKey, CommittedOffset]:
        return self._groups.get(group_id, {})

    def __contains__(self, group_id: GroupId) -> bool:
        return group_id in self._groups

    def apply(self, record: OffsetRecord) -> None:
        match record:
            case OffsetsCommitted(group_id=group_id, offsets=offsets):
                held = self._groups.setdefault(group_id, {})
                for committed in offsets:
                    held[committed.topic, committed.partition] = committed
            case OffsetsDeleted(group_id=group_id, partitions=partitions):
                held = self._groups.get(group_id, {})
                for key in partitions:
                    held.pop(key, None)
                if not held:
                    self._groups.pop(group_id, None)

    def snapshot(self) -> Iterator[OffsetsCommitted]:
        for group_id, held in self._groups.items():
            offsets = tuple(held.values())
            for start in range(0, len(offsets), SNAPSHOT_OFFSETS_MAX):
                yield OffsetsCommitted(group_id, offsets[start : start + SNAPSHOT_OFFSETS_MAX])
