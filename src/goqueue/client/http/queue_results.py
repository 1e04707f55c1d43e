"""What the server says about queues and dead letters, as types."""

from collections.abc import Iterable
from typing import Any

import msgspec

from goqueue.api.dlq import DeadLetterBody, DeadLettersBody
from goqueue.api.errors import Problem
from goqueue.api.queues import (
    HeldMessage,
    PeekedBody,
    PeekedMessage,
    QueueMessage,
)
from goqueue.client.http.messages import Received, from_wire, milliseconds
from goqueue.model.times import TimeText

# --- receiving ------------------------------------------------------------------------------------


class Delivery(Received, frozen=True, kw_only=True):
    """A message in a consumer's hands."""

    receipt: str
    """What acks it."""
    attempt: int = 1
    """How often it was delivered, this time included."""
    failures: int = 0
    """Deliveries before this one that consumers nacked."""
    timeouts: int = 0
    """Deliveries before this one that brought no answer."""
    priority: str = "normal"
    visible_until: int = -1
    """Epoch milliseconds: when its visibility time-out ends."""

    @property
    def receipt_handle(self) -> str:
        """The receipt under its name in HTTP."""
        return self.receipt


class Waiting(Received, frozen=True, kw_only=True):
    """A message that would be delivered next."""

    attempts: int = 0
    """Number of deliveries so far."""
    priority: str = "normal"


def deliveries(messages: Iterable[QueueMessage]) -> list[Delivery]:
    return [_delivery(each) for each in messages]


def _delivery(wire: QueueMessage) -> Delivery:
    return Delivery(
        **_message(wire),
        receipt=wire.receipt_handle,
        attempt=wire.attempt,
        failures=wire.failures,
        timeouts=wire.timeouts,
        priority=wire.priority,
        visible_until=milliseconds(wire.visible_until),
    )


def waiting(wire: PeekedBody) -> list[Waiting]:
    return [
        Waiting(**_message(each), attempts=each.attempts, priority=each.priority)
        for each in wire.messages
    ]


def _message(wire: QueueMessage | PeekedMessage) -> dict[str, Any]:
    plain = from_wire(wire, wire.topic)
    return {name: getattr(plain, name) for name in Received.__struct_fields__}


# --- settling -------------------------------------------------------------------------------------


class Settled(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one delivery, or why nothing did: `SettledBody` or `RefusedBody` of the API,
    which have no tag to be told apart by.
    """

    action: str = ""
    """acked, requeued, dead, rejected, extended or released."""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    attempt: int = 0
    committed_offset: int = -1
    in_flight_count: int = 0
    next_visible_at: TimeText = None
    new_deadline: TimeText = None
    dlq_topic: str | None = None
    error: Problem | None = None


class SettledMany(msgspec.Struct, frozen=True):
    settled: int
    refused: int
    results: list[Settled]


# --- looking --------------------------------------------------------------------------------------


Receipt = Delivery | HeldMessage | str


def receipts_of(messages: Iterable[Receipt]) -> list[str]:
    return [each if isinstance(each, str) else each.receipt_handle for each in messages]


class QueueSettings(msgspec.Struct, frozen=True):
    """By name, so that settings which a newer server adds are shown."""

    group: str
    settings: dict[str, Any]


# --- dead letters ---------------------------------------------------------------------------------


class DeadLetter(Received, frozen=True, kw_only=True):
    """A message nobody could process, as it was, and its history."""

    reason: str
    error: str
    attempts: int
    failures: int
    timeouts: int
    group: str
    consumer: str
    source_offset: int | None
    first_delivery: TimeText = None
    last_delivery: TimeText = None
    died_at: TimeText = None

    def history(self) -> dict[str, Any]:
        """What is not in the message itself: why it failed, how often, when."""
        return {name: getattr(self, name) for name in HISTORY}


class DeadLetters(msgspec.Struct, frozen=True):
    count: int
    """In all, whatever was asked for."""
    messages: list[DeadLetter]
    next_after: str | None = None
    """There may be more: go on behind this."""
    reasons: dict[str, int] = {}


def dead_letter(wire: DeadLetterBody, topic: str) -> DeadLetter:
    plain = from_wire(wire, topic)
    history = {name: getattr(wire, name) for name in HISTORY}
    return DeadLetter(
        **{name: getattr(plain, name) for name in Received.__struct_fields__}, **history
    )


def dead_letters(wire: DeadLettersBody, topic: str) -> DeadLetters:
    messages = [dead_letter(each, topic) for each in wire.messages]
    return DeadLetters(wire.count, messages, wire.next_after, wire.reasons or {})


HISTORY = [name for name in DeadLetter.__struct_fields__ if name not in Received.__struct_fields__]
