"""Every request of a transactional producer."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from goqueue.api.transactions import Begun, ProducerBody, PublishedInTransaction, PublishedMany
from goqueue.client.http.calls.call import Anything, Call, nothing, post
from goqueue.client.http.messages import Publishables, as_messages, to_wire

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
    return post("/producers/init", ProducerBody, body, is_repeatable=True)


def begin(ids: Ids) -> Call[Begun]:
    return _call("begin", Begun, ids, is_repeatable=False)


def publish(ids: Ids, topic: str, messages: Publishables) -> Call[list[PublishedInTransaction]]:
    wire = [to_wire(message) for message in as_messages(messages)]
    call = _call("messages", PublishedMany, ids, is_repeatable=False, topic=topic, messages=wire)
    return call.then(lambda body: body.results)


def acks(ids: Ids, receipts: Sequence[str]) -> Call[None]:
    return _call("acks", Anything, ids, receipt_handles=receipts).then(nothing)


def offsets(ids: Ids, group: str, positions: Mapping[tuple[str, int], int]) -> Call[None]:
    listed = [
        {"topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in positions.items()
    ]
    return _call("offsets", Anything, ids, group=group, offsets=listed).then(nothing)


def commit(ids: Ids) -> Call[None]:
    return _call("commit", Anything, ids).then(nothing)


def abort(ids: Ids) -> Call[None]:
    return _call("abort", Anything, ids).then(nothing)


def _call(
    verb: str, result: type[T], ids: Ids, *, is_repeatable: bool = True, **more: Any
) -> Call[T]:
    body = {**msgspec.to_builtins(ids), **more}
    return post(f"/transactions/{verb}", result, body, is_repeatable=is_repeatable)
