"""Dead letters and their redrives as JSON."""

from typing import Annotated, Final, Literal

import msgspec

from goqueue.api.errors import MissingPartition
from goqueue.api.groups import Name, OffsetNumber, PartitionNumber
from goqueue.api.messages import INT32_MAX, Encoding, HeaderBody
from goqueue.api.parsing import INT64_MAX, TIME_PATTERN
from goqueue.api.queues import Time

OFFSETS_MAX: Final = 10_000
RATE_MAX: Final = 1_000_000
ANY_LENGTH_MAX: Final = 10_000
TimeInput = (
    Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
    | Annotated[str, msgspec.Meta(pattern=TIME_PATTERN)]
)


class DeadLetterBody(msgspec.Struct, frozen=True):
    partition: int
    offset: int
    """Of the dead letter; `GET /topics/{topic}/dlq/{partition}/{offset}` gives it again."""
    timestamp: Time
    """When the message was published."""
    key: str | None
    value: str | None
    headers: list[HeaderBody]
    """Its own: without those that tell the story."""
    priority: str
    source_offset: int | None
    """Where it was in its topic."""
    reason: str
    """`max_failures`, `max_timeouts`, `max_deliveries`, `rejected`, `expired` (its time to live) or
    `unreadable`; empty when another producer wrote it."""
    error: str
    """What the consumer said."""
    attempts: int
    failures: int
    """Deliveries that consumers nacked."""
    timeouts: int
    """Deliveries that brought no answer."""
    group: str
    consumer: str
    """Who had it last."""
    first_delivery: Time
    last_delivery: Time
    died_at: Time
    encoding: Encoding | msgspec.UnsetType = msgspec.UNSET
    """`base64` when key, value and header values are base64; otherwise absent."""


class DeadLettersBody(msgspec.Struct, frozen=True, omit_defaults=True):
    topic: str
    dlq_topic: str
    count: int
    """Dead letters in all, whatever was asked for."""
    messages: list[DeadLetterBody]
    next_after: str | None = None
    """There may be more: give this as `after` to go on."""
    reasons: dict[str, int] | None = None
    """With `reasons`: how many of each, among the first 10000 that were asked for."""
    missing: list[MissingPartition] = []
    """Partitions of the dead letters that are not in the answer; absent when all are."""


class TakenPartition(msgspec.Struct, frozen=True):
    partition: int
    floor: int
    """All dead letters below were taken out."""
    ranges: list[tuple[int, int]]
    """And these above it: first and last offset."""


class TakenBody(msgspec.Struct, frozen=True, omit_defaults=True):
    topic: str
    dlq_topic: str
    partitions: list[TakenPartition]
    missing: list[MissingPartition] = []
    """Partitions that are not in the answer; absent when all are."""


class DeadLetterSelection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters; all of them when nothing is said."""

    partition: PartitionNumber | None = None
    offsets: Annotated[list[OffsetNumber], msgspec.Meta(max_length=OFFSETS_MAX)] | None = None
    """Of the dead letters; with `partition`."""
    key: Annotated[str, msgspec.Meta(max_length=ANY_LENGTH_MAX)] | None = None
    reason: Name | None = None
    group: Name | None = None
    from_time: TimeInput | None = None
    """Died at this time or later: RFC 3339, or milliseconds since 1970."""
    to_time: TimeInput | None = None
    """Died before this time."""
    header: HeaderBody | None = None
    """Has this header with this value."""


class Redrive(DeadLetterSelection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    to: Name | None = None
    """Another topic than the one they came from."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)] | None = None
    """At most so many."""
    rate: Annotated[float, msgspec.Meta(gt=0, le=RATE_MAX)] | None = None
    """At most so many a second."""
    dry_run: bool = False
    """Only count them."""
    background: bool = False
    """Answer at once with an id, and go on; `GET /topics/{topic}/dlq/redrives/{id}` tells how far
    it is."""


class RedrivenBody(msgspec.Struct, frozen=True):
    topic: str
    to: str
    moved: int
    """With `dry_run`: those that would be, 10000 at most."""
    dry_run: bool


class RedriveBody(msgspec.Struct, frozen=True):
    id: str
    topic: str
    to: str
    state: Literal["running", "done", "failed", "cancelled"]
    moved: int
    """So far."""
    error: str
    """Why it failed."""
    started_at: Time


class RedrivesBody(msgspec.Struct, frozen=True):
    topic: str
    redrives: list[RedriveBody]
    """Those since the server started, the oldest first."""


class PurgedBody(msgspec.Struct, frozen=True):
    topic: str
    purged: int
