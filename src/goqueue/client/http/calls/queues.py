"""Every request about queues and dead letters.

To settle a delivery twice is the same as once, for receipts name a delivery and not a message; so
those may be repeated when their answer is lost.  A receive may not: what it was handed comes
again when its time is over.  Those that settle raise when all receipts are refused; when only some
are, their results have an `error`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from goqueue.api.dlq import (
    DeadLetterBody,
    DeadLettersBody,
    PurgedBody,
    RedriveBody,
    RedrivenBody,
    RedrivesBody,
    TakenBody,
)
from goqueue.api.queues import (
    HeldMessage,
    InFlightBody,
    PeekedBody,
    PriorityBody,
    RangeBody,
    ReceivedBody,
    ReliabilityBody,
)
from goqueue.client.http import queue_results as results
from goqueue.client.http.calls.call import Call, change, get, path_of, post, texts
from goqueue.client.http.queue_results import (
    DeadLetter,
    DeadLetters,
    Delivery,
    QueueSettings,
    Receipt,
    Settled,
    SettledMany,
    Waiting,
)

Which = Mapping[str, Any]  # which dead letters: partition, offsets, key, reason, group, times


# --- for workers ----------------------------------------------------------------------------------


def receive(
    topic: str,
    group: str,
    *,
    consumer: str = "",
    max_messages: int | None = None,
    max_bytes: int | None = None,
    wait_ms: int = 0,
    visibility_ms: int | None = None,
) -> Call[list[Delivery]]:
    """Receive messages.  With `wait_ms`, wait for one when there is none.

    Ack, nack or reject each before `visibility_ms` (the group's, 30 s) is over, or extend it:
    otherwise the message is redelivered and the attempt counts as failed.
    """
    body = {
        "group": group,
        "consumer": consumer or None,
        "max_messages": max_messages,
        "max_bytes": max_bytes,
        "wait": wait_ms,
        "visibility": visibility_ms,
    }
    path = path_of("queues", topic, "receive")
    call = post(path, ReceivedBody, body, wait_seconds=wait_ms / 1000)
    return call.then(lambda body: results.deliveries(body.messages))


def ack(*messages: Receipt) -> Call[list[Settled]]:
    """Acknowledge messages.  Accepts deliveries or receipt handles."""
    return _settle("ack", messages)


def nack(*messages: Receipt, delay_ms: int | None = None, reason: str = "") -> Call[list[Settled]]:
    """Report messages as failed.  They are redelivered after `delay_ms` or the group's backoff,
    or become dead letters when they have failed too often.
    """
    return _settle("nack", messages, delay=delay_ms, reason=reason)


def reject(*messages: Receipt, reason: str) -> Call[list[Settled]]:
    """Make messages dead letters immediately."""
    return _settle("reject", messages, reason=reason)


def extend(*messages: Receipt, visibility_ms: int) -> Call[list[Settled]]:
    """Extend the visibility time-out of messages to `visibility_ms` from now."""
    return _settle("visibility", messages, timeout=visibility_ms)


def release(*messages: Receipt, delay_ms: int = 0) -> Call[list[Settled]]:
    """Return messages to the queue without counting a failed attempt."""
    return _settle("release", messages, delay=delay_ms)


def _settle(verb: str, messages: tuple[Receipt, ...], **more: Any) -> Call[list[Settled]]:
    body = {"receipt_handles": results.receipts_of(messages), **more}
    call = post(f"/messages/{verb}", SettledMany, body, is_repeatable=True)
    return call.then(lambda body: body.results)


def ack_range(
    topic: str,
    group: str,
    partition: int,
    first: int,
    last: int,
    *,
    consumer: str | None = None,
) -> Call[list[int]]:
    """Ack what is in flight from `first` to `last`; gives the offsets."""
    body = {
        "group": group,
        "partition": partition,
        "first": first,
        "last": last,
        "consumer": consumer,
    }
    call = post(path_of("queues", topic, "ack-range"), RangeBody, body, is_repeatable=True)
    return call.then(lambda body: body.offsets)


def peek(topic: str, group: str, count: int = 10) -> Call[list[Waiting]]:
    """Messages that would be delivered next; nothing changes."""
    query = {"group": group, "limit": count}
    return get(path_of("queues", topic, "peek"), PeekedBody, query).then(results.waiting)


# --- for operators --------------------------------------------------------------------------------


def queue_settings(group: str) -> Call[dict[str, Any]]:
    return get(path_of("groups", group, "queue"), QueueSettings).then(lambda body: body.settings)


def change_queue_settings(
    group: str, changes: Mapping[str, Any], *, reset_others: bool = False
) -> Call[dict[str, Any]]:
    """Gives all of them.  With `reset_others` those that are not named get their default."""
    method = "PUT" if reset_others else "PATCH"
    path = path_of("groups", group, "queue")
    # None is said, so that the server can refuse it.
    body = msgspec.Raw(msgspec.json.encode(dict(changes)))
    call = change(method, path, QueueSettings, body, is_repeatable=True)
    return call.then(lambda body: body.settings)


def in_flight(
    group: str, *, topic: str | None = None, consumer: str | None = None, limit: int | None = None
) -> Call[list[HeldMessage]]:
    """Messages in flight: which consumer holds each, and until when."""
    query = {"topic": topic, "consumer": consumer, "limit": limit}
    path = path_of("groups", group, "in-flight")
    return get(path, InFlightBody, query).then(lambda body: body.messages)


def queue_stats(group: str | None = None) -> Call[ReliabilityBody]:
    return get("/reliability/stats", ReliabilityBody, {"group": group})


def priority_stats(group: str | None = None, topic: str | None = None) -> Call[PriorityBody]:
    return get("/priority/stats", PriorityBody, {"group": group, "topic": topic})


# --- dead letters ---------------------------------------------------------------------------------


def dead_letters(
    topic: str,
    which: Which | None = None,
    *,
    limit: int | None = None,
    after: str | None = None,
    reasons: bool = False,
) -> Call[DeadLetters]:
    """Some of a topic's; `which` may name partition, key, reason, group, from_time, to_time."""
    told = {"limit": limit, "after": after, "reasons": "true" if reasons else None}
    call = get(path_of("topics", topic, "dlq"), DeadLettersBody, {**(which or {}), **told})
    return call.then(lambda body: results.dead_letters(body, topic))


def dead_letter(topic: str, partition: int, offset: int) -> Call[DeadLetter]:
    call = get(path_of("topics", topic, "dlq", partition, offset), DeadLetterBody)
    return call.then(lambda body: results.dead_letter(body, topic))


def list_taken_ranges(topic: str) -> Call[TakenBody]:
    return get(path_of("topics", topic, "dlq", "taken"), TakenBody)


def redrive(
    topic: str,
    which: Which | None = None,
    *,
    to: str | None = None,
    limit: int | None = None,
    rate: float | None = None,
    dry_run: bool = False,
) -> Call[RedrivenBody]:
    """Put dead letters back as they were, to their topic or another one."""
    body = {**(which or {}), "to": to, "limit": limit, "rate": rate, "dry_run": dry_run}
    seconds = limit / rate if limit and rate else 0.0
    return post(
        path_of("topics", topic, "dlq", "redrive"), RedrivenBody, body, wait_seconds=seconds
    )


def start_redrive(
    topic: str,
    which: Which | None = None,
    *,
    to: str | None = None,
    limit: int | None = None,
    rate: float | None = None,
) -> Call[RedriveBody]:
    """The same in the background; `redrives` shows its progress."""
    body = {**(which or {}), "to": to, "limit": limit, "rate": rate, "background": True}
    return post(path_of("topics", topic, "dlq", "redrive"), RedriveBody, body)


def redrives(topic: str) -> Call[list[RedriveBody]]:
    """Those in the background since the server started, the oldest first."""
    call = get(path_of("topics", topic, "dlq", "redrives"), RedrivesBody)
    return call.then(lambda body: body.redrives)


def cancel_redrive(topic: str, redrive_id: str) -> Call[RedriveBody]:
    """Stop a redrive.  Messages that are being moved still arrive."""
    path = path_of("topics", topic, "dlq", "redrives", redrive_id)
    return change("DELETE", path, RedriveBody, is_repeatable=True)


def purge_dead_letters(topic: str, which: Which | None = None) -> Call[int]:
    """Delete dead letters for good; gives how many."""
    path = path_of("topics", topic, "dlq")
    call = change("DELETE", path, PurgedBody, query=texts(which or {}), is_repeatable=True)
    return call.then(lambda body: body.purged)
