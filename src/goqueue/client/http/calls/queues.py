"""Every request about queues and dead letters, as data.

To settle a delivery twice is the same as once, for receipts name a delivery and not a message; so
those may be repeated when their answer is lost.  A receive may not: what it was handed comes
again when its time is over.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

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
    InFlightBody,
    PeekedBody,
    PriorityBody,
    RangeBody,
    ReceivedBody,
    ReliabilityBody,
)
from goqueue.client.http.calls.topics import Call
from goqueue.client.http.queue_results import QueueSettings, SettledMany

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
) -> Call[ReceivedBody]:
    body = {
        "group": group,
        "consumer": consumer or None,
        "max_messages": max_messages,
        "max_bytes": max_bytes,
        "wait": wait_ms,
        "visibility": visibility_ms,
    }
    return Call(
        method="POST",
        path=_path("queues", topic, "receive"),
        result=ReceivedBody,
        body=_json(body),
        wait_seconds=wait_ms / 1000,
    )


def ack(receipts: Sequence[str]) -> Call[SettledMany]:
    return _settle("ack", receipts)


def nack(
    receipts: Sequence[str], *, delay_ms: int | None = None, reason: str = ""
) -> Call[SettledMany]:
    return _settle("nack", receipts, delay=delay_ms, reason=reason)


def reject(receipts: Sequence[str], reason: str) -> Call[SettledMany]:
    return _settle("reject", receipts, reason=reason)


def extend(receipts: Sequence[str], visibility_ms: int) -> Call[SettledMany]:
    return _settle("visibility", receipts, timeout=visibility_ms)


def release(receipts: Sequence[str], *, delay_ms: int = 0) -> Call[SettledMany]:
    return _settle("release", receipts, delay=delay_ms)


def ack_range(
    topic: str, group: str, partition: int, first: int, last: int, consumer: str | None = None
) -> Call[RangeBody]:
    body = {
        "group": group,
        "partition": partition,
        "first": first,
        "last": last,
        "consumer": consumer,
    }
    return Call(
        method="POST",
        path=_path("queues", topic, "ack-range"),
        result=RangeBody,
        body=_json(body),
        is_repeatable=True,
    )


def peek(topic: str, group: str, count: int) -> Call[PeekedBody]:
    query = {"group": group, "limit": str(count)}
    return _get(_path("queues", topic, "peek"), PeekedBody, query)


def _settle(verb: str, receipts: Sequence[str], **more: Any) -> Call[SettledMany]:
    return Call(
        method="POST",
        path=f"/messages/{verb}",
        result=SettledMany,
        body=_json({"receipt_handles": list(receipts), **more}),
        is_repeatable=True,
    )


# --- for operators --------------------------------------------------------------------------------


def settings(group: str) -> Call[QueueSettings]:
    return _get(_path("groups", group, "queue"), QueueSettings)


def change_settings(
    group: str, changes: Mapping[str, Any], *, reset_others: bool
) -> Call[QueueSettings]:
    return Call(
        method="PUT" if reset_others else "PATCH",
        path=_path("groups", group, "queue"),
        result=QueueSettings,
        body=msgspec.json.encode(dict(changes)),
        is_repeatable=True,
    )


def in_flight(
    group: str, *, topic: str | None = None, consumer: str | None = None, limit: int | None = None
) -> Call[InFlightBody]:
    query = {"topic": topic, "consumer": consumer, "limit": limit}
    return _get(_path("groups", group, "in-flight"), InFlightBody, _query(query))


def stats(group: str | None = None) -> Call[ReliabilityBody]:
    return _get("/reliability/stats", ReliabilityBody, _query({"group": group}))


def priorities(group: str | None = None, topic: str | None = None) -> Call[PriorityBody]:
    return _get("/priority/stats", PriorityBody, _query({"group": group, "topic": topic}))


# --- dead letters ---------------------------------------------------------------------------------


def dead_letters(
    topic: str,
    which: Which,
    *,
    limit: int | None = None,
    after: str | None = None,
    reasons: bool = False,
) -> Call[DeadLettersBody]:
    query = {**which, "limit": limit, "after": after, "reasons": "true" if reasons else None}
    return _get(_path("topics", topic, "dlq"), DeadLettersBody, _query(query))


def dead_letter(topic: str, partition: int, offset: int) -> Call[DeadLetterBody]:
    return _get(_path("topics", topic, "dlq", str(partition), str(offset)), DeadLetterBody)


def taken_letters(topic: str) -> Call[TakenBody]:
    return _get(_path("topics", topic, "dlq", "taken"), TakenBody)


def redrive(
    topic: str,
    which: Which,
    *,
    to: str | None = None,
    limit: int | None = None,
    rate: float | None = None,
    dry_run: bool = False,
) -> Call[RedrivenBody]:
    body = {**which, "to": to, "limit": limit, "rate": rate, "dry_run": dry_run}
    seconds = limit / rate if limit and rate else 0.0
    return Call(
        method="POST",
        path=_path("topics", topic, "dlq", "redrive"),
        result=RedrivenBody,
        body=_json(body),
        wait_seconds=seconds,
    )


def start_redrive(
    topic: str,
    which: Which,
    *,
    to: str | None = None,
    limit: int | None = None,
    rate: float | None = None,
) -> Call[RedriveBody]:
    body = {**which, "to": to, "limit": limit, "rate": rate, "background": True}
    path = _path("topics", topic, "dlq", "redrive")
    return Call(method="POST", path=path, result=RedriveBody, body=_json(body))


def redrives(topic: str) -> Call[RedrivesBody]:
    return _get(_path("topics", topic, "dlq", "redrives"), RedrivesBody)


def cancel_redrive(topic: str, redrive_id: str) -> Call[RedriveBody]:
    path = _path("topics", topic, "dlq", "redrives", redrive_id)
    return Call(method="DELETE", path=path, result=RedriveBody, is_repeatable=True)


def purge(topic: str, which: Which) -> Call[PurgedBody]:
    return Call(
        method="DELETE",
        path=_path("topics", topic, "dlq"),
        result=PurgedBody,
        query=_query(which),
        is_repeatable=True,
    )


def _get(path: str, result: type[Any], query: dict[str, str] | None = None) -> Call[Any]:
    return Call(method="GET", path=path, result=result, query=query or {}, is_repeatable=True)


def _path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _query(given: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in given.items() if value is not None}


def _json(body: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({name: each for name, each in body.items() if each is not None})
