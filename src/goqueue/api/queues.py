"""Queues as JSON: receive, acknowledge, settings and statistics."""

from typing import Annotated, Final, Literal

import msgspec

from goqueue.api.errors import MissingPartition, Problem
from goqueue.api.groups import NAME_LENGTH_MAX, MembershipBody, Name, OffsetNumber, PartitionNumber
from goqueue.api.messages import Encoding, HeaderBody, ReadEncoding
from goqueue.api.parsing import (
    INT64_MAX,
    WAIT_PATTERN,
    DurationMs,
    PositiveDurationMs,
    TakesDurations,
)
from goqueue.model.limits import RECEIVE_BYTES_MAX, RECEIVE_MESSAGES_MAX, VISIBILITY_MS_MAX

HANDLES_MAX: Final = 10_000  # of one request
HANDLE_LENGTH_MAX: Final = 1_000
REASON_LENGTH_MAX: Final = 1_000
MESSAGES_DEFAULT: Final = 10
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
DurationText = Annotated[str, msgspec.Meta(pattern=WAIT_PATTERN)]
Duration = Milliseconds | DurationText
Handle = Annotated[str, msgspec.Meta(min_length=1, max_length=HANDLE_LENGTH_MAX)]
Handles = Annotated[list[Handle], msgspec.Meta(min_length=1, max_length=HANDLES_MAX)]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_LENGTH_MAX)]
Time = str | int | None
Unset = msgspec.UnsetType
UNSET = msgspec.UNSET
Number = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
Above0 = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)]


class ReceiveMessages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    group: Name
    """Whose queue it is; each group gets every message.  It begins when it first receives."""
    consumer: Name = "anonymous"
    """Who works: shown beside what it holds, and bounded in how much that may be."""
    max_messages: Annotated[int, msgspec.Meta(ge=1, le=RECEIVE_MESSAGES_MAX)] = MESSAGES_DEFAULT
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=RECEIVE_BYTES_MAX)] = RECEIVE_BYTES_MAX
    """Of keys and values; one message comes whatever its size."""
    wait: Duration = 0
    """When there is nothing: wait so long, as `30s` or in milliseconds.  Longer waits end at the
    server's `http.long_poll_ms_max`."""
    visibility: Duration | None = None
    """How long the messages are yours, as `30s` or in milliseconds; absent: the group's setting."""
    encoding: ReadEncoding = "auto"
    """`auto`: text, and base64 for messages that are not UTF-8."""


class QueueMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    topic: str
    partition: int
    offset: int
    timestamp: Time
    key: str | None
    value: str | None
    headers: list[HeaderBody]
    priority: str
    attempt: int
    """Number of this delivery, counted from 1."""
    receipt_handle: str
    """What acks it."""
    visible_until: Time
    """It is yours until then."""
    failures: int = 0
    """Deliveries before this one that consumers nacked; absent when there were none."""
    timeouts: int = 0
    """Deliveries before this one that brought no answer; absent when there were none."""
    encoding: Encoding | msgspec.UnsetType = msgspec.UNSET
    """`base64` when key, value and header values are base64; otherwise absent."""


class ReceivedBody(msgspec.Struct, frozen=True):
    messages: list[QueueMessage]
    """None when none came in time."""


class QueuePollBody(MembershipBody, frozen=True, kw_only=True):
    messages: list[QueueMessage]
    """Each is this member's until `visible_until`: ack it by its receipt."""


class PeekedMessage(msgspec.Struct, frozen=True, gc=False):
    topic: str
    partition: int
    offset: int
    timestamp: Time
    key: str | None
    value: str | None
    headers: list[HeaderBody]
    priority: str
    attempts: int
    """Number of deliveries so far."""
    encoding: Encoding | msgspec.UnsetType = msgspec.UNSET
    """`base64` when key, value and header values are base64; otherwise absent."""


class PeekedBody(msgspec.Struct, frozen=True, omit_defaults=True):
    messages: list[PeekedMessage]
    missing: list[MissingPartition] = []
    """Partitions that are not in the answer; absent when all are."""


class Settle(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    receipt_handle: Handle | None = None
    """Of one message; the answer is about that."""
    receipt_handles: Handles | None = None
    """Of many; the answer has a result for each."""
    receipt: Handle | None = None
    """The same as `receipt_handle`."""
    receipts: Handles | None = None
    """The same as `receipt_handles`."""
    quiet: bool = False
    """With many: give a result only for what was refused."""


class Ack(Settle, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The message is done with."""


class Nack(Settle, frozen=True, forbid_unknown_fields=True, kw_only=True):
    delay: Duration | None = None
    """Delay before the redelivery, as `5s` or in milliseconds; absent: the group's backoff."""
    reason: Reason = ""
    """Kept for the dead letter that it may become."""


class Reject(Settle, frozen=True, forbid_unknown_fields=True, kw_only=True):
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_LENGTH_MAX)]
    """Why it can never be processed."""


