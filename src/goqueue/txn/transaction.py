"""One transactional id: its producer, and the transaction that this producer has open."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from goqueue.model.ids import Timestamp, TopicPartition
from goqueue.txn.records import (
    Attempt,
    AttemptStarted,
    LastCommit,
    PendingOffset,
    Prepared,
    ProducerRegistered,
    State,
    TransactionKept,
)

NO_RECORDS: Final = -1  # no record of the transaction is in the partition


class MustEnd(msgspec.Struct, frozen=True):
    """First this transactional id's transaction must be completed; then ask again."""

    transactional_id: str


class OpenTransaction(msgspec.Struct, frozen=True):
    """A transaction that is open in a partition's log, as the partition knows it."""

    producer_id: int
    epoch: int
    first_offset: int


class Transaction:
    """Only `TransactionMachine.apply` changes it."""

    __slots__ = (
        "attempt",
        "changed_at",
        "epoch",
        "first_offsets",
        "last_commit",
        "marker_epoch",
        "marker_producer_id",
        "offsets",
        "partitions",
        "previous_epoch",
        "previous_producer_id",
        "producer_id",
        "started_at",
        "state",
        "timeout_ms",
        "transactional_id",
    )

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        self.timeout_ms = 0
        self.state = State.EMPTY
        self.partitions: set[TopicPartition] = set()
        self.offsets: dict[str, dict[TopicPartition, PendingOffset]] = {}
        self.started_at = Timestamp(-1)
        self.changed_at = Timestamp(-1)
        self.marker_producer_id = -1  # whose markers the prepared transaction needs
        self.marker_epoch = -1
        self.previous_producer_id = -1  # a client that missed our reply still uses this one
        self.previous_epoch = -1
        self.attempt: Attempt | None = None  # it lives once, as a part of that
        # Of a decided transaction: the offset of its first record in each partition, or NO_RECORDS.
        # It tells the transaction apart from the next one of the same producer.  None: not known.
        self.first_offsets: dict[TopicPartition, int] | None = None
        # Kept when the next one begins: a partition may have lost the marker, and asks then.
        self.last_commit: LastCommit | None = None

    @property
    def deadline(self) -> Timestamp:
        return Timestamp(self.started_at + self.timeout_ms)

    @property
    def is_open(self) -> bool:
        """Whether it has begun and is not complete."""
        return self.state is State.ONGOING or self.state.is_prepared

    @property
    def commits(self) -> bool:
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)

    @property
    def open_producer_id(self) -> int:
        """The producer whose records the open transaction has."""
        return self.marker_producer_id if self.state.is_prepared else self.producer_id

    def will_end(self, partition: TopicPartition, found: OpenTransaction) -> bool:
        """Whether the end of this open transaction is also the end of `found`."""
        if self.state.is_prepared:
            return self.owns_open_records(partition, {found.producer_id: found.first_offset})
        return not self.has_committed(partition, found)

    def owns_open_records(self, partition: TopicPartition, opened: Mapping[int, int]) -> bool:
        """Whether the records its producer has open in the partition are of this decided one.

        `opened` is each producer that has a transaction open there, to that one's first offset.
        """
        if self.first_offsets is None:
            return True  # the next one waits until this one's completion is durable
        first_offset = opened.get(self.marker_producer_id, NO_RECORDS)
        return first_offset != NO_RECORDS and first_offset == self.first_offsets[partition]

    def has_committed(self, partition: TopicPartition, found: OpenTransaction) -> bool:
        """Whether `found` is the last transaction that was committed, and lacks its marker.

        Where the first offsets are not known, an epoch below the marker's says so.  With the same
        epoch it may be the next transaction: then nobody knows, and this is False.
        """
        last = self.last_commit
        if last is None or last.producer_id != found.producer_id:
            return False
        if partition not in last.partitions:
            return False
        if last.first_offsets is None:
            return found.epoch < last.marker_epoch
        return last.first_offsets[last.partitions.index(partition)] == found.first_offset

    # --- changes ----------------------------------------------------------------------------------

    def register(self, record: ProducerRegistered) -> None:
        self.producer_id = record.producer_id
        self.epoch = record.epoch
        self.timeout_ms = record.timeout_ms
        self.previous_producer_id = record.previous_producer_id
        self.previous_epoch = record.previous_epoch
        self.state = State.EMPTY
        self.changed_at = record.at

    def start_attempt(self, record: AttemptStarted) -> None:
        self.attempt = record.attempt
        self.register(
            ProducerRegistered(
                record.transactional_id, record.producer_id, 0, record.timeout_ms, record.at
            )
        )

    def begin(self, at: Timestamp) -> None:
        if self.state is not State.ONGOING:
            self.state = State.ONGOING
            self.started_at = at
        self.changed_at = at

    def add_offsets(self, group_id: str, offsets: Iterable[PendingOffset]) -> None:
        held = self.offsets.setdefault(group_id, {})
        for offset in offsets:
            held[TopicPartition(offset.topic, offset.partition)] = offset

    def prepare(self, record: Prepared) -> None:
        self.state = State.PREPARE_COMMIT if record.commits else State.PREPARE_ABORT
        self.previous_producer_id = self.producer_id
        self.previous_epoch = self.epoch
        self.marker_producer_id = self.producer_id
        self.marker_epoch = record.marker_epoch
        self.producer_id = record.producer_id
        self.epoch = record.epoch
        self.changed_at = record.at
        self._set_first_offsets(record.first_offsets)

    def _set_first_offsets(self, first_offsets: tuple[int, ...] | None) -> None:
        self.first_offsets = None
        if first_offsets is not None:
            self.first_offsets = dict(zip(sorted(self.partitions), first_offsets, strict=True))

    def complete(self, at: Timestamp) -> None:
        assert self.state.is_prepared
        if self.commits:
            self.last_commit = LastCommit(
                self.marker_producer_id,
                self.marker_epoch,
                tuple(sorted(self.partitions)),
                None if self.first_offsets is None else tuple(self.first_offsets.values()),
            )
        self.state = State.COMPLETE_COMMIT if self.commits else State.COMPLETE_ABORT
        self.partitions = set()
        self.offsets = {}
        self.first_offsets = None
        self.changed_at = at

    # --- snapshots --------------------------------------------------------------------------------

    def to_record(self) -> TransactionKept:
        return TransactionKept(
            self.transactional_id,
            self.producer_id,
            self.epoch,
            self.timeout_ms,
            self.state,
            tuple(sorted(self.partitions)),
            {group: tuple(held.values()) for group, held in self.offsets.items()},
            self.started_at,
            self.changed_at,
            self.marker_producer_id,
            self.marker_epoch,
            self.previous_producer_id,
            self.previous_epoch,
            self.attempt,
            None if self.first_offsets is None else tuple(self.first_offsets.values()),
            self.last_commit,
        )

    @classmethod
    def from_record(cls, kept: TransactionKept) -> "Transaction":
        transaction = cls(kept.transactional_id)
        transaction.producer_id = kept.producer_id
        transaction.epoch = kept.epoch
        transaction.timeout_ms = kept.timeout_ms
        transaction.state = kept.state
        transaction.partitions = {
            TopicPartition(topic, partition) for topic, partition in kept.partitions
        }
        for group_id, offsets in kept.offsets.items():
            transaction.add_offsets(group_id, offsets)
        transaction.started_at = kept.started_at
        transaction.changed_at = kept.changed_at
        transaction.marker_producer_id = kept.marker_producer_id
        transaction.marker_epoch = kept.marker_epoch
        transaction.previous_producer_id = kept.previous_producer_id
        transaction.previous_epoch = kept.previous_epoch
        transaction.attempt = kept.attempt
        transaction._set_first_offsets(kept.first_offsets)
        transaction.last_commit = kept.last_commit
        return transaction
