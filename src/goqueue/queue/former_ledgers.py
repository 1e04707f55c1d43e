"""Builds ledgers from the former queue log, which all partitions shared.

That log numbered the deliveries of all partitions together.  So each ledger starts with the highest
number, and receipts from before stay valid: no delivery after the split can have their number.
"""

from collections.abc import Iterator

import msgspec

from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from goqueue.queue.dead_letter import dead_letter_topic
from goqueue.queue.group_table import GroupTable
from goqueue.queue.machine import QueueMachine
from goqueue.queue.records import (
    DeadLettered,
    DeadLetterSnapshot,
    DeadLettersRemoved,
    Leased,
    LogShortened,
    Numbered,
    PartitionsForgotten,
    QueueRecord,
    RedriveStarted,
    Resumed,
    TransactionCoordinatorSeen,
)


class FormerLedgers:
    """Applies each record to the ledgers that it is about."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._ledgers: dict[TopicPartition, QueueMachine] = {}
        self._next_lease_id = 1
        self._dead_letters_end: dict[TopicPartition, Offset] = {}  # of partitions of dead letters

    def __bool__(self) -> bool:
        return bool(self._ledgers)

    def take(self) -> Iterator[QueueMachine]:
        """The ledgers as they are to be written down."""
        for place, ledger in self._ledgers.items():
            ledger.next_lease_id = self._next_lease_id
            name = TopicName(dead_letter_topic(place.topic))
            dead_letters = TopicPartition(name, place.partition)
            ledger.dead_letters_end = self._dead_letters_end.get(dead_letters, Offset(0))
            yield ledger

    def records(self) -> Iterator[QueueRecord]:
        """All of it as a log of before would say it."""
        if self._ledgers:
            yield Numbered(self._next_lease_id)
        for place, ledger in self._ledgers.items():
            for record in ledger.snapshot():
                if isinstance(record, DeadLetterSnapshot):
                    end = self._dead_letters_end.get(place, Offset(0))
                    yield msgspec.structs.replace(record, end=end)
                elif not isinstance(record, Numbered):
                    yield record

    def clear(self) -> None:
        for ledger in self._ledgers.values():
            ledger.close()
        self._ledgers.clear()

    def forget_group(self, group_id: GroupId) -> None:
        for ledger in self._ledgers.values():
            ledger.apply(PartitionsForgotten(group_id, ledger.topic))

    def forget_topic(self, topic: TopicName) -> None:
        for place in [place for place in self._ledgers if place.topic == topic]:
            self._ledgers.pop(place).close()
        for place in [place for place in self._dead_letters_end if place.topic == topic]:
            del self._dead_letters_end[place]

    def apply(self, record: QueueRecord) -> None:
        match record:
            case Numbered(next_lease_id=next_lease_id):
                self._next_lease_id = next_lease_id
            case TransactionCoordinatorSeen():
                return  # a log of before has none
            case Resumed():
                for ledger in self._ledgers.values():
                    ledger.apply(record)
            case PartitionsForgotten(topic=topic):
                for place, ledger in self._ledgers.items():
                    if place.topic == topic:
                        ledger.apply(record)
            case (
                LogShortened(topic=topic, partition=partition)
                | RedriveStarted(topic=topic, partition=partition)
                | DeadLettersRemoved(topic=topic, partition=partition)
                | DeadLetterSnapshot(topic=topic, partition=partition)
            ):
                self._note_dead_letters(TopicPartition(topic, partition), record)
                self._ledger(topic, partition).apply(record)
            case _:
                if isinstance(record, Leased):
                    self._next_lease_id = max(self._next_lease_id, record.lease_id + 1)
                elif isinstance(record, DeadLettered):
                    dead_letters = TopicPartition(record.dead_letter_topic, record.where.partition)
                    self._raise_dead_letters_end(dead_letters, record.dead_letters_end)
                self._ledger(record.where.topic, record.where.partition).apply(record)

    def _note_dead_letters(
        self,
        place: TopicPartition,
        record: LogShortened | RedriveStarted | DeadLettersRemoved | DeadLetterSnapshot,
    ) -> None:
        if isinstance(record, DeadLetterSnapshot):
            self._raise_dead_letters_end(place, record.end)
        elif isinstance(record, LogShortened) and place in self._dead_letters_end:
            self._dead_letters_end[place] = min(self._dead_letters_end[place], record.end)

    def _raise_dead_letters_end(self, place: TopicPartition, end: Offset) -> None:
        self._dead_letters_end[place] = max(self._dead_letters_end.get(place, Offset(0)), end)

    def _ledger(self, topic: TopicName, partition: int) -> QueueMachine:
        place = TopicPartition(topic, partition)
        found = self._ledgers.get(place)
        if found is None:
            found = self._ledgers[place] = QueueMachine(topic, partition, self._table)
        return found
