"""Transactions as JSON: of producers, and of applications with many of them."""

from typing import Annotated, Any, Final, Literal

import msgspec

from goqueue.api.messages import INT32_MAX, MESSAGES_MAX, Encoding, HeaderBody
from goqueue.api.parsing import INT64_MAX, PositiveDurationMs, TakesDurations
from goqueue.api.queues import Handles
from goqueue.model.limits import ATTEMPT_TIMEOUT_MS
from goqueue.model.topic_partition import TopicPartition

TIMEOUT_MS: Final = 60_000
TRANSACTIONAL_ID_LENGTH_MAX: Final = 1_000
MEMBERS_MAX: Final = 100_000
CONTENTS_LENGTH_MAX: Final = 16_384
OFFSETS_MAX: Final = 100_000
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=TRANSACTIONAL_ID_LENGTH_MAX)]
ProducerNumber = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
EpochNumber = Annotated[int, msgspec.Meta(ge=0, le=2**15 - 1)]
RUN_NAME_LENGTH_MAX: Final = 200
Number = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]


class InitProducer(TakesDurations, frozen=True, forbid_unknown_fields=True):
    transactional_id: Name
    """The name under which one producer at a time writes; a newer one fences the older."""
    transaction_timeout_ms: PositiveDurationMs = TIMEOUT_MS
    """A transaction that is open for longer is aborted."""


class ProducerBody(msgspec.Struct, frozen=True):
    producer_id: int
    epoch: int


class Heartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    transactional_id: Name
    epoch: EpochNumber


class Status(msgspec.Struct, frozen=True):
    status: str


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    transactional_id: Name
    producer_id: ProducerNumber
    epoch: EpochNumber


class InTransaction(Identity, frozen=True, forbid_unknown_fields=True, kw_only=True):
    transaction_id: str | None = None
    """As `begin` gave it.  When given, a request that comes late cannot meet a later one."""


class AddPartition(InTransaction, frozen=True, forbid_unknown_fields=True, kw_only=True):
    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]


class OffsetInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
    offset: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
    metadata: str = ""


class AddOffsets(InTransaction, frozen=True, forbid_unknown_fields=True, kw_only=True):
    group: Name
    offsets: Annotated[list[OffsetInput], msgspec.Meta(min_length=1, max_length=OFFSETS_MAX)]
    member_id: str = ""
    generation: int = -1


class AddAcks(InTransaction, frozen=True, forbid_unknown_fields=True, kw_only=True):
    receipt_handles: Handles


class AcksAdded(msgspec.Struct, frozen=True):
    status: str
    acks: int | None
    """How many messages the transaction acks by now; null while a leader of some is not reached."""


class ForceAbort(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    transactional_id: Name


class Begun(msgspec.Struct, frozen=True):
    transaction_id: str


class TransactionBody(msgspec.Struct, frozen=True):
    transaction_id: str | None
    """Null when none is open."""
    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    """`empty`, `ongoing`, or `prepare_…` and `complete_…` with `commit` or `abort`."""
    start_time: str | int | None
    timeout_ms: int
    partitions: list[TopicPartition]
    groups: list[str]
    """Whose offsets are committed with it."""
    acks: int | None
    """How many messages of queues it acks; null while a leader of some is not reached."""


class TransactionList(msgspec.Struct, frozen=True):
    transactions: list[TransactionBody]
    count: int


class TransactionStats(msgspec.Struct, frozen=True):
    active_transactions: int
    transactions_by_state: dict[str, int]
    oldest_age_ms: int
    """Of the transaction that is open for the longest time; 0 when none is."""
    started: int
    """Since the server's start; so are the next two."""
    committed: int
    aborted: int


class PublishBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    producer_id: ProducerNumber
    epoch: EpochNumber
    topic: str
    value: Any
    """A string, null, or any JSON value, which is kept as compact JSON text."""
    transactional_id: str | None = None
    transaction_id: str | None = None
    partition: Annotated[int, msgspec.Meta(ge=-1, le=INT32_MAX)] = -1
    """-1: by the key's hash; without a key, in turn."""
    key: str | None = None
    headers: dict[str, str] = {}
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | None = None
    sequence: Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)] | None = None
    """0 for the first message to a partition, then one more each: repetitions are recognised."""
    encoding: Literal["text", "base64"] = "text"


class TransactionMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: Any
    """A string, null, or any JSON value, which is kept as compact JSON text."""
    key: str | None = None
    headers: dict[str, str | None] | list[HeaderBody] = {}
    partition: Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)] | None = None
    """Absent: by the key's hash; without a key, in turn."""
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | str | None = None
    priority: Annotated[int, msgspec.Meta(ge=0, le=4)] | str | None = None
    ttl: Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)] | str | None = None
    encoding: Encoding | None = None
    delay: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | str | None = None
    """Deliver it so much later, if the transaction is committed."""
    deliver_at: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | str | None = None


class PublishMany(InTransaction, frozen=True, forbid_unknown_fields=True, kw_only=True):
    topic: str
    messages: Annotated[
        list[TransactionMessage], msgspec.Meta(min_length=1, max_length=MESSAGES_MAX)
    ]
    encoding: Encoding = "text"


class PublishedInTransaction(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a message will be when its transaction is committed."""

    partition: int
    offset: int
    duplicate: bool
    dead_letter_topic: str | None = None
    """It will be there instead, in the same partition: it is not what its schema says."""


class PublishedMany(msgspec.Struct, frozen=True):
    results: list[PublishedInTransaction]
    """One a message, in the order of the request."""


class StartRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: Number | None = None
    """Higher than that of any run before; absent: the next one."""
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=RUN_NAME_LENGTH_MAX)] | None = None
    """Instead of a number: the next run, or the newest one if that has this name. So all tasks of
    an engine can start their run, and a run that was fenced stays so."""


class RunStarted(msgspec.Struct, frozen=True):
    run: int
    last_version: int
    """The last version that was decided; -1 for none."""


class StartAttempt(TakesDurations, frozen=True, forbid_unknown_fields=True):
    version: Number
    run: Number
    task: Number
    attempt: Number
    """Another one each time that the task is tried."""
    timeout_ms: PositiveDurationMs = ATTEMPT_TIMEOUT_MS
    """The attempt is aborted when it is undecided for so long after its first write."""


class AttemptStarted(msgspec.Struct, frozen=True):
    already_decided: bool
    """The version was decided before: there is nothing to write, and the rest is null."""
    transactional_id: str | None = None
    producer_id: int | None = None
    epoch: int | None = None


class AbortGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Number
    run: Number


class GroupAborted(msgspec.Struct, frozen=True):
    version: int
    already_decided: bool
    """The version was decided before, and nothing was aborted."""
    aborted: int
    """How many attempts had written something."""


class Decide(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Number
    run: Number
    members: Annotated[list[Identity], msgspec.Meta(max_length=MEMBERS_MAX)] = []
    """The transactions to commit: all of them or none.  Attempts not named are aborted."""
    contents: Annotated[str, msgspec.Meta(max_length=CONTENTS_LENGTH_MAX)] = ""
    """What the version holds, in the application's words: the offsets that it read, say. A version
    that is decided a second time with other contents is refused (409, `version_differs`)."""


class Decided(msgspec.Struct, frozen=True):
    version: int
    already_decided: bool
    """The version was decided before; the members given were a repetition and are aborted."""
    members: list[ProducerBody]
    """Who the members' producers are from now on, in the order given.  Attempts are over."""


class ApplicationBody(msgspec.Struct, frozen=True):
    application: str
    run: int
    """The newest one; -1 for none."""
    last_version: int
    """The last version that was decided; -1 for none."""


class Retired(msgspec.Struct, frozen=True):
    application: str
    was_known: bool
