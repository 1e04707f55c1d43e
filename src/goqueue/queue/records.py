"""What the queue machine writes to `__ledgers`.

Offsets travel as ranges: a thousand messages delivered or finished together are one pair of
numbers.  A message's life, and the records that move it:

                        Leased               Finished
    never delivered  ──────────> in flight ───────────> finished
                                  │     ^                  ^
                         Returned │     │ Leased           │ DeadLettered
                                  v     │                  │
                          waiting, ready ── MarkedDead ──> dead

`MarkedDead` is the decision that a message becomes a dead letter; writing it is tried again until
`DeadLettered`.  In between the message is neither delivered nor lost.  `RedriveStarted` and
`DeadLettersRemoved` are the same for the way back.

`Reserved` messages are acked by a transaction: they stay in flight, and do not run out, until the
transaction has ended (`ReservationsEnded`).
"""

from typing import Any, Final, Literal, TypeAlias

import msgspec

from goqueue.model.errors import CorruptData
from goqueue.model.ids import GroupId, Offset, Timestamp, TopicId, TopicName
from goqueue.queue.ranges import Ranges
from goqueue.queue.settings import QueueSettings

FORMAT_VERSION: Final = 1
FORMER_DURABILITY: Final = {"synced": "sync", "written": "async"}  # rule-ok: of `hand_outs`

# Why a message is a dead letter; `expired` is its time to live.
Reason = Literal[
    "max_failures", "max_timeouts", "max_deliveries", "rejected", "expired", "unreadable"
]
# How a delivery ended without an ack.  `lost`: its consumer died; `expired` is how `timed_out` was
# written at first.
Cause = Literal["nacked", "timed_out", "released", "lost", "expired"]
TIMEOUTS: Final = frozenset({"timed_out", "lost", "expired"})  # no answer came
Cursors = tuple[int, ...]


