"""Queues at work: the queue machine on `__ledgers`, and the verbs that all listeners share.

    receive ── choose (read the log) ── decide ── durable ──> messages with receipts
    ack, nack, reject, extend, release ── decide ── durable ──> an outcome for each receipt

Everything that is answered is on disk.  Nothing here needs a member of a consumer group: a consumer
is a name.  What a caller that goes away was being handed is released at once.
"""

from collections.abc import Sequence
from typing import Final

from goqueue.broker.dead_letters import DeadLetters
from goqueue.broker.ground import Ground
from goqueue.broker.host import MachineHost
from goqueue.queue import (
    Delivered,
    GroupStats,
    InFlight,
    Peeked,
    QueueMachine,
    QueueSettings,
    Settled,
    SettleOutcome,
)

MESSAGES_MAX: Final = 10_000  # in one receive
BYTES_MAX: Final = 16 * 1024 * 1024
VISIBILITY_MS_MAX: Final = 7 * 24 * 3_600_000
GROUP_NAME_LENGTH_MAX: Final = 249


class Queues:
    """The verbs of queues.  Refusals are raised as `QueueError`, or are an item's outcome."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._clock = ground.doors.clock
        self._host: MachineHost[QueueMachine] | None = None
        self.dead_letters = DeadLetters(ground, self)
        self._stopping = False

    # --- life -------------------------------------------------------------------------------------

    def attach(self, host: MachineHost[QueueMachine]) -> None:
        self._host = host

    @property
    def host(self) -> MachineHost[QueueMachine]:
        assert self._host is not None, "the broker is not open"
        return self._host

    @property
    def machine(self) -> QueueMachine:
        return self.host.machine

    # --- groups -----------------------------------------------------------------------------------

    async def configure(self, group: str, settings: QueueSettings) -> QueueSettings:
        """Set how the group works its topics off, from now on; makes the group if need be."""
        raise NotImplementedError

    def settings(self, group: str) -> QueueSettings:
        """Of a group that may not be there yet: then those that it would begin with."""
        raise NotImplementedError

    async def forget(self, group: str) -> None:
        """Delete the group's ledgers and settings; what was in flight is void."""
        raise NotImplementedError

    async def move_floor(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Finish everything below `offset`; back: everything from there on comes again."""
        raise NotImplementedError

    # --- receiving --------------------------------------------------------------------------------

    async def receive(
        self,
        topics: Sequence[str],
        group: str,
        consumer: str,
        *,
        max_messages: int = 10,
        max_bytes: int = BYTES_MAX,
        wait_ms: int = 0,
        visibility_ms: int | None = None,
    ) -> list[Delivered]:
        """Up to so many messages, waiting up to `wait_ms` for the first; empty when none came.

        The group begins when it first receives.  `max_bytes` counts keys and values, and lets at
        least one message through.  Raises `TooManyInFlight` when the consumer or the group holds
        too many all the while.  Cancel it to give up: nothing stays with the consumer then.
        """
        raise NotImplementedError

    async def peek(self, group: str, topic: str, count: int) -> list[Peeked]:
        """What would be handed out next; nothing changes."""
        raise NotImplementedError

    # --- settling: an outcome for each receipt, in order ------------------------------------------

    async def ack(self, receipts: Sequence[str]) -> list[SettleOutcome]:
        """The messages are done with.  A repeated ack succeeds again.

        Outcomes are `Settled`, or `ReceiptMalformed` (400), `ReceiptUnknown` (404) or
        `ReceiptExpired` (409).
        """
        raise NotImplementedError

    async def nack(
        self, receipts: Sequence[str], *, delay_ms: int | None = None, reason: str = ""
    ) -> list[SettleOutcome]:
        """The deliveries failed: come again after `delay_ms`, or the group's backoff, or die."""
        raise NotImplementedError

    async def reject(self, receipts: Sequence[str], *, reason: str) -> list[SettleOutcome]:
        """The messages become dead letters at once."""
        raise NotImplementedError

    async def extend(self, receipts: Sequence[str], *, visibility_ms: int) -> list[SettleOutcome]:
        """The consumer has `visibility_ms` from now on."""
        raise NotImplementedError

    async def release(self, receipts: Sequence[str], *, delay_ms: int = 0) -> list[SettleOutcome]:
        """Give the messages back untouched: no failure is counted."""
        raise NotImplementedError

    # --- settling by offset: for share groups and operators ---------------------------------------

    async def ack_range(
        self,
        group: str,
        topic: str,
        partition: int,
        first: int,
        last: int,
        *,
        consumer: str | None = None,
    ) -> list[Settled]:
        """Ack what is in flight from `first` to `last`; only what `consumer` holds, if given.

        Gives what was acked.  `nack_range`, `reject_range`, `release_range` and `extend_range` are
        alike.
        """
        raise NotImplementedError

    async def consumer_gone(self, group: str, consumer: str, *, failed: bool) -> int:
        """Take back what the consumer holds; `failed` unless it left politely.  Gives how many."""
        raise NotImplementedError

    # --- asking -----------------------------------------------------------------------------------

    def in_flight(
        self,
        group: str,
        *,
        topic: str | None = None,
        consumer: str | None = None,
        limit: int = 1000,
    ) -> list[InFlight]:
        """Who holds what, until when."""
        raise NotImplementedError

    def stats(self, group: str | None = None) -> list[GroupStats]:
        raise NotImplementedError
