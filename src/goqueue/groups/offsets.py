"""Committed offsets: a group's floor in each partition; and those that a transaction will commit.

Kept apart from members, because they outlive them: a group may have offsets and no members, and
changes its protocol without touching them.
"""

from collections.abc import Iterable, Iterator, Mapping

from goqueue.groups.pending_offsets import PendingOffsets
from goqueue.groups.records import (
    CommittedOffset,
    OffsetRecord,
    OffsetsCommitted,
    OffsetsDeleted,
    PendingOffsetsAdded,
    PendingOffsetsEnded,
)
from goqueue.model.ids import GroupId, TopicPartition
from goqueue.model.snapshots import Walk

SNAPSHOT_OFFSETS_MAX = 1_000  # in one record, which takes half a millisecond

Parts = tuple[tuple[CommittedOffset, ...], tuple[PendingOffsetsAdded, ...]]  # of a group


class OffsetStore:
    """Only `apply` changes it."""

    def __init__(self) -> None:
        self._groups: dict[GroupId, dict[TopicPartition, CommittedOffset]] = {}
        self._walk: Walk[GroupId, Parts] | None = None  # of a snapshot
        self.pending = PendingOffsets()

    def groups(self) -> Iterator[GroupId]:
        return iter(self._groups)

    def all_groups(self) -> list[GroupId]:
        """Also those that have nothing but pending offsets."""
        return list(dict.fromkeys([*self._groups, *self.pending.groups()]))

    def partitions(self, group_id: GroupId) -> list[TopicPartition]:
        """Those with an offset that is committed or pending."""
        return list(dict.fromkeys([*self.of(group_id), *self.pending.of(group_id)]))

    def of(self, group_id: GroupId) -> Mapping[TopicPartition, CommittedOffset]:
        return self._groups.get(group_id, {})

    def __contains__(self, group_id: GroupId) -> bool:
        return group_id in self._groups

    def apply(self, record: OffsetRecord) -> None:
        if self._walk is not None:
            self._walk.keep(record.group_id)
        match record:
            case OffsetsCommitted(group_id=group_id, offsets=offsets):
                self._put(group_id, offsets)
                if group_id in self.pending:
                    self.pending.drop(group_id, [(each.topic, each.partition) for each in offsets])
            case PendingOffsetsAdded():
                self.pending.add(record)
            case PendingOffsetsEnded():
                self._put(record.group_id, record.committed)
                self.pending.end(record)
            case OffsetsDeleted(group_id=group_id, partitions=partitions):
                held = self._groups.get(group_id, {})
                for key in partitions:
                    held.pop(key, None)
                if not held:
                    self._groups.pop(group_id, None)
                self.pending.drop(group_id, partitions)

    def _put(self, group_id: GroupId, offsets: tuple[CommittedOffset, ...]) -> None:
        if offsets:
            held = self._groups.setdefault(group_id, {})
            for committed in offsets:
                held[TopicPartition(committed.topic, committed.partition)] = committed

    def snapshot(self) -> Iterator[OffsetRecord]:
        """As they are now; see `goqueue.model.snapshots`."""
        group_ids = self.all_groups()
        self._walk = Walk(group_ids, self._copy)
        return _snapshot(group_ids, self._walk)

    def _copy(self, group_id: GroupId) -> Parts:
        return tuple(self.of(group_id).values()), self.pending.snapshot(group_id)

    def end_snapshot(self) -> None:
        self._walk = None


def _snapshot(group_ids: list[GroupId], walk: Iterable[Parts]) -> Iterator[OffsetRecord]:
    for group_id, (offsets, pending) in zip(group_ids, walk, strict=True):
        for start in range(0, len(offsets), SNAPSHOT_OFFSETS_MAX):
            yield OffsetsCommitted(group_id, offsets[start : start + SNAPSHOT_OFFSETS_MAX])
        yield from pending
