"""Messages on their way into a topic, and what became of them."""

from typing import Literal

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.model.record import Headers

Acks = Literal["all", "leader"]


class OutgoingMessage(msgspec.Struct, frozen=True, gc=False):
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None  # wall-clock ms; the broker's time when None


class Published(msgspec.Struct, frozen=True, gc=False):
    partition: int
    offset: int
    timestamp: int
    is_repeat: bool = False  # it was published before, under the same idempotency key
    invalid: "PutAside | None" = None  # it is a dead letter instead: partition and offset are there
    deliver_at: int | None = None  # as it was asked for
    is_delayed: bool = False  # `offset` is in the delay log; otherwise `deliver_at` was over


class PutAside(msgspec.Struct, frozen=True):
    """A message that is not what its schema says, in the dead-letter topic."""

    topic: str
    problem: str
    path: str = ""  # inside the document
    schema_id: int | None = None


Outcome = Published | GoQueueError
