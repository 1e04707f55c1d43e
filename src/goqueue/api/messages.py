"""Messages as JSON: published and read."""

from typing import Annotated, Final, Literal

import msgspec

from goqueue.api.errors import Problem
from goqueue.api.parsing import INT64_MAX

MESSAGES_MAX: Final = 10_000  # of one request
INT32_MAX: Final = 2**31 - 1
Encoding = Literal["text", "base64"]
ReadEncoding = Literal["auto", "base64"]


class HeaderBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    value: str | None = None


class MessageInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: msgspec.Raw
    """A string, null, or any JSON value, which is kept as compact JSON text."""
    key: str | None = None
    headers: dict[str, str | None] | list[HeaderBody] = {}
    partition: Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)] | None = None
    """Absent: by the key's hash, as Kafka's own producers do; without a key, in turn."""
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | str | None = None
    """RFC 3339 or milliseconds since 1970; absent: now."""
    priority: Annotated[int, msgspec.Meta(ge=0, le=4)] | str | None = None
    """critical, high, normal, low, background, or 0 to 4; kept as header `gq-priority`."""
    ttl: Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)] | str | None = None
    """How long queues deliver it, as `30s` or in milliseconds; kept as header `gq-ttl-ms`."""
    encoding: Encoding | None = None
    """Of key, value and header values; absent: the request's."""
    delay: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | str | None = None
    """Deliver it so much later: `30m`, `1.5s`, or milliseconds; kept until then, durably."""
    deliver_at: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | str | None = None
    """Deliver it then: RFC 3339, or milliseconds since 1970; a time that is over means at once."""


class PublishRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    messages: Annotated[list[MessageInput], msgspec.Meta(min_length=1, max_length=MESSAGES_MAX)]
    encoding: Encoding = "text"


class PlainMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What most messages are.  Its value needs no second look: it is a text or null."""

    value: str | None
    key: str | None = None


class PlainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    messages: Annotated[list[PlainMessage], msgspec.Meta(min_length=1, max_length=MESSAGES_MAX)]


class InvalidMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that is not what its schema says, and where it is instead."""

    topic: str
    partition: int
    offset: int
    reason: str
    path: str = ""
    """Inside the document."""
    schema_id: int | None = None


class PublishResult(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Where a message went, or why it was refused."""

    partition: int | None = None
    offset: int | None = None
    timestamp: str | int | None = None
    error: Problem | None = None
    dead_letter: InvalidMessage | None = None
    """It is not in the topic: with `goqueue.schema.invalid=dead_letter` it went there."""
    delayed: bool | None = None
    """True: `partition` and `offset` are its id among the delayed messages, until it is delivered
    at another offset. False: the time that was asked for is over, and it was delivered at once."""
    deliver_at: str | int | None = None
    """When it is to be delivered, of messages that asked for a time."""


class PublishResponse(msgspec.Struct, frozen=True):
    results: list[PublishResult]
    """One a message, in the order of the request."""


class MessageBody(msgspec.Struct, frozen=True, gc=False):
    partition: int
    offset: int
    timestamp: str | int | None
    """RFC 3339; a number of milliseconds beyond the year 9999; null when the producer gave none."""
    key: str | None
    value: str | None
    headers: list[HeaderBody]
    priority: str
    encoding: Encoding | msgspec.UnsetType = msgspec.UNSET
    """`base64` when key, value and header values are base64; otherwise absent."""


class MessagePage(msgspec.Struct, frozen=True):
    messages: list[MessageBody]
    next_offset: int
    """Where to go on reading."""
    high_watermark: int
    """The first offset that cannot be read yet."""
    at_end: bool
    """Nothing more was there to read (before `to_time`, when that was given)."""


class TopicMessages(msgspec.Struct, frozen=True):
    messages: list[MessageBody]
    cursor: str
    """Where to go on reading."""
    at_end: bool
    """Nothing more was there to read (before `to_time`, when that was given)."""
    problems: list[str]
    """Damaged or expired messages that had to be stepped over; mostly empty."""


class RecordsDeleted(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    earliest: int
    """The first offset that is left."""


class OffsetBody(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    timestamp: str | int | None
    """Of the message at `offset`, where one was looked for by time."""
    earliest: int
    latest: int
    next_offset: int
