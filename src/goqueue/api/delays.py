"""Delayed messages as JSON."""

from typing import Annotated, Final, Literal

import msgspec

from goqueue.api.errors import MissingPartition
from goqueue.api.messages import Encoding, HeaderBody
from goqueue.api.parsing import INT64_MAX

LISTED_MAX: Final = 1_000
DelayedState = Literal["pending", "delivered", "cancelled", "expired"]


class DelayedEntry(msgspec.Struct, frozen=True):
    """A message that waits."""

    partition: int
    offset: int
    """In the partition's delay log: together the id of the message, until it is delivered."""
    deliver_at: str | int | None
    remaining_ms: int
    """0 when it is due and on its way."""
    state: DelayedState


class DelayedPage(msgspec.Struct, frozen=True):
    topic: str
    messages: list[DelayedEntry]
    """By due time; with the same one by partition and offset."""
    cursor: str | None
    """Ask again with it for more; null when there is nothing more."""
    missing: list[MissingPartition] = []
    """Partitions whose leader is not reached: their messages are not listed."""


class DelayedBody(msgspec.Struct, frozen=True):
    """A delayed message, with what it carries."""

    topic: str
    partition: int
    offset: int
    deliver_at: str | int | None
    remaining_ms: int
    state: DelayedState
    """All but `pending` are known for a while, then the message is not found."""
    published_at: str | int | None
    key: str | None
    value: str | None
    headers: list[HeaderBody]
    priority: str
    encoding: Encoding | msgspec.UnsetType = msgspec.UNSET
    """`base64` when key, value and header values are base64; otherwise absent."""


class Reschedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When the message is to be delivered instead; one of both."""

    delay: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | str | None = None
    """From now on: `30m`, `1.5s`, or milliseconds."""
    deliver_at: Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)] | str | None = None
    """RFC 3339, or milliseconds since 1970; a time that is over means at once."""


class DelayFigures(msgspec.Struct, frozen=True):
    pending: int
    scheduled: int
    """In all, since the topic was created."""
    delivered: int
    cancelled: int
    expired: int = 0
    """Their time to live had passed when they could be delivered (`goqueue.expired=drop`)."""


class DelayStats(msgspec.Struct, frozen=True):
    total: DelayFigures
    topics: dict[str, DelayFigures]
    missing_nodes: list[int] = []
    """Nodes that did not answer: what they lead is not counted."""