class Where(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One group's ledger for one partition."""

    group_id: GroupId
    topic: TopicName
    partition: int


class DeadMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why and when one message became a dead letter."""

    offset: Offset
    reason: Reason
    error: str  # the last one that a consumer told
    consumer: str  # the last one that had it
    attempts: int
    failures: int
    first_at: Timestamp  # delivered; -1 when it never was
    last_at: Timestamp
    died_at: Timestamp
    timeouts: int = 0  # older records counted them as failures


class GroupCreated(msgspec.Struct, frozen=True, tag="group"):
    group_id: GroupId
    settings: QueueSettings | None = None  # written here before the metadata had them
    generation: int = 0  # of its members; in a snapshot
    has_begun: bool = False  # in a topic, which may be gone since; in a snapshot


class GroupForgotten(msgspec.Struct, frozen=True, tag="group_forgotten"):
    group_id: GroupId


class QueueMember(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer that joined, as it was written here before the log of groups had members."""

    member_id: str
    client_id: str
    client_host: str
    topics: tuple[TopicName, ...]
    session_timeout_ms: int
    generation: int  # who says another one is somebody else
    joined_at: Timestamp


class MemberJoined(msgspec.Struct, frozen=True, tag="joined"):
    group_id: GroupId
    member: QueueMember


class MemberLeft(msgspec.Struct, frozen=True, tag="left"):
    group_id: GroupId
    member_id: str


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """The group begins here in this partition, whatever it knew of a topic of that name."""

    where: Where
    topic_id: TopicId
    floor: Offset
    adopted_at: Timestamp = msgspec.field(default=Timestamp(-1), name="heeded")  # see AckFloorMoved


class Leased(msgspec.Struct, frozen=True, tag="handed"):
    where: Where
    lease_id: int
    consumer: str
    at: Timestamp
    deadline: Timestamp
    fresh: tuple[tuple[int, int, int], ...]  # first, last, lane; for the first time
    again: tuple[int, ...]  # came back, or were passed over
    cursors: Cursors  # of the lanes, after this
    passed: tuple[tuple[int, int], ...] = ()  # offset and lane; passed over and ready
    deferred: tuple[tuple[int, int, int], ...] = msgspec.field(  # offset, lane, key in flight
        default=(), name="parked"
    )
    keys: tuple[tuple[int, int], ...] = ()  # offset and key of fresh ones, when keys have order


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    where: Where
    ranges: Ranges
    is_ack: bool = True  # or dropped: past its time to live, or gone from the log
    cursors: Cursors = ()  # moved past what is not to be delivered; none: as they were
    expired: int = 0  # how many of them were past their time to live


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    where: Where
    offsets: tuple[int, ...]
    visible_at: tuple[int, ...]  # one for each; 0 for at once
    cause: Cause
    at: Timestamp
    error: str = ""

    @property
    def is_failure(self) -> bool:
        """A consumer said that it could not process the message."""
        return self.cause == "nacked"

    @property
    def is_timeout(self) -> bool:
        """No answer came; the consumer may not even have begun with the message."""
        return self.cause in TIMEOUTS


class Extended(msgspec.Struct, frozen=True, tag="extended"):
    where: Where
    offsets: tuple[int, ...]
    at: Timestamp
    deadline: Timestamp


class Reserved(msgspec.Struct, frozen=True, tag="pinned"):
    """Messages in flight wait for the end of a transaction, however long that takes."""

    where: Where
    ranges: Ranges
    transactional_id: str = msgspec.field(name="owner")


class ReservationsEnded(msgspec.Struct, frozen=True, tag="pins_ended"):
    """The transaction is over: its messages are acked, or in flight as they were before."""

    where: Where
    transactional_id: str = msgspec.field(name="owner")
    commits: bool
    at: Timestamp


class MarkedDead(msgspec.Struct, frozen=True, tag="died"):
    where: Where
    dead: tuple[DeadMessage, ...] = msgspec.field(name="letters")
    cause: Cause | Literal["rejected", "outdated", "unreadable"]


class DeadLettersPlanned(msgspec.Struct, frozen=True, tag="dead_letters_planned"):
    """Dead messages are about to be written to the dead letters, as one batch of this producer.

    Until `DeadLettered` says so, the state of the producer in that partition tells whether they
    were.  Without ranges: nothing is on its way, in a snapshot.
    """

    where: Where
    ranges: Ranges
    dead_letter_topic: TopicName
    producer_id: int
    producer_epoch: int
    sequence: int  # of the first one


class DeadLettered(msgspec.Struct, frozen=True, tag="buried"):
    """The messages are in the dead letters, up to `dead_letters_end` of that partition."""

    where: Where
    ranges: Ranges
    dead_letter_topic: TopicName = msgspec.field(name="letters_topic")
    dead_letters_end: Offset = msgspec.field(name="letters_end")


class AckFloorMoved(msgspec.Struct, frozen=True, tag="floor"):
    """Everything below is finished; when it moves back, everything from there on is not."""

    where: Where
    floor: Offset
    fence: int  # the first lease that is not void when the ack floor moves back
    # when the offset commit was made that asked for it
    adopted_at: Timestamp = msgspec.field(default=Timestamp(-1), name="heeded")


class LogShortened(msgspec.Struct, frozen=True, tag="shortened"):
    """The log of a partition lost its end: what is written from `end` on is new to every group."""

    topic: TopicName
    partition: int
    topic_id: TopicId
    end: Offset
    fence: int  # the first lease that is made after this


class PartitionsForgotten(msgspec.Struct, frozen=True, tag="ledgers_forgotten"):
    """The group starts over in this topic, if it ever does."""

    group_id: GroupId
    topic: TopicName


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten"):
    """The topic is gone: all states of it, and what was taken from it as dead letters."""

    topic: TopicName


class Move(msgspec.Struct, frozen=True, array_like=True):
    """Dead letters that are to be one batch in another topic; its producer tells it apart."""

    ranges: Ranges  # of the dead letters
    topic: TopicName  # where to
    topic_id: TopicId
    partition: int
    producer_id: int
    producer_epoch: int
    behind: Offset  # the batch is not before this one


class RedriveStarted(msgspec.Struct, frozen=True, tag="moving"):
    """These dead letters are moving to another topic; `DeadLettersRemoved` ends that."""

    topic: TopicName  # of the dead letters
    partition: int
    moves: tuple[Move, ...]


class DeadLettersRemoved(msgspec.Struct, frozen=True, tag="taken"):
    """Dead letters that were driven back to their source, or purged."""

    topic: TopicName  # of the dead letters
    partition: int
    ranges: Ranges
    floor: Offset = Offset(0)  # everything below is taken or deleted
    kept: Ranges = ()  # these were to be moved, and stay


class Resumed(msgspec.Struct, frozen=True, tag="resumed"):
    """The broker was down: each lease starts again with its whole visibility time-out."""

    at: Timestamp


# --- snapshots ----------------------------------------------------------------------------------


class LeaseSnapshot(msgspec.Struct, frozen=True, array_like=True):
    lease_id: int
    consumer: str
    delivered_at: Timestamp
    deadline: Timestamp
    visibility_ms: int
    ranges: Ranges
    transactional_id: str = ""


class HistorySnapshot(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    deliveries: int
    failures: int
    first_at: Timestamp
    last_at: Timestamp
    consumer: str
    error: str
    lease_id: int
    timeouts: int = 0  # snapshots of before counted them as failures


class PartitionSnapshot(msgspec.Struct, frozen=True, tag="ledger", kw_only=True):
    """A partition's state; its messages follow, or are here in snapshots of before."""

    where: Where
    topic_id: TopicId
    floor: Offset
    fence: int
    adopted_at: Timestamp = msgspec.field(name="heeded")
    cursors: Cursors
    leases: tuple[LeaseSnapshot, ...] = ()
    waiting: tuple[tuple[int, int], ...] = ()
    lanes: tuple[tuple[int, int], ...] = ()
    keys: tuple[tuple[int, int], ...] = ()
    deferred: tuple[tuple[int, tuple[int, ...]], ...] = msgspec.field(default=(), name="parked")
    history: tuple[HistorySnapshot, ...] = ()
    dead: tuple[DeadMessage, ...] = msgspec.field(default=(), name="letters")
    settled: tuple[tuple[int, int], ...]


class MessagesSnapshot(msgspec.Struct, frozen=True, tag="ledger_part", kw_only=True):
    """Some of a partition's messages that are not finished, and all that is known of them."""

    where: Where
    leases: tuple[LeaseSnapshot, ...]
    waiting: tuple[tuple[int, int], ...]  # offset and when it is visible; 0 for at once
    lanes: tuple[tuple[int, int], ...]  # unless normal
    keys: tuple[tuple[int, int], ...]  # offset and key of what is not deferred
    deferred: tuple[tuple[int, tuple[int, ...]], ...]  # key to offsets in order
    history: tuple[HistorySnapshot, ...]
    dead: tuple[DeadMessage, ...]


class DeadLetterSnapshot(msgspec.Struct, frozen=True, tag="letters"):
    """Dead letters, as one partition has to do with them on either side."""

    topic: TopicName
    partition: int
    floor: Offset
    taken: Ranges  # of the dead letters in the partition
    # In a ledger: dead letters of the partition's own messages are recorded as written up to here.
    # In the log of all partitions: dead letters in the partition are recorded up to here.
    end: Offset
    moves: tuple[Move, ...] = ()


class Numbered(msgspec.Struct, frozen=True, tag="numbered"):
    next_lease_id: int


class TransactionCoordinatorSeen(
    msgspec.Struct, frozen=True, tag="coordinator", gc=False, omit_defaults=True
):
    """A marker came from a coordinator with this epoch; those of older ones are refused."""

    epoch: int
    coordinator: int = 0  # the partition of `__transactions`


class LedgersSplit(msgspec.Struct, frozen=True, tag="split"):
    """Each partition has a ledger of its own: what this log said of partitions is there."""


# What the ledger of a partition holds.
QueueRecord: TypeAlias = (
    Opened
    | Leased
    | Finished
    | Returned
    | Extended
    | Reserved
    | ReservationsEnded
    | MarkedDead
    | DeadLettersPlanned
    | DeadLettered
    | AckFloorMoved
    | LogShortened
    | PartitionsForgotten
    | RedriveStarted
    | DeadLettersRemoved
    | Resumed
    | PartitionSnapshot
    | MessagesSnapshot
    | DeadLetterSnapshot
    | Numbered
    | TransactionCoordinatorSeen
)
# What groups are, whatever their partitions; `Forgotten` only in logs of before.
GroupRecord: TypeAlias = (
    GroupCreated | GroupForgotten | MemberJoined | MemberLeft | Forgotten | LedgersSplit
)

_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")
_decoder: msgspec.msgpack.Decoder[QueueRecord] = msgspec.msgpack.Decoder(QueueRecord)
_any_decoder: msgspec.msgpack.Decoder[QueueRecord | GroupRecord] = msgspec.msgpack.Decoder(
    QueueRecord | GroupRecord
)


def encode(record: QueueRecord | GroupRecord) -> bytes:
    return bytes((FORMAT_VERSION,)) + _encoder.encode(record)


def decode(data: bytes) -> QueueRecord:
    try:
        return _decoder.decode(_body(data))
    except msgspec.DecodeError as error:
        raise CorruptData(f"queue record: {error}") from error


def decode_any(data: bytes) -> QueueRecord | GroupRecord:
    """A record of the log that groups share, which was the log of all partitions before."""
    body = _body(data)
    try:
        return _any_decoder.decode(body)
    except msgspec.DecodeError as error:
        former = _decode_former_settings(body)
        if former is None:
            raise CorruptData(f"queue record: {error}") from error
        return former


def _body(data: bytes) -> memoryview:
    if not data or data[0] != FORMAT_VERSION:
        raise CorruptData(f"queue record of format {data[:1].hex() or 'none'}, 01 expected")
    return memoryview(data)[1:]


def _decode_former_settings(body: memoryview) -> GroupCreated | None:
    """Of a group with the former name of `delivery_durability`; None for anything else."""
    try:
        fields = msgspec.msgpack.decode(body, type=dict[str, Any])
        durability = FORMER_DURABILITY[fields["settings"].pop("hand_outs")]  # rule-ok: stored
        fields["settings"]["delivery_durability"] = durability
        return msgspec.convert(fields, GroupCreated)
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return None
