"""Messages of a queue as share consumers get them: ranges of offsets, and the log's own batches.

A batch is sent whole, even if only some of its records are acquired; the ranges tell which.
Batches without any are left out, so are control batches, which are never acquired, and aborted ones
unless the group reads uncommitted.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.broker.queues.receive import Receiver
from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.broker.services import BrokerServices
from goqueue.broker.storage.partition import Partition
from goqueue.model.batch import headers
from goqueue.model.errors import TopicNotFound
from goqueue.model.ids import Offset, TopicPartition
from goqueue.queue import DeliveryBatch, TooManyInFlight
from goqueue.queue.ranges import each_offset

READ_BYTES: Final = 64 * 1024


class AcquiredRange(msgspec.Struct, frozen=True, gc=False):
    first: int
    last: int
    deliveries: int  # up to and with this one


class Acquired(msgspec.Struct, frozen=True):
    """What a member got of one partition."""

    place: TopicPartition
    ranges: list[AcquiredRange]
    data: bytes


async def acquire(
    services: BrokerServices, receiver: Receiver, request: ReceiveRequest, wait_ms: int
) -> list[Acquired]:
    """As `Receiver.receive`, in this form; none for who holds too many."""
    try:
        deliveries = await receiver.receive(request, wait_ms)
    except TooManyInFlight:
        return []
    try:
        return [await _read_acquired(services, delivery) for delivery in deliveries]
    except TopicNotFound:  # deleted meanwhile
        return []
    except BaseException:
        receiver.release(deliveries)
        raise


async def _read_acquired(services: BrokerServices, delivery: DeliveryBatch) -> Acquired:
    place = TopicPartition(delivery.where.topic, delivery.where.partition)
    partition = await services.partition(*place)
    spans, data = delivery.spans(), delivery.batches()
    if data is None:
        offsets = list(each_offset((first, last) for first, last, _ in spans))
        data = await batches_with(partition, offsets)
    partition.bytes_out += len(data)
    return Acquired(place, [AcquiredRange(*span) for span in spans], data)


async def batches_with(partition: Partition, offsets: Sequence[int]) -> bytes:
    """The batches that hold any of these ascending offsets."""
    found: list[bytes] = []
    behind = 0  # everything below was looked at
    limit = partition.log.high_watermark  # whatever was acquired may be read
    for offset in offsets:
        if offset < max(behind, partition.log.start_offset):
            continue
        chunk = await partition.read(Offset(offset), READ_BYTES, limit)
        data = bytes(chunk.data)
        for header in headers(data):
            place = bisect_left(offsets, max(header.base_offset, behind))
            if place < len(offsets) and offsets[place] < header.next_offset:
                found.append(data[header.position : header.end])
        behind = max(behind, chunk.next_offset)
    return b"".join(found)
