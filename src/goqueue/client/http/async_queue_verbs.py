"""The verbs of queues, for programs on an event loop."""

from collections.abc import Mapping
from typing import Any, TypeVar

from goqueue.api.dlq import RedriveBody, RedrivenBody
from goqueue.api.queues import HeldMessage, PriorityBody, ReliabilityBody
from goqueue.client.http.calls import queues
from goqueue.client.http.calls.queues import Which
from goqueue.client.http.calls.topics import Call
from goqueue.client.http.queue_results import (
    DeadLetter,
    DeadLetters,
    Delivery,
    Receipt,
    Settled,
    Waiting,
    dead_letter,
    dead_letters,
    deliveries,
    receipts_of,
    waiting,
)
from goqueue.client.http.retries import Retries

T = TypeVar("T")


class AsyncQueueVerbs:
    """Part of `AsyncClient`.  Those that settle raise when all receipts are refused; when only some
    are, their results have an `error`.
    """

    async def send(self, call: Call[T], retries: Retries | None = None) -> T:
        raise NotImplementedError

    # --- for workers ------------------------------------------------------------------------------

    async def receive(
        self,
        topic: str,
        group: str,
        *,
        consumer: str = "",
        max_messages: int | None = None,
        max_bytes: int | None = None,
        wait_ms: int = 0,
        visibility_ms: int | None = None,
    ) -> list[Delivery]:
        """Receive messages.  With `wait_ms`, wait for one when there is none.

        Ack, nack or reject each before `visibility_ms` (the group's, 30 s) is over, or extend it:
        otherwise the message is redelivered and the attempt counts as failed.
        """
        call = queues.receive(
            topic,
            group,
            consumer=consumer,
            max_messages=max_messages,
            max_bytes=max_bytes,
            wait_ms=wait_ms,
            visibility_ms=visibility_ms,
        )
        return deliveries((await self.send(call)).messages)

    async def ack(self, *messages: Receipt) -> list[Settled]:
        """Acknowledge messages.  Accepts deliveries or receipt handles."""
        return (await self.send(queues.ack(receipts_of(messages)))).results

    async def nack(
        self, *messages: Receipt, delay_ms: int | None = None, reason: str = ""
    ) -> list[Settled]:
        """Report messages as failed.  They are redelivered after `delay_ms` or the group's backoff,
        or become dead letters when they have failed too often.
        """
        call = queues.nack(receipts_of(messages), delay_ms=delay_ms, reason=reason)
        return (await self.send(call)).results

    async def reject(self, *messages: Receipt, reason: str) -> list[Settled]:
        """Make messages dead letters immediately."""
        return (await self.send(queues.reject(receipts_of(messages), reason))).results

    async def extend(self, *messages: Receipt, visibility_ms: int) -> list[Settled]:
        """Extend the visibility time-out of messages to `visibility_ms` from now."""
        return (await self.send(queues.extend(receipts_of(messages), visibility_ms))).results

    async def release(self, *messages: Receipt, delay_ms: int = 0) -> list[Settled]:
        """Return messages to the queue without counting a failed attempt."""
        call = queues.release(receipts_of(messages), delay_ms=delay_ms)
        return (await self.send(call)).results

    async def ack_range(
        self,
        topic: str,
        group: str,
        partition: int,
        first: int,
        last: int,
        *,
        consumer: str | None = None,
    ) -> list[int]:
        """Ack what is in flight from `first` to `last`; gives the offsets."""
        call = queues.ack_range(topic, group, partition, first, last, consumer)
        return (await self.send(call)).offsets

    async def peek(self, topic: str, group: str, count: int = 10) -> list[Waiting]:
        """Messages that would be delivered next; nothing changes."""
        return waiting(await self.send(queues.peek(topic, group, count)))

    # --- for operators ----------------------------------------------------------------------------

    async def queue_settings(self, group: str) -> dict[str, Any]:
        return (await self.send(queues.settings(group))).settings

    async def change_queue_settings(
        self, group: str, changes: Mapping[str, Any], *, reset_others: bool = False
    ) -> dict[str, Any]:
        """Gives all of them.  With `reset_others` those that are not named get their default."""
        call = queues.change_settings(group, changes, reset_others=reset_others)
        return (await self.send(call)).settings

    async def in_flight(
        self,
        group: str,
        *,
        topic: str | None = None,
        consumer: str | None = None,
        limit: int | None = None,
    ) -> list[HeldMessage]:
        """Messages in flight: which consumer holds each, and until when."""
        call = queues.in_flight(group, topic=topic, consumer=consumer, limit=limit)
        return (await self.send(call)).messages

    async def queue_stats(self, group: str | None = None) -> ReliabilityBody:
        return await self.send(queues.stats(group))

    async def priority_stats(
        self, group: str | None = None, topic: str | None = None
    ) -> PriorityBody:
        return await self.send(queues.priorities(group, topic))

    # --- dead letters -----------------------------------------------------------------------------

    async def dead_letters(
        self,
        topic: str,
        which: Which | None = None,
        *,
        limit: int | None = None,
        after: str | None = None,
        reasons: bool = False,
    ) -> DeadLetters:
        """Some of a topic's; `which` may name partition, key, reason, group, from_time, to_time."""
        call = queues.dead_letters(topic, which or {}, limit=limit, after=after, reasons=reasons)
        return dead_letters(await self.send(call), topic)

    async def dead_letter(self, topic: str, partition: int, offset: int) -> DeadLetter:
        return dead_letter(await self.send(queues.dead_letter(topic, partition, offset)), topic)

    async def redrive(
        self,
        topic: str,
        which: Which | None = None,
        *,
        to: str | None = None,
        limit: int | None = None,
        rate: float | None = None,
        dry_run: bool = False,
    ) -> RedrivenBody:
        """Put dead letters back as they were, to their topic or another one."""
        call = queues.redrive(topic, which or {}, to=to, limit=limit, rate=rate, dry_run=dry_run)
        return await self.send(call)

    async def start_redrive(
        self,
        topic: str,
        which: Which | None = None,
        *,
        to: str | None = None,
        limit: int | None = None,
        rate: float | None = None,
    ) -> RedriveBody:
        """The same in the background; `redrives` shows its progress."""
        call = queues.start_redrive(topic, which or {}, to=to, limit=limit, rate=rate)
        return await self.send(call)

    async def redrives(self, topic: str) -> list[RedriveBody]:
        """Those in the background since the server started, the oldest first."""
        return (await self.send(queues.redrives(topic))).redrives

    async def cancel_redrive(self, topic: str, redrive_id: str) -> RedriveBody:
        """Stop a redrive.  Messages that are being moved still arrive."""
        return await self.send(queues.cancel_redrive(topic, redrive_id))

    async def purge_dead_letters(self, topic: str, which: Which | None = None) -> int:
        """Delete dead letters for good; gives how many."""
        return (await self.send(queues.purge(topic, which or {}))).purged
