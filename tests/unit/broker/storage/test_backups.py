"""Copies of a running broker: complete, consistent, and in nobody's way."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from goqueue.broker import Broker
from goqueue.model.errors import DiskFull, InvalidRequest, ShuttingDown
from goqueue.model.ids import Offset
from goqueue.runtime import real_environment
from tests.unit.broker.brokers import CONFIG, publish, running, values_in


async def values(broker: Broker, topic: str, index: int = 0) -> list[str]:
    return await values_in(await broker.partition(topic, index))


def links_of(directory: Path) -> list[int]:
    """How many names each segment has, oldest first."""
    return [path.stat().st_nlink for path in sorted(directory.glob("*.log"))]


async def test_a_copy_has_everything_that_was_committed_before_and_opens_by_itself(tmp_path: Path):
    config = msgspec.structs.replace(CONFIG, data_dir=str(tmp_path))
    environment = real_environment()
    async with running(environment, config) as broker:
        await broker.create_topic("orders")
        written = [f"{number} {'x' * 200}" for number in range(50)]
        for value in written:
            await publish(broker, "orders", value)
        await broker.delete_records(await broker.partition("orders", 0), Offset(7))
        going_on = asyncio.create_task(_publish_on(broker))
        copied = await broker.backups.take()
        going_on.cancel()
        assert copied.topics == 1
        assert copied.log_bytes > 50 * 200
        links = links_of(Path(copied.path, "logs", "orders", "0"))
        assert len(links) > 3
        assert links[0] == 2, "sealed, so it is linked"
        assert links[-1] == 1, "active, so it is copied"
        there = msgspec.structs.replace(CONFIG, data_dir=copied.path)
        async with running(real_environment(), there) as restored:
            found = await values(restored, "orders")
            assert found[: len(written) - 7] == written[7:]
            assert (await restored.partition("orders", 0)).log.start_offset == 7
            assert restored.cluster_id == broker.cluster_id
            assert restored.partitions.recovery.cut_bytes == 0
            await publish(restored, "orders", "written to the copy")
        now = await values(broker, "orders")
        assert now[: len(written) - 7] == written[7:], "the original is not touched"
        assert "written to the copy" not in now
        await broker.backups.remove(copied.backup_id)
        assert not real_environment().disk.exists(copied.path)
    environment.disk.close()


async def _publish_on(broker: Broker) -> None:
    number = 0
    while True:
        await publish(broker, "orders", f"later {number}")
        number += 1


async def test_partitions_that_nobody_opened_yet_are_in_the_copy(tmp_path: Path):
    config = msgspec.structs.replace(CONFIG, data_dir=str(tmp_path))
    async with running(real_environment(), config) as broker:
        await broker.create_topic("orders")
        await publish(broker, "orders", "one", index=1)
    async with running(real_environment(), config) as broker:
        copied = await broker.backups.take()
        there = msgspec.structs.replace(CONFIG, data_dir=copied.path)
        async with running(real_environment(), there) as restored:
            assert await values(restored, "orders", 1) == ["one"]
    async with running(real_environment(), config) as broker:
        async with asyncio.timeout(60):  # what an earlier process left goes
            while broker.environment.disk.exists(f"{tmp_path}/backups"):  # noqa: ASYNC110 # no event
                await asyncio.sleep(0)


async def test_a_copy_leaves_the_room_that_is_kept_free(tmp_path: Path):
    config = msgspec.structs.replace(CONFIG, data_dir=str(tmp_path))
    async with running(real_environment(), config) as broker:
        await broker.create_topic("orders")
        await publish(broker, "orders", "one")
        storage = msgspec.structs.replace(config.storage, free_bytes_min=2**62)
        broker.reconfigure(msgspec.structs.replace(config, storage=storage))
        with pytest.raises(DiskFull, match="free_bytes_min"):
            await broker.backups.take()
        assert not broker.environment.disk.list_directory(f"{tmp_path}/backups")
        await publish(broker, "orders", "two")


async def test_a_copy_that_is_cancelled_leaves_nothing_behind(tmp_path: Path):
    config = msgspec.structs.replace(CONFIG, data_dir=str(tmp_path))
    async with running(real_environment(), config) as broker:
        await broker.create_topic("orders")
        await publish(broker, "orders", "one")
        taking = asyncio.create_task(broker.backups.take())
        await asyncio.sleep(0)
        assert broker.partitions.files.is_held
        taking.cancel()
        with pytest.raises((asyncio.CancelledError, ShuttingDown)):
            await taking
        assert not broker.partitions.files.is_held
        assert not broker.environment.disk.list_directory(f"{tmp_path}/backups")
        assert (await broker.backups.take()).partitions > 0, "and the next one is made"


async def test_only_ids_of_backups_are_removed(tmp_path: Path):
    config = msgspec.structs.replace(CONFIG, data_dir=str(tmp_path))
    async with running(real_environment(), config) as broker:
        for wrong in ("..", "../logs", "", "x"):
            with pytest.raises(InvalidRequest):
                await broker.backups.remove(wrong)
