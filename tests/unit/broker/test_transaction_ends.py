"""What a transaction's end promises to who heard of it."""

import contextlib
from pathlib import Path

from goqueue.broker import Broker
from goqueue.broker.messages import read_page
from goqueue.model.config import Config
from goqueue.model.ids import Offset, TopicName
from goqueue.runtime import real_doors
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
                await transactions.ready("tx")
                transactions.admit("tx", who, (TopicName("orders"), 0), adds=True)
                appended = broker.append(partition, batch_of(broker, who, number, value))
                await partition.committed(appended.last_offset)
                await transactions.end("tx", who, commits=True, bumps_epoch=False)
                page = await read_page(
                    partition, Offset(appended.last_offset), limit=10, bytes_max=10_000
                )
                assert [record.value for record in page.records] == [value]