class Extend(Settle, frozen=True, forbid_unknown_fields=True, kw_only=True):
    timeout: Duration | None = None
    """How long from now, as `30s` or in milliseconds."""
    extension_seconds: (
        Annotated[float, msgspec.Meta(gt=0, le=VISIBILITY_MS_MAX / 1000)] | DurationText | None
    ) = None
    """The same, as `30s` or as a number of seconds."""


class Release(Settle, frozen=True, forbid_unknown_fields=True, kw_only=True):
    delay: Duration = 0
    """Delay before the redelivery, as `5s` or in milliseconds."""


class AckRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    group: Name
    partition: PartitionNumber
    first: OffsetNumber
    last: OffsetNumber
    """Included."""
    consumer: Name | None = None
    """Only what this one holds."""


class SettledBody(msgspec.Struct, frozen=True, gc=False):
    action: Literal["acked", "requeued", "dead", "rejected", "extended", "released"]
    topic: str
    partition: int
    offset: int
    attempt: int
    committed_offset: int
    """The group is done with everything before it in this partition."""
    in_flight_count: int
    """Messages of the group in this partition that are held now."""
    next_visible_at: Time | msgspec.UnsetType = msgspec.UNSET
    """When a requeued or released message is redelivered; null: immediately."""
    new_deadline: Time | msgspec.UnsetType = msgspec.UNSET
    """Of an extended one."""
    dlq_topic: str | msgspec.UnsetType = msgspec.UNSET
    """Of a dead or rejected one: where it went."""


class RefusedBody(msgspec.Struct, frozen=True, gc=False):
    index: int
    """Its place in the request."""
    error: Problem


class SettledManyBody(msgspec.Struct, frozen=True, omit_defaults=True):
    settled: int
    refused: int
    results: list[SettledBody | RefusedBody]
    """One for each receipt, in the order of the request; with `quiet` only what was refused."""
    missing: list[MissingPartition] = []
    """Without receipts: partitions whose leader is not reached; absent when all are."""


class RangeBody(msgspec.Struct, frozen=True):
    acked: int
    offsets: list[int]


class HeldMessage(msgspec.Struct, frozen=True, gc=False):
    topic: str
    partition: int
    offset: int
    attempt: int
    failures: int
    """Deliveries before this one that consumers nacked."""
    timeouts: int
    """Deliveries before this one that brought no answer."""
    consumer: str
    """Who holds it."""
    delivered_at: Time
    visible_until: Time
    """Null when it waits for the end of a transaction."""
    receipt_handle: str
    transaction: str | None = None
    """The transactional id whose transaction acks it."""

    @property
    def receipt(self) -> str:
        return self.receipt_handle


class InFlightBody(msgspec.Struct, frozen=True, omit_defaults=True):
    group: str
    messages: list[HeldMessage]
    missing: list[MissingPartition] = []
    """Partitions that are not in the answer; absent when all are."""


