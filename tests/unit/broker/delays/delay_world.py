"""A broker in simulated time, and delayed messages on it."""

from collections.abc import Awaitable, Callable

from goqueue.broker import Broker
from goqueue.broker.delays.admin import FIRST, DelayedMessage, Missing
from goqueue.broker.delays.line import DelayLine
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.model.record import Record
from tests.unit.broker.queue_world import Bench, play

TOPIC = "jobs"
Story = Callable[[Bench], Awaitable[None]]


def delayed(value: bytes, delay_ms: int, **more: object) -> OutgoingMessage:
    headers = (("gq-delay-ms", b"%d" % delay_ms),)
    return OutgoingMessage(value, headers=headers, **more)  # type: ignore[arg-type]


async def read(broker: Broker, partition: int = 0) -> list[Record]:
    """What consumers see."""
    log = await broker.partition(TOPIC, partition)
    await log.flush_visible()
    reader, found, offset = PartitionReader(log), list[Record](), 0
    while blocks := await reader.read_blocks(offset):
        found += [record for block in blocks for record in block.records]
        offset = blocks[-1].next_offset
    return found


async def values(broker: Broker, partition: int = 0) -> list[bytes]:
    return [record.value or b"" for record in await read(broker, partition)]


async def waiting(broker: Broker, limit: int = 1000) -> list[DelayedMessage]:
    missing = Missing()
    found = await broker.delays.admin.page(TOPIC, after=FIRST, limit=limit, missing=missing)
    assert not missing
    return found


def line_of(broker: Broker, partition: int = 0) -> DelayLine:
    line = broker.delays.lines.find(TOPIC, partition)
    assert line is not None
    return line


__all__ = ["TOPIC", "Bench", "delayed", "line_of", "play", "read", "values", "waiting"]
