"""What the server says about queues and dead letters, as types."""

from collections.abc import Iterable
from typing import Any

import msgspec

from goqueue.client.http.messages import Received, WireMessage, WireTime, from_wire, milliseconds
from goqueue.client.http.results import Problem

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
    """A message that would be handed out next."""

    attempts: int = 0
    """How often it was handed out so far."""
    priority: str = "normal"


class WireDelivery(WireMessage, frozen=True, kw_only=True):
    topic: str
    priority: str = "normal"
    receipt_handle: str = ""
    attempt: int = 1
    attempts: int = 0
    failures: int = 0
    timeouts: int = 0
    visible_until: WireTime = None


class WireDeliveries(msgspec.Struct, frozen=True):
    messages: list[WireDelivery]


def deliveries(wire: WireDeliveries) -> list[Delivery]:
    return [delivery(each) for each in wire.messages]


def delivery(wire: WireDelivery) -> Delivery:
    return Delivery(
        **_message(wire),
        receipt=wire.receipt_handle,
        attempt=wire.attempt,
        failures=wire.failures,
        timeouts=wire.timeouts,
        priority=wire.priority,
        visible_until=milliseconds(wire.visible_until),
    )


def waiting(wire: WireDeliveries) -> list[Waiting]:
    return [
        Waiting(**_message(each), attempts=each.attempts, priority=each.priority)
        for each in wire.messages
    ]


def _message(wire: WireDelivery) -> dict[str, Any]:
    plain = from_wire(wire, wire.topic, 0)
    return {name: getattr(plain, name) for name in Received.__struct_fields__}


# --- settling -------------------------------------------------------------------------------------


class Settled(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one delivery, or why nothing did."""

    action: str = ""
    """acked, requeued, dead, rejected, extended or released."""
    topic: str = ""
    partition: int = -1
    offset: int = -1
    attempt: int = 0
    committed_offset: int = -1
    in_flight_count: int = 0
    next_visible_at: WireTime = None
    new_deadline: WireTime = None
    dlq_topic: str | None = None
    error: Problem | None = None


class SettledMany(msgspec.Struct, frozen=True):
    settled: int
    refused: int
    results: list[Settled]


class RangeAcked(msgspec.Struct, frozen=True):
    acked: int
    offsets: list[int] = []


# --- looking --------------------------------------------------------------------------------------


class Held(msgspec.Struct, frozen=True):
    """Who holds a message until when."""

    topic: str
    partition: int
    offset: int
    attempt: int
    consumer: str
    handed_at: WireTime
    visible_until: WireTime
    receipt_handle: str
    failures: int = 0
    """Deliveries before this one that consumers nacked."""
    timeouts: int = 0
    """Deliveries before this one that brought no answer."""

    @property
    def receipt(self) -> str:
        return self.receipt_handle


Receipt = Delivery | Held | str


def receipts_of(messages: Iterable[Receipt]) -> list[str]:
    return [each if isinstance(each, str) else each.receipt for each in messages]


class InFlight(msgspec.Struct, frozen=True):
    group: str
    messages: list[Held]


class QueueSettings(msgspec.Struct, frozen=True):
    group: str
    settings: dict[str, Any]


class QueueGroupStats(msgspec.Struct, frozen=True):
    group: str
    ready: int
    in_flight: int
    waiting: int
    totals: dict[str, Any]
    consumers: dict[str, int] = {}
    partitions: list[dict[str, Any]] = []


class QueueStats(msgspec.Struct, frozen=True):
    ready: int
    in_flight: int
    waiting: int
    totals: dict[str, Any]
    groups: list[QueueGroupStats] = []


class LaneStats(msgspec.Struct, frozen=True):
    ready: int
    in_flight: int
    waiting: int
    delivered: int
    oldest: WireTime = None


class PriorityStats(msgspec.Struct, frozen=True):
    lanes: dict[str, LaneStats]


# --- dead letters ---------------------------------------------------------------------------------


class DeadLetter(Received, frozen=True, kw_only=True):
    """A message nobody could process, as it was, and its story."""

    reason: str
    error: str
    attempts: int
    failures: int
    timeouts: int
    group: str
    consumer: str
    source_offset: int | None
    first_delivery: WireTime = None
    last_delivery: WireTime = None
    died_at: WireTime = None


class WireLetter(WireMessage, frozen=True, kw_only=True):
    reason: str = ""
    error: str = ""
    attempts: int = 0
    failures: int = 0
    timeouts: int = 0
    group: str = ""
    consumer: str = ""
    source_offset: int | None = None
    first_delivery: WireTime = None
    last_delivery: WireTime = None
    died_at: WireTime = None


class WireLetters(msgspec.Struct, frozen=True):
    count: int
    dlq_topic: str = ""
    messages: list[WireLetter] = []
    next_after: str | None = None
    reasons: dict[str, int] = {}


class DeadLetters(msgspec.Struct, frozen=True):
    count: int
    """In all, whatever was asked for."""
    letters: list[DeadLetter]
    next_after: str | None = None
    """There may be more: go on behind this."""
    reasons: dict[str, int] = {}


class TakenPartition(msgspec.Struct, frozen=True):
    partition: int
    floor: int
    ranges: list[tuple[int, int]]


class TakenLetters(msgspec.Struct, frozen=True):
    """Dead letters that are not there any more, though they still lie in their topic."""

    dlq_topic: str
    partitions: list[TakenPartition]


class Redriven(msgspec.Struct, frozen=True):
    moved: int
    to: str = ""
    dry_run: bool = False


class Redrive(msgspec.Struct, frozen=True):
    """One that goes on by itself, and how far it is."""

    id: str
    topic: str
    to: str
    state: str
    """running, done, failed or cancelled."""
    moved: int
    error: str = ""
    started_at: WireTime = None


class Redrives(msgspec.Struct, frozen=True):
    redrives: list[Redrive]


class Purged(msgspec.Struct, frozen=True):
    purged: int


def dead_letter(wire: WireLetter, topic: str) -> DeadLetter:
    plain = from_wire(wire, topic, 0)
    story = {name: getattr(wire, name) for name in STORY}
    return DeadLetter(
        **{name: getattr(plain, name) for name in Received.__struct_fields__}, **story
    )


def dead_letters(wire: WireLetters, topic: str) -> DeadLetters:
    letters = [dead_letter(each, topic) for each in wire.messages]
    return DeadLetters(wire.count, letters, wire.next_after, wire.reasons)


STORY = [name for name in DeadLetter.__struct_fields__ if name not in Received.__struct_fields__]
