"""What goes in and out of the operations on queues, and what they may refuse with."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter

from goqueue.broker.queues.acknowledgement import VISIBILITY_MS_MAX
from goqueue.broker.queues.service import BYTES_MAX, MESSAGES_MAX
from goqueue.model.errors import InvalidRequest
from goqueue.model.times import time_text
from goqueue.queue import Delivered, Peeked
from goqueue.queue.delivery_batch import DeliveryBatch, singles
from goqueue.queue.lanes import NAMES
from goqueue.queue.receipts import frame
from goqueue.server.http.errors import ErrorBody, Problem, responses, write_responses
from goqueue.server.http.parsing import INT64_MAX, WAIT_PATTERN, parse_wait
from goqueue.server.http.routes.group_bodies import (
    NAME_LENGTH_MAX,
    MembershipBody,
    Name,
    OffsetNumber,
    PartitionNumber,
)
from goqueue.server.http.routes.message_bodies import (
    Encoding,
    HeaderBody,
    ReadEncoding,
    message_body,
    text_header,
)

HANDLES_MAX: Final = 10_000  # of one request
HANDLE_LENGTH_MAX: Final = 1_000
REASON_LENGTH_MAX: Final = 1_000
MESSAGES_DEFAULT: Final = 10
DELAY_MS_MAX: Final = 30 * 24 * 3_600_000

Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
DurationText = Annotated[str, msgspec.Meta(pattern=WAIT_PATTERN)]
Duration = Milliseconds | DurationText
Handle = Annotated[str, msgspec.Meta(min_length=1, max_length=HANDLE_LENGTH_MAX)]
Handles = Annotated[list[Handle], msgspec.Meta(min_length=1, max_length=HANDLES_MAX)]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_LENGTH_MAX)]
Time = str | int | None

GroupQuery = Annotated[
    str,
    QueryParameter(
        min_length=1, max_length=NAME_LENGTH_MAX, description="Whose queue it is: any name."
    ),
]


def milliseconds(given: int | str, name: str, *, low: int = 0, high: int) -> int:
    """A duration as a number or a text; refused outside of its range."""
    found = parse_wait(given) if isinstance(given, str) else given
    if not low <= found <= high:
        raise InvalidRequest(f"{name}: {found} ms; {low} to {high} are possible")
    return found


def visibility_ms(given: int | str, name: str = "visibility") -> int:
    return milliseconds(given, name, low=1, high=VISIBILITY_MS_MAX)


# --- what may be refused ------------------------------------------------------------------------

_MEANINGS: Final = {
    404: "No such topic, group, delivery or dead letter.",
    409: "The delivery is over: its time ran out, or it was settled another way.",
}


def queue_responses(*statuses: int) -> dict[int, ResponseSpec]:
    return {**responses(*_plain(statuses)), **_described(statuses)}


def queue_write_responses(*statuses: int) -> dict[int, ResponseSpec]:
    return {**write_responses(*_plain(statuses)), **_described(statuses)}


def _plain(statuses: tuple[int, ...]) -> list[int]:
    return [status for status in statuses if status not in _MEANINGS]


def _described(statuses: tuple[int, ...]) -> dict[int, ResponseSpec]:
    return {
        status: ResponseSpec(ErrorBody, description=_MEANINGS[status], generate_examples=False)
        for status in statuses
        if status in _MEANINGS
    }


# --- receiving ----------------------------------------------------------------------------------


class ReceiveMessages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    group: Name
    """Whose queue it is; each group gets every message.  It begins when it first receives."""
    consumer: Name = "anonymous"
    """Who works: shown beside what it holds, and bounded in how much that may be."""
    max_messages: Annotated[int, msgspec.Meta(ge=1, le=MESSAGES_MAX)] = MESSAGES_DEFAULT
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=BYTES_MAX)] = BYTES_MAX
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
    """How often it was handed out, with this time."""
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


def queue_messages(
    deliveries: Sequence[DeliveryBatch], encoding: ReadEncoding
) -> list[QueueMessage]:
    messages: list[QueueMessage] = []
    for delivery in deliveries:
        try:
            if encoding == "auto":
                messages += _text_messages(delivery)
                continue
        except UnicodeDecodeError:  # some are not: one by one, then
            pass
        messages += [queue_message(each, encoding) for each in delivery.messages()]
    return messages


def _text_messages(delivery: DeliveryBatch) -> list[QueueMessage]:
    """As `queue_message` gives them, in a third of the time: much is the same in all of them."""
    where = delivery.where
    topic, partition, until = where.topic, where.partition, time_text(delivery.deadline)
    before, after = frame(topic, partition, delivery.lease_id, where.group_id)
    return [
        QueueMessage(
            topic,
            partition,
            offset := record.offset,
            time_text(record.timestamp),
            None if (key := record.key) is None else key.decode(),
            None if (value := record.value) is None else value.decode(),
            [text_header(*header) for header in headers] if (headers := record.headers) else [],
            NAMES[lane],
            attempt,
            f"{before}{offset}:{attempt}{after}",
            until,
            failures,
            timeouts,
        )
        for record, attempt, lane, failures, timeouts in singles(delivery.chosen)
    ]


def queue_message(delivered: Delivered, encoding: ReadEncoding) -> QueueMessage:
    body = message_body(delivered.record, delivered.partition, encoding)
    return QueueMessage(
        delivered.topic,
        delivered.partition,
        body.offset,
        body.timestamp,
        body.key,
        body.value,
        body.headers,
        delivered.priority,
        delivered.attempt,
        delivered.receipt,
        time_text(delivered.deadline),
        delivered.failures,
        delivered.timeouts,
        body.encoding,
    )


# --- peeking ------------------------------------------------------------------------------------


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
    """How often it was handed out so far."""
    encoding: Encoding | msgspec.UnsetType = msgspec.UNSET
    """`base64` when key, value and header values are base64; otherwise absent."""


class PeekedBody(msgspec.Struct, frozen=True):
    messages: list[PeekedMessage]


def peeked_message(peeked: Peeked, encoding: ReadEncoding) -> PeekedMessage:
    body = message_body(peeked.record, peeked.partition, encoding)
    return PeekedMessage(
        peeked.topic,
        peeked.partition,
        body.offset,
        body.timestamp,
        body.key,
        body.value,
        body.headers,
        peeked.priority,
        peeked.attempt,
        body.encoding,
    )


# --- settling: what comes in --------------------------------------------------------------------


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
    """When to come again, as `5s` or in milliseconds; absent: by the group's backoff."""
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
    """When to come again, as `5s` or in milliseconds."""


class AckRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    group: Name
    partition: PartitionNumber
    first: OffsetNumber
    last: OffsetNumber
    """Included."""
    consumer: Name | None = None
    """Only what this one holds."""


# --- settling: what goes out --------------------------------------------------------------------


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
    """Of a requeued or released one: when it comes again; null for at once."""
    new_deadline: Time | msgspec.UnsetType = msgspec.UNSET
    """Of an extended one."""
    dlq_topic: str | msgspec.UnsetType = msgspec.UNSET
    """Of a dead or rejected one: where it went."""


class RefusedBody(msgspec.Struct, frozen=True, gc=False):
    index: int
    """Its place in the request."""
    error: Problem


class SettledManyBody(msgspec.Struct, frozen=True):
    settled: int
    refused: int
    results: list[SettledBody | RefusedBody]
    """One for each receipt, in the order of the request; with `quiet` only what was refused."""


class RangeBody(msgspec.Struct, frozen=True):
    acked: int
    offsets: list[int]
