"""Offsets that groups commit together with a transaction, and that wait for its end.

A transaction is known here by its producer id and epoch.  What was committed last stands, as in
Apache Kafka: a plain commit supersedes what is pending for its partition, and the offset of a
transaction that commits supersedes those that became pending before it.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from goqueue.groups.records import CommittedOffset, PendingOffsetsAdded, PendingOffsetsEnded
from goqueue.model.ids import GroupId, TopicName, TopicPartition
from goqueue.model.markers import Marker


class PendingOffset(msgspec.Struct, frozen=True):
    epoch: int  # of the producer
    offset: CommittedOffset


Pending = dict[TopicPartition, dict[int, PendingOffset]]  # by producer id; the newest last


class PendingOffsets:
    """Only `OffsetStore.apply` changes it."""

    def __init__(self) -> None:
        self._groups: dict[GroupId, Pending] = {}

    def groups(self) -> Iterator[GroupId]:
        return iter(self._groups)

    def __contains__(self, group_id: GroupId) -> bool:
        return group_id in self._groups

    def of(self, group_id: GroupId) -> Mapping[TopicPartition, Mapping[int, PendingOffset]]:
        return self._groups.get(group_id, {})

    def transactions(self) -> set[tuple[GroupId, int, int]]:
        """Group, producer id and epoch of all that is pending."""
        return {
            (group_id, producer_id, pending.epoch)
            for group_id, partitions in self._groups.items()
            for producers in partitions.values()
            for producer_id, pending in producers.items()
        }

    def find_ended(self, group_id: GroupId, marker: Marker) -> list[CommittedOffset]:
        """The offsets whose transaction the marker ends."""
        found = (each.get(marker.producer_id) for each in self.of(group_id).values())
        return [each.offset for each in found if each and each.epoch <= marker.ended_epoch]

    # --- changes ----------------------------------------------------------------------------------

    def add(self, record: PendingOffsetsAdded) -> None:
        partitions = self._groups.setdefault(record.group_id, {})
        for offset in record.offsets:
            at = TopicPartition(offset.topic, offset.partition)
            producers = partitions.setdefault(at, {})
            producers.pop(record.producer_id, None)
            producers[record.producer_id] = PendingOffset(record.epoch, offset)

    def end(self, record: PendingOffsetsEnded) -> None:
        partitions = self._groups.get(record.group_id, {})
        for offset in record.committed:
            at = TopicPartition(offset.topic, offset.partition)
            producers = partitions[at]
            while next(iter(producers)) != record.producer_id:  # those before it
                del producers[next(iter(producers))]
        for at, producers in list(partitions.items()):
            pending = producers.get(record.producer_id)
            if pending is not None and pending.epoch <= record.epoch:
                del producers[record.producer_id]
            if not producers:
                del partitions[at]
        self._tidy(record.group_id)

    def drop(self, group_id: GroupId, partitions: Iterable[tuple[TopicName, int]]) -> None:
        held = self._groups.get(group_id)
        if held is not None:
            for at in partitions:
                held.pop(TopicPartition(*at), None)
            self._tidy(group_id)

    def _tidy(self, group_id: GroupId) -> None:
        if not self._groups.get(group_id, True):
            del self._groups[group_id]

    def snapshot(self, group_id: GroupId) -> tuple[PendingOffsetsAdded, ...]:
        return tuple(
            PendingOffsetsAdded(group_id, producer_id, pending.epoch, (pending.offset,))
            for producers in self.of(group_id).values()
            for producer_id, pending in producers.items()
        )
