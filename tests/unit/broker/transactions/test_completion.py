"""What a transaction's end promises to who heard of it."""

import contextlib
from pathlib import Path

from goqueue.broker import Broker
from goqueue.broker.messages.publish import read_page
from goqueue.model.config import Config
from goqueue.model.ids import Offset, TopicName, TopicPartition
from goqueue.runtime import Doors, real_doors
from goqueue.testing.sim.world import World
from tests.sim.transaction_world import batch_of


async def test_a_reader_who_comes_after_the_end_sees_what_was_committed(tmp_path: Path):
    doors = real_doors()
    with contextlib.closing(doors.disk):
        async with Broker(doors, Config(data_dir=str(tmp_path))).running() as broker:
            await broker.create_topic("orders", partitions=1)
            partition = await broker.partition("orders", 0)
            transactions = broker.transactions
            who = await transactions.init("tx", timeout_ms=5_000)
            for number in range(10):
                value = b"%d" % number
                await transactions.wait_ready("tx")
                transactions.admit("tx", who, TopicPartition(TopicName("orders"), 0), adds=True)
                appended = broker.append(partition, batch_of(broker, who, number, value))
                await partition.committed(appended.last_offset)
                await transactions.end("tx", who, commits=True, bumps_epoch=False)
                page = await read_page(
                    partition, Offset(appended.last_offset), limit=10, bytes_max=10_000
                )
                assert [record.value for record in page.records] == [value]


def test_a_power_cut_takes_nothing_of_a_transaction_that_was_committed(seed: int):
    """Also when its records were written with acks=1, and nobody waited for the disk."""
    told: list[bytes] = []

    async def write(doors: Doors) -> None:
        async with Broker(doors, Config(data_dir="/data")).running() as broker:
            await broker.create_topic("orders", partitions=1)
            partition = await broker.partition("orders", 0)
            transactions = broker.transactions
            who = await transactions.init("tx", timeout_ms=5_000)
            for number in range(3):
                value = b"%d" % number
                await transactions.wait_ready("tx")
                admitted = transactions.admit(
                    "tx", who, TopicPartition(TopicName("orders"), 0), adds=True
                )
                broker.append(partition, batch_of(broker, who, number, value))
                if admitted is not None:
                    await admitted
                await transactions.end("tx", who, commits=True, bumps_epoch=False)
                told.append(value)
                if number == seed % 3:
                    break
            await doors.clock.sleep(1_000)

    async def read(doors: Doors) -> list[bytes | None]:
        async with Broker(doors, Config(data_dir="/data")).running() as broker:
            await doors.clock.sleep(2)
            partition = await broker.partition("orders", 0)
            page = await read_page(partition, Offset(0), limit=10, bytes_max=10_000)
            return [record.value for record in page.records]

    with World(seed) as world:
        world.disk("a").slow_syncs(0.001, 0.2)
        world.start("a", write)
        world.run_until(lambda: len(told) == seed % 3 + 1)
        world.power_loss("a")
        assert world.run(read(world.doors("a"))) == told
