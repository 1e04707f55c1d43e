"""What the listeners do with a broker's queues, message by message and in one call each."""

from collections.abc import Sequence
from typing import Any

from goqueue.broker.queues.acknowledgement import Ack, Extend, Nack, Reject
from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.broker.queues.service import Queues
from goqueue.model.ids import GroupId
from goqueue.queue import Delivered, SettleOutcome


async def receive(
    queues: Queues,
    topics: Sequence[str],
    group: str,
    consumer: str,
    *,
    wait_ms: int = 0,
    **options: Any,
) -> list[Delivered]:
    request = ReceiveRequest(topics, GroupId(group), consumer, **options)
    deliveries = await queues.receiver.receive(request, wait_ms)
    return [message for delivery in deliveries for message in delivery.messages()]


async def ack(queues: Queues, receipts: Sequence[str]) -> list[SettleOutcome]:
    return await queues.settlement.settle(receipts, Ack())


async def nack(
    queues: Queues, receipts: Sequence[str], *, delay_ms: int | None = None, reason: str = ""
) -> list[SettleOutcome]:
    return await queues.settlement.settle(receipts, Nack(delay_ms, reason))


async def reject(queues: Queues, receipts: Sequence[str], *, reason: str) -> list[SettleOutcome]:
    return await queues.settlement.settle(receipts, Reject(reason))


async def extend(
    queues: Queues, receipts: Sequence[str], *, visibility_ms: int
) -> list[SettleOutcome]:
    return await queues.settlement.settle(receipts, Extend(visibility_ms))
