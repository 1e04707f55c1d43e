"""One transactional id: its producer, and the transaction that this producer has open."""

import msgspec

from goqueue.model.ids import Timestamp, TopicName, TopicPartition
from goqueue.model.markers import UNDECIDED, Marker
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


class MustEnd(msgspec.Struct, frozen=True):
    """First this transactional id's transaction must be completed; then ask again."""

    transactional_id: str


class OpenTransaction(msgspec.Struct, frozen=True):
    """A transaction that is open in a partition's log, as the partition knows it."""

    producer_id: int
    epoch: int
    ended_at: Timestamp = UNDECIDED  # when the producer's last one there was decided


class GroupOffsets(msgspec.Struct, frozen=True):
    """A group that commits offsets with the transaction."""

    group_id: str


class QueueLedger(msgspec.Struct, frozen=True):
    """A partition, messages of which are acked with the transaction."""

    topic: TopicName
    partition: int


# A partition takes part with the records that were written to it.
Participant = TopicPartition | GroupOffsets | QueueLedger


class Leftovers:
    """What a former version wrote to this log about an open transaction (`upgrade.py`)."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[TopicPartition, PendingOffset]] = {}  # by group
        # The offset of its first record in each partition; -1 for none.
        self.starts: dict[TopicPartition, int] = {}

    def __bool__(self) -> bool:
        return bool(self.offsets or self.starts)


class Transaction:
    """Only `TransactionMachine.apply` changes it."""

    __slots__ = (
        "attempt",
        "changed_at",
        "epoch",
        "groups",
        "last_commit",
        "ledgers",
        "leftovers",
        "marker_epoch",
        "marker_producer_id",
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
        self.groups: set[str] = set()
        self.ledgers: set[TopicPartition] = set()  # of queues
        self.started_at = Timestamp(-1)
        self.changed_at = Timestamp(-1)
        self.marker_producer_id = -1  # whose markers the prepared transaction needs
        self.marker_epoch = -1
        self.previous_producer_id = -1  # a client that missed our reply still uses this one
        self.previous_epoch = -1
        self.attempt: Attempt | None = None  # it lives once, as a part of that
        self.last_commit: LastCommit | None = None
        self.leftovers: Leftovers | None = None

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
    def shares_epoch(self) -> bool:
        """Whether the last transaction that ended, and the next one, have the same epoch."""
        return self.previous_epoch == self.epoch and self.previous_producer_id == self.producer_id

    @property
    def participants(self) -> list[Participant]:
        """Who gets a marker when it ends."""
        return [
            *sorted(self.partitions),
            *map(GroupOffsets, sorted(self.groups)),
            *(QueueLedger(*each) for each in sorted(self.ledgers)),
        ]

    @property
    def open_producer(self) -> tuple[int, int]:
        """Id and epoch under which participants hold what belongs to the open transaction."""
        if self.state is State.ONGOING:
            return self.producer_id, self.epoch
        return self.marker_producer_id, self.previous_epoch

    def marker(self, coordinator_epoch: int, coordinator: int = 0) -> Marker:
        """What ends the decided transaction at each participant; `coordinator` is its shard."""
        assert self.state.is_prepared
        return Marker(
            producer_id=self.marker_producer_id,
            epoch=self.marker_epoch,
            coordinator_epoch=coordinator_epoch,
            commits=self.commits,
            is_bumped=self.marker_epoch > self.previous_epoch,
            decided_at=self.changed_at,
            coordinator=coordinator,
        )

    def will_end(self, found: OpenTransaction) -> bool:
        """Whether the end of this open transaction is also the end of `found`."""
        if self.open_producer != (found.producer_id, found.epoch):
            return False
        return self.state is State.ONGOING or found.ended_at != self.changed_at

    def has_committed(self, partition: TopicPartition, found: OpenTransaction) -> bool:
        """Whether `found` is the last transaction that was committed, and lacks its marker."""
        last = self.last_commit
        return (
            last is not None
            and (last.producer_id, last.epoch) == (found.producer_id, found.epoch)
            and partition in last.partitions
            and found.ended_at < last.decided_at
        )

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
        self.changed_at = max(self.changed_at, at)

    def add_group(self, group_id: str, offsets: tuple[PendingOffset, ...] = ()) -> None:
        self.groups.add(group_id)
        if offsets:
            self.leftovers = self.leftovers or Leftovers()
            held = self.leftovers.offsets.setdefault(group_id, {})
            held |= {TopicPartition(each.topic, each.partition): each for each in offsets}

    def prepare(self, record: Prepared) -> None:
        self.state = State.PREPARE_COMMIT if record.commits else State.PREPARE_ABORT
        self.previous_producer_id = self.producer_id
        self.previous_epoch = self.epoch
        self.marker_producer_id = self.producer_id
        self.marker_epoch = record.marker_epoch
        self.producer_id = record.producer_id
        self.epoch = record.epoch
        self.changed_at = record.at
        self._note_starts(record.starts)

    def _note_starts(self, starts: tuple[int, ...] | None) -> None:
        if starts is not None and self.shares_epoch:
            self.leftovers = self.leftovers or Leftovers()
            self.leftovers.starts = dict(zip(sorted(self.partitions), starts, strict=True))

    def complete(self, at: Timestamp) -> None:
        assert self.state.is_prepared
        if self.commits:
            self.last_commit = LastCommit(
                self.marker_producer_id,
                self.previous_epoch,
                self.marker_epoch,
                self.changed_at,
                tuple(sorted(self.partitions)),
            )
        self.state = State.COMPLETE_COMMIT if self.commits else State.COMPLETE_ABORT
        self.partitions = set()
        self.groups = set()
        self.ledgers = set()
        self.leftovers = None
        self.changed_at = max(self.changed_at, at)

    # --- snapshots --------------------------------------------------------------------------------

    def to_record(self) -> TransactionKept:
        left = self.leftovers or Leftovers()
        return TransactionKept(
            self.transactional_id,
            self.producer_id,
            self.epoch,
            self.timeout_ms,
            self.state,
            tuple(sorted(self.partitions)),
            {each: tuple(left.offsets.get(each, {}).values()) for each in sorted(self.groups)},
            self.started_at,
            self.changed_at,
            self.marker_producer_id,
            self.marker_epoch,
            self.previous_producer_id,
            self.previous_epoch,
            self.attempt,
            tuple(left.starts.values()) if left.starts else None,
            self.last_commit,
            tuple(sorted(self.ledgers)),
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
            transaction.add_group(group_id, offsets)
        transaction.started_at = kept.started_at
        transaction.changed_at = kept.changed_at
        transaction.marker_producer_id = kept.marker_producer_id
        transaction.marker_epoch = kept.marker_epoch
        transaction.previous_producer_id = kept.previous_producer_id
        transaction.previous_epoch = kept.previous_epoch
        transaction.attempt = kept.attempt
        transaction._note_starts(kept.starts)
        transaction.last_commit = kept.committed
        transaction.ledgers = {TopicPartition(*each) for each in kept.ledgers}
        return transaction
