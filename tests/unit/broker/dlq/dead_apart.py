"""Dead letters in the simulator whose partitions, and those of their topic, are led apart."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from goqueue.broker import Broker
from goqueue.broker.messages.read import read_page
from goqueue.broker.queues.acknowledgement import Reject
from goqueue.model.ids import Offset
from goqueue.queue import Settled
from tests.unit.broker.cluster.apart import HOSTS, Apart, led_apart
from tests.unit.broker.dlq.test_target import place_dead_letters

COUNT = 4  # messages of each partition


@contextmanager
def dead_apart(*leaders: int) -> Iterator[Apart]:
    """All messages are dead letters, led by these nodes."""
    with led_apart() as apart:
        place_dead_letters(apart, *leaders)
        for index in range(3):
            apart.publish("a", *(f"{index}-{n}" for n in range(COUNT)), partition=index)
        reject_all(apart)
        yield apart


def reject_all(apart: Apart) -> None:
    receipts: list[str] = []
    while len(receipts) < 3 * COUNT:
        receipts += [receipt for _, receipt in apart.receive("a", max_messages=COUNT)]
    outcomes = apart.world.run(apart["b"].queues.settlement.settle(receipts, Reject("bad")))
    assert all(isinstance(each, Settled) for each in outcomes)
    wait_for_letters(apart, 3 * COUNT)


def wait_for_letters(apart: Apart, count: int) -> None:
    async def wait() -> None:
        async with asyncio.timeout(60):
            while await apart["a"].queues.dead_letters.count("orders") != count:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    apart.world.run(wait())


def letters(apart: Apart, host: str = "a") -> int:
    return apart.world.run(apart[host].queues.dead_letters.count("orders"))


def values(apart: Apart) -> list[str]:
    """Of all messages of the topic, at their leaders."""
    found: list[str] = []
    for index, host in enumerate(HOSTS):
        found += apart.world.run(_values(apart[host], index))
    return sorted(found)


async def _values(broker: Broker, index: int) -> list[str]:
    partition = await broker.partition("orders", index)
    page = await read_page(partition, Offset(0), limit=1_000, bytes_max=2**20)
    return [(each.value or b"").decode() for each in page.records]


ALL = sorted(f"{index}-{n}" for index in range(3) for n in range(COUNT))
