"""A broker on a real directory, and what tests of transactions do with it."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from goqueue.broker import Broker
from goqueue.broker.messages.read import read_page
from goqueue.broker.storage.partition import Partition
from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.model.config import Config
from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from goqueue.runtime import real_environment
from goqueue.txn import ProducerIdentity
from tests.sim.transaction_world import batch_of

ORDERS = TopicPartition(TopicName("orders"), 0)
BILLING = GroupId("billing")


@contextlib.asynccontextmanager
async def running(path: Path) -> AsyncIterator[Broker]:
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with Broker(environment, Config(data_dir=str(path))).running() as broker:
            if not broker.has_topic("orders"):
                await broker.create_topic("orders", partitions=1)
            yield broker


async def write(
    broker: Broker, who: ProducerIdentity, value: bytes, *, sequence: int = 0
) -> Partition:
    """One record in the transaction of `tx`, durable on return."""
    partition = await broker.partition(*ORDERS)
    await broker.transactions.wait_ready("tx")
    broker.transactions.admit("tx", who, ORDERS, adds=True)
    appended = broker.append(partition, batch_of(broker, who, sequence, value))
    await partition.wait_committed(appended.last_offset)
    await broker.transactions.wait_durable("tx")
    return partition


async def add_offset(broker: Broker, who: ProducerIdentity, offset: int) -> None:
    wanted = OffsetToCommit(ORDERS.topic, ORDERS.partition, Offset(offset))
    request = CommitRequest(group_id=BILLING, offsets=(wanted,))
    await broker.transactions.add_offsets("tx", who, request, adds_group=True)


def committed(broker: Broker) -> int | None:
    found = broker.groups.committed_offsets(BILLING).get(ORDERS)
    return None if found is None else found.offset


async def read(broker: Broker) -> list[bytes | None]:
    """All that is visible; nothing may be open."""
    partition = await broker.partition(*ORDERS)
    await partition.flush()
    assert partition.log.stable_offset == partition.log.high_watermark, "nothing is open"
    page = await read_page(partition, Offset(0), limit=10, bytes_max=10_000)
    return [record.value for record in page.records]
