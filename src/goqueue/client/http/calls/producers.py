"""Requests of a transactional producer, as data; see `calls`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from goqueue.api.transactions import Begun, ProducerBody, PublishedMany
from goqueue.client.http.calls.topics import Call
from goqueue.client.http.messages import Publishables, as_messages, to_wire
from goqueue.client.http.results import Anything

T = TypeVar("T")
TIMEOUT_MS: Final = 60_000
FENCED: Final = "producer_fenced"


class Ids(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who asks, and about which transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    transaction_id: str | None = None


def init(transactional_id: str, timeout_ms: int) -> Call[ProducerBody]:
    body = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
    return Call(
        method="POST",
        path="/producers/init",
        result=ProducerBody,
        body=msgspec.json.encode(body),
        is_repeatable=True,
    )


def begin(ids: Ids) -> Call[Begun]:
    return _call("begin", Begun, ids, is_repeatable=False)


def publish(ids: Ids, topic: str, messages: Publishables) -> Call[PublishedMany]:
    wire = [to_wire(message) for message in as_messages(messages)]
    return _call("messages", PublishedMany, ids, is_repeatable=False, topic=topic, messages=wire)


def acks(ids: Ids, receipts: Sequence[str]) -> Call[Anything]:
    return _call("acks", Anything, ids, receipt_handles=receipts)


def offsets(ids: Ids, group: str, positions: Mapping[tuple[str, int], int]) -> Call[Anything]:
    listed = [
        {"topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in positions.items()
    ]
    return _call("offsets", Anything, ids, group=group, offsets=listed)


def commit(ids: Ids) -> Call[Anything]:
    return _call("commit", Anything, ids)


def abort(ids: Ids) -> Call[Anything]:
    return _call("abort", Anything, ids)


def _call(
    verb: str, result: type[T], ids: Ids, *, is_repeatable: bool = True, **more: Any
) -> Call[T]:
    return Call(
        method="POST",
        path=f"/transactions/{verb}",
        result=result,
        body=msgspec.json.encode({**msgspec.to_builtins(ids), **more}),
        is_repeatable=is_repeatable,
    )
