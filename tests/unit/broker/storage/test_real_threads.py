"""Readers in other threads, while the log under them grows, closes segments and loses old ones."""

import asyncio
import contextlib
import functools
import random
from pathlib import Path

from goqueue.broker import Broker, Partition
from goqueue.model import batch as batches
from goqueue.model.config import Config, StorageConfig, TopicsConfig
from goqueue.model.errors import OffsetOutOfRange, TopicNotFound
from goqueue.model.ids import Offset, Timestamp
from goqueue.runtime import real_environment
from tests.unit.broker.brokers import append_through

BATCHES = 800
CONFIG = {"segment.bytes": "2000", "index.interval.bytes": "200", "retention.bytes": "20000"}


async def test_readers_never_see_damage_that_is_not_there(tmp_path: Path):
    environment = real_environment(open_files_max=16)
    config = Config(
        data_dir=str(tmp_path),
        topics=TopicsConfig(settings=CONFIG),
        storage=StorageConfig(checkpoint_ms=5, retention_check_ms=5, free_bytes_min=0),
    )
    with contextlib.closing(environment.disk):
        async with Broker(environment, config).running() as broker:
            await broker.create_topic("t", partitions=1)
            partition = await broker.partition("t", 0)
            done = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                for seed in range(4):
                    tasks.create_task(read(partition, done, random.Random(seed)))
                await write(broker, partition)
                done.set()
            assert partition.log.damaged == {}
            assert partition.log.start_offset > 0


async def write(broker: Broker, partition: Partition) -> None:
    for number in range(BATCHES):
        appended = append_through(broker, partition, f"{2 * number}", f"{2 * number + 1}")
        if number % 3 == 0:
            await partition.wait_committed(appended.last_offset)


async def read(partition: Partition, done: asyncio.Event, chance: random.Random) -> None:
    log, disk = partition.log, partition._disk
    while not done.is_set():
        start, limit = log.start_offset, log.high_watermark
        offset = Offset(chance.randint(start, limit))
        with contextlib.suppress(OffsetOutOfRange):
            if chance.random() < 0.5:
                chunk = await partition.read(offset, 500, limit)
            else:
                look = functools.partial(log.read, offset, 500, limit)
                chunk = await disk.in_background(look)
            for record in batches.decode_all(chunk.data):
                assert record.value == b"%d" % record.offset
            if chance.random() < 0.1:
                found = await partition.offset_for_time(Timestamp(1), limit)
                assert found is None or found.offset >= start


async def test_readers_of_a_topic_that_is_deleted_and_made_again_get_the_right_one(tmp_path: Path):
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with Broker(environment, Config(data_dir=str(tmp_path))).running() as broker:
            done = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(4):
                    tasks.create_task(read_generations(broker, done))
                for generation in range(60):
                    await broker.create_topic("t", partitions=2)
                    for index in range(2):
                        partition = await broker.partition("t", index)
                        appended = append_through(broker, partition, *[f"{generation}"] * 5)
                        await partition.wait_committed(appended.last_offset)
                        assert appended.first_offset == 0
                    await broker.delete_topic("t")
                done.set()
        assert environment.disk.list_directory(f"{tmp_path}/deleted") == []
        assert not environment.disk.exists(f"{tmp_path}/logs/t")


async def read_generations(broker: Broker, done: asyncio.Event) -> None:
    while not done.is_set():
        with contextlib.suppress(TopicNotFound, OffsetOutOfRange):
            partition = await broker.partition("t", 1)
            look = functools.partial(
                partition.log.read, Offset(0), 10_000, partition.log.high_watermark
            )
            chunk = await partition._disk.in_background(look)
            values = {record.value for record in batches.decode_all(chunk.data)}
            assert len(values) <= 1, "two topics at once"
        await asyncio.sleep(0.001)  # disk threads are to have their turn