class WhichHeld(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Receipts, or what the messages have in common; all that the group holds when absent."""

    receipt_handles: Handles | None = None
    topic: Name | None = None
    consumer: Name | None = None
    partition: PartitionNumber | None = None
    first: OffsetNumber = 0
    last: OffsetNumber = INT64_MAX
    """Included."""


class ExtendHeld(WhichHeld, frozen=True, forbid_unknown_fields=True, kw_only=True):
    timeout: Duration
    """How long from now, as `30s` or in milliseconds."""


class TotalsBody(msgspec.Struct, frozen=True):
    """Since the server started."""

    delivered: int
    acked: int
    nacked: int
    rejected: int
    released: int
    timed_out: int
    """Deliveries without an answer: the visibility time-out passed, or the consumer died."""
    expired: int
    """Messages past their time to live, dead-lettered or dropped."""
    extended: int
    retried: int
    """Deliveries that were not a message's first."""
    dropped: int
    """Messages that outlived their time, or had left the log."""
    dead_lettered: dict[str, int]
    """By reason."""


class PartitionFigures(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    committed_offset: int
    """The group is done with everything before it."""
    next_offset: int
    """Where the partition ends."""
    ready: int
    in_flight: int
    waiting: int
    """For their retry, or for their key."""
    dying: int
    """On their way to the dead letters."""
    dying_problem: str | None = None
    """Why these cannot be written there; they are kept, and tried again."""


class GroupFigures(msgspec.Struct, frozen=True):
    group: str
    ready: int
    in_flight: int
    waiting: int
    consumers: dict[str, int]
    """Who holds how many."""
    totals: TotalsBody
    partitions: list[PartitionFigures]


class ReliabilityBody(msgspec.Struct, frozen=True, omit_defaults=True):
    ready: int
    in_flight: int
    waiting: int
    totals: TotalsBody
    groups: list[GroupFigures]
    missing: list[MissingPartition] = []
    """Partitions that are not in the figures; absent when all are."""


class LaneFigures(msgspec.Struct, frozen=True):
    ready: int
    in_flight: int
    waiting: int
    delivered: int
    """Since the server started."""
    enqueue_rate: float
    """Messages a second that came lately."""
    dequeue_rate: float
    """Recent deliveries per second."""
    oldest: Time
    """When the oldest ready one was published, as far as the server has it in memory."""


class PartitionLanes(msgspec.Struct, frozen=True):
    group: str
    topic: str
    partition: int
    lanes: dict[str, LaneFigures]


class PriorityBody(msgspec.Struct, frozen=True, omit_defaults=True):
    lanes: dict[str, LaneFigures]
    """All partitions together."""
    partitions: list[PartitionLanes]
    missing: list[MissingPartition] = []
    """Partitions that are not in the figures; absent when all are."""


class QueueSettingsBody(TakesDurations, frozen=True, forbid_unknown_fields=True, kw_only=True):
    visibility_ms: PositiveDurationMs | Unset = UNSET
    """How long a consumer has for a message, unless it asks otherwise; 30000."""
    max_failures: Above0 | Unset = UNSET
    """Deliveries that consumers nacked, after which a message becomes a dead letter; 5."""
    max_timeouts: Above0 | Unset = UNSET
    """Deliveries that brought no answer (the visibility time-out passed, or the consumer died),
    after which a message becomes a dead letter; 20.  Larger than `max_failures`, for a consumer
    that dies fails also those that it has prefetched and not begun with."""
    max_deliveries: Number | Unset = UNSET
    """Deliveries, however they ended, after which a message that comes back becomes a dead letter;
    0: no limit.  5 for groups that share consumers make."""
    backoff_base_ms: DurationMs | Unset = UNSET
    """How long a message waits after its first failure; 1000."""
    backoff_factor: Annotated[float, msgspec.Meta(ge=1, le=100)] | Unset = UNSET
    """The wait is multiplied by this after each further failure; 2."""
    backoff_max_ms: DurationMs | Unset = UNSET
    """The longest wait; 60000."""
    backoff_jitter: Annotated[float, msgspec.Meta(ge=0, le=1)] | Unset = UNSET
    """Random jitter, as a fraction of the wait; 0.2."""
    max_in_flight_consumer: Above0 | Unset = UNSET
    """Messages that one consumer may hold; 1000."""
    max_in_flight_group: Above0 | Unset = UNSET
    """Messages that all consumers may hold; 100000."""
    ordering: Literal["none", "key"] | Unset = UNSET
    """`key`: one message of a key at a time, in order; `none`."""
    key_window: Above0 | Unset = UNSET
    """Messages of a partition that may be passed over because their key is busy; 10000."""
    priority: Literal["weighted", "strict"] | Unset = UNSET
    """`strict`: always the most urgent first; `weighted`."""
    weights: (
        Annotated[
            list[Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]],
            msgspec.Meta(min_length=5, max_length=5),
        ]
        | Unset
    ) = UNSET
    """Shares of critical, high, normal, low and background; 50, 25, 15, 7, 3."""
    starvation_ms: PositiveDurationMs | Unset = UNSET
    """A lane that waited so long gets one message out of turn; 30000."""
    fairness: Annotated[str, msgspec.Meta(max_length=NAME_LENGTH_MAX)] | Unset = UNSET
    """The header whose values share a lane equally; empty for none."""
    fairness_window: Above0 | Unset = UNSET
    """How many messages of a partition's lane are looked at for that; 1000."""
    ttl_ms: DurationMs | Unset = UNSET
    """Life of messages that do not say their own; 0: as the topic's `goqueue.ttl.ms` says."""
    expired: Literal["topic", "dead_letter", "drop"] | Unset = UNSET
    """What becomes of messages that outlived it; `topic`: as the topic's `goqueue.expired` says."""
    start: Literal["earliest", "latest"] | Unset = UNSET
    """Where the group begins in a partition that is new to it; `earliest`."""
    delivery_durability: Literal["sync", "async"] | Unset = UNSET
    """`async`: messages are returned before their delivery is synced to disk.  That is faster; a
    power cut undoes the last deliveries; `sync`."""
    isolation: Literal["read_committed", "read_uncommitted"] | Unset = UNSET
    """`read_uncommitted`: messages of open and aborted transactions are delivered, too;
    `read_committed`."""
    session_timeout_ms: DurationMs | Unset = UNSET
    """Silence after which a member is taken for dead, unless it names another when it joins;
    0: the server's `groups.session_timeout_ms`."""
    heartbeat_interval_ms: DurationMs | Unset = UNSET
    """How often share consumers send heartbeats; 0: the server's `groups.heartbeat_interval_ms`."""


class GroupSettingsBody(msgspec.Struct, frozen=True):
    group: str
    settings: QueueSettingsBody
    """All of them."""
