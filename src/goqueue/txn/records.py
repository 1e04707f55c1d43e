"""What the transaction machine writes to `__transactions`.

A transaction's life, and the records that move it:

         ProducerRegistered       PartitionsAdded, OffsetsAdded …      Prepared, GroupDecided
    ──────────────────────> EMPTY ────────────────────────> ONGOING ──────────────┐
                              ^                                ^                  v
                              └───────── COMPLETE ─────────────┘ <──────────── PREPARED
                      ProducerRegistered        PartitionsAdded     Completed

`Prepared` is the decision.  After it there is no way back: a marker is sent to every participant,
again and again if need be, until `Completed`.

An attempt (`AttemptStarted`) is a transaction that lives once: what decides about its group ends
it, and it is forgotten with its completion, or at once when it has written nothing.
"""

from enum import StrEnum

import msgspec

from goqueue.model.ids import Offset, Timestamp, TopicName, TopicPartition


class State(StrEnum):
    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare_commit"
    PREPARE_ABORT = "prepare_abort"
    COMPLETE_COMMIT = "complete_commit"
    COMPLETE_ABORT = "complete_abort"

    @property
    def is_prepared(self) -> bool:
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        return self in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


class PendingOffset(msgspec.Struct, frozen=True, array_like=True):
    """An offset that a group commits with the transaction; only former versions kept it here."""

    topic: TopicName
    partition: int
    offset: Offset
    leader_epoch: int = -1
    metadata: str = ""


class ProducerRegistered(msgspec.Struct, frozen=True, tag="producer"):
    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    at: Timestamp
    previous_producer_id: int = -1
    previous_epoch: int = -1


class PartitionsAdded(msgspec.Struct, frozen=True, tag="partitions"):
    transactional_id: str
    partitions: tuple[TopicPartition, ...]
    at: Timestamp


class OffsetsAdded(msgspec.Struct, frozen=True, tag="offsets"):
    """A group takes part."""

    transactional_id: str
    group_id: str
    offsets: tuple[PendingOffset, ...]  # of a former version: the group keeps them now
    at: Timestamp


class LedgersAdded(msgspec.Struct, frozen=True, tag="ledgers"):
    """Queue messages of these partitions are acked with the transaction."""

    transactional_id: str
    partitions: tuple[TopicPartition, ...]
    at: Timestamp


class Prepared(msgspec.Struct, frozen=True, tag="prepared", omit_defaults=True):
    transactional_id: str
    commits: bool
    marker_epoch: int  # the markers carry the producer id so far, and this epoch
    producer_id: int  # who may go on after this: the same id, or a new one when epochs are used up
    epoch: int
    at: Timestamp
    # Of a former version: where its records begin, in the order of the sorted partitions.
    starts: tuple[int, ...] | None = None


class Completed(msgspec.Struct, frozen=True, tag="completed"):
    transactional_id: str
    at: Timestamp


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten"):
    transactional_id: str


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """Which part of an application's work a transaction is."""

    application: str
    run: int
    version: int


class RunStarted(msgspec.Struct, frozen=True, tag="run"):
    """A new run of an application: older ones are fenced, and their attempts aborted."""

    application: str
    run: int
    at: Timestamp = Timestamp(-1)
    name: str = ""  # by which the engine knows it; "" for none


class AttemptStarted(msgspec.Struct, frozen=True, tag="attempt"):
    """A producer of its own for one attempt at one task; in the place of `ProducerRegistered`."""

    transactional_id: str
    attempt: Attempt
    producer_id: int
    timeout_ms: int
    at: Timestamp


class GroupDecided(msgspec.Struct, frozen=True, tag="group"):
    """One decision that commits many transactions: all of them or none, by this one record.

    Other attempts at this version, and at older ones, are aborted.
    """

    application: str
    version: int
    transactional_ids: tuple[str, ...]
    at: Timestamp
    contents: str = ""  # what the version holds, in the engine's words; "": it did not say


class GroupAborted(msgspec.Struct, frozen=True, tag="group_aborted"):
    """All attempts at an application's version are aborted."""

    application: str
    version: int
    at: Timestamp


class ApplicationForgotten(msgspec.Struct, frozen=True, tag="application_forgotten"):
    application: str


class LastCommit(msgspec.Struct, frozen=True, array_like=True):
    """The last transaction of an id that was committed and completed."""

    producer_id: int
    epoch: int  # of its records
    marker_epoch: int
    decided_at: Timestamp
    partitions: tuple[TopicPartition, ...]


class TransactionKept(msgspec.Struct, frozen=True, tag="kept"):
    """A whole transaction, in a snapshot."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: State
    partitions: tuple[TopicPartition, ...]
    offsets: dict[str, tuple[PendingOffset, ...]]  # by group; see `OffsetsAdded`
    started_at: Timestamp
    changed_at: Timestamp
    marker_producer_id: int
    marker_epoch: int
    previous_producer_id: int
    previous_epoch: int
    attempt: Attempt | None = None
    starts: tuple[int, ...] | None = None  # see `Prepared`
    committed: LastCommit | None = None
    ledgers: tuple[TopicPartition, ...] = ()


class ApplicationKept(msgspec.Struct, frozen=True, tag="application"):
    application: str
    run: int
    version: int
    at: Timestamp = Timestamp(-1)
    run_name: str = ""
    past_run_names: tuple[str, ...] = ()
    contents: dict[int, str] = {}


TransactionRecord = (
    ProducerRegistered
    | PartitionsAdded
    | OffsetsAdded
    | LedgersAdded
    | Prepared
    | Completed
    | Forgotten
    | RunStarted
    | AttemptStarted
    | GroupDecided
    | GroupAborted
    | ApplicationForgotten
    | TransactionKept
    | ApplicationKept
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[TransactionRecord] = msgspec.json.Decoder(TransactionRecord)


def encode(record: TransactionRecord) -> bytes:
    return _encoder.encode(record)


def decode(data: bytes) -> TransactionRecord:
    return _decoder.decode(data)
