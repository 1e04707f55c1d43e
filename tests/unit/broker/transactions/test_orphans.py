"""Transactions that are open in a partition's log after a start, and that nobody would end."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from goqueue.broker import Broker
from goqueue.broker.messages.read import read_page
from goqueue.broker.storage.partition import Partition
from goqueue.model.config import Config
from goqueue.model.ids import Offset, TopicName, TopicPartition
from goqueue.runtime import real_environment
from goqueue.txn import ProducerIdentity
from tests.sim.transaction_world import batch_of


@contextlib.asynccontextmanager
async def running(path: Path) -> AsyncIterator[Broker]:
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with Broker(environment, Config(data_dir=str(path))).running() as broker:
            yield broker


async def write(broker: Broker, who: ProducerIdentity, value: bytes) -> Partition:
    await broker.create_topic("orders", partitions=1)
    partition = await broker.partition("orders", 0)
    await partition.wait_committed(
        broker.append(partition, batch_of(broker, who, 0, value)).last_offset
    )
    return partition


async def read(broker: Broker) -> list[bytes | None]:
    partition = await broker.partition("orders", 0)
    await partition.flush()
    assert partition.log.stable_offset == partition.log.high_watermark, "nothing is open"
    page = await read_page(partition, Offset(0), limit=10, bytes_max=10_000)
    return [record.value for record in page.records]


@pytest.mark.parametrize("bumps_epoch", [False, True])
async def test_a_commit_marker_that_was_lost_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bumps_epoch: bool
):
    def lose(self: Partition, *_marker: Any) -> Offset:
        return Offset(self.log.end_offset - 1)

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "append_marker", lose)
        async with running(tmp_path) as broker:
            who = await broker.transactions.init("tx", timeout_ms=5_000)
            await broker.create_topic("orders", partitions=1)
            partition = await broker.partition("orders", 0)
            broker.transactions.admit("tx", who, TopicPartition(TopicName("orders"), 0), adds=True)
            broker.append(partition, batch_of(broker, who, 0, b"paid"))
            await broker.transactions.end("tx", who, commits=True, bumps_epoch=bumps_epoch)
            await broker.transactions.wait_ready("tx")
    with capture_logs() as logs:
        async with running(tmp_path) as broker:
            assert await read(broker) == [b"paid"]
    (line,) = [each for each in logs if each["log_level"] == "warning"]
    assert line["event"] == "commit marker was lost and is written again"
    assert line["transactional_id"] == "tx"


async def test_a_transaction_that_no_coordinator_knows_is_aborted_and_logged(tmp_path: Path):
    stranger = ProducerIdentity(4711, 3)
    async with running(tmp_path) as broker:
        await write(broker, stranger, b"lost")
    with capture_logs() as logs:
        async with running(tmp_path) as broker:
            assert await read(broker) == []
    (line,) = [each for each in logs if each["log_level"] == "warning"]
    assert line == {
        "event": "transaction aborted: no coordinator knows it",
        "log_level": "warning",
        "topic": "orders",
        "partition": 0,
        "producer_id": 4711,
        "epoch": 3,
        "offset": 0,
    }
