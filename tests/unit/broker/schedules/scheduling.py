"""Schedules on a simulated broker."""

from typing import Any

import msgspec

from goqueue.broker import Broker
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.broker.schedules.work import RUN_HEADER, TIME_HEADER
from goqueue.model.ids import TopicName
from goqueue.model.record import Record
from goqueue.schedules import Definition, Message, Timing

TOPIC = TopicName("t")


def definition(name: str = "s", **changes: Any) -> Definition:
    found = Definition(name, TOPIC, Timing(every_ms=1_000), Message(b"{{name}} {{run}}"))
    return msgspec.structs.replace(found, **changes)


async def records_in(broker: Broker, topic: str = TOPIC) -> list[list[Record]]:
    """Of each partition."""
    found: list[list[Record]] = []
    for index in range(broker.topic(topic).partitions):
        partition = await broker.partition(topic, index)
        await partition.flush_visible()
        reader, offset, records = PartitionReader(partition), 0, list[Record]()
        while blocks := await reader.read_blocks(offset):
            offset = blocks[-1].next_offset
            records += [record for block in blocks for record in block.records]
        found.append(records)
    return found


def header(record: Record, name: str) -> str:
    return next((value or b"").decode() for each, value in record.headers if each == name)


async def runs_in(broker: Broker, topic: str = TOPIC) -> list[int]:
    """The numbers of the runs that are there, in order."""
    found = [each for some in await records_in(broker, topic) for each in some]
    return sorted(int(header(each, RUN_HEADER)) for each in found)


async def times_in(broker: Broker) -> list[str]:
    found = [each for some in await records_in(broker) for each in some]
    return sorted(header(each, TIME_HEADER) for each in found)


async def wait_for_runs(broker: Broker, count: int, name: str = "s") -> None:
    for _ in range(10_000):
        found = await broker.schedules.find(name)
        if len(found.runs) >= count or (found.runs and found.runs[-1].number >= count):
            return
        await broker.environment.clock.sleep(0.1)
    raise AssertionError(f"{name} had no {count} runs")
