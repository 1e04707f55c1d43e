"""Committed offsets: a group's floor in each partition.

Kept apart from members, because they outlive them: a group may have offsets and no members, and
changes its protocol without touching them.
"""

from collections.abc import Iterable, Iterator, Mapping

from goqueue.groups.records import CommittedOffset, OffsetRecord, OffsetsCommitted, OffsetsDeleted
from goqueue.model.ids import GroupId, TopicPartition
from goqueue.model.snapshots import Walk

SNAPSHOT_OFFSETS_MAX = 1_000  # in one record, which takes half a millisecond


class OffsetStore:
    """Only `apply` changes it."""

    def __init__(self) -> None:
        self._groups: dict[GroupId, dict[TopicPartition, CommittedOffset]] = {}
        self._walk: Walk[GroupId, tuple[CommittedOffset, ...]] | None = None  # of a snapshot

    def groups(self) -> Iterator[GroupId]:
        return iter(self._groups)

    def of(self, group_id: GroupId) -> Mapping[TopicPartition, CommittedOffset]:
        return self._groups.get(group_id, {})

    def __contains__(self, group_id: GroupId) -> bool:
        return group_id in self._groups

    def apply(self, record: OffsetRecord) -> None:
        if self._walk is not None:
            self._walk.keep(record.group_id)
        match record:
            case OffsetsCommitted(group_id=group_id, offsets=offsets):
                held = self._groups.setdefault(group_id, {})
                for committed in offsets:
                    held[TopicPartition(committed.topic, committed.partition)] = committed
            case OffsetsDeleted(group_id=group_id, partitions=partitions):
                held = self._groups.get(group_id, {})
                for key in partitions:
                    held.pop(key, None)
                if not held:
                    self._groups.pop(group_id, None)

    def snapshot(self) -> Iterator[OffsetsCommitted]:
        """As they are now; see `goqueue.model.snapshots`."""
        group_ids = list(self._groups)
        self._walk = Walk(group_ids, lambda group_id: tuple(self.of(group_id).values()))
        return _snapshot(group_ids, self._walk)

    def end_snapshot(self) -> None:
        self._walk = None


def _snapshot(
    group_ids: list[GroupId], walk: Iterable[tuple[CommittedOffset, ...]]
) -> Iterator[OffsetsCommitted]:
    for group_id, offsets in zip(group_ids, walk, strict=True):
        for start in range(0, len(offsets), SNAPSHOT_OFFSETS_MAX):
            yield OffsetsCommitted(group_id, offsets[start : start + SNAPSHOT_OFFSETS_MAX])
