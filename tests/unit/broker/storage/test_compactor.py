"""The cleaner: when it compacts, and what it leaves alone."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from goqueue.broker import Broker, Partition
from goqueue.model import batch as batches
from goqueue.model.config import Config, StorageConfig
from goqueue.model.errors import DiskFull, InvalidRequest
from goqueue.model.record import Record
from goqueue.runtime import Environment
from goqueue.testing.sim import SimDisk, World
from tests.unit.broker.brokers import CONFIG, NOW, running, values_in

COMPACTED = {"cleanup.policy": "compact"}


def play(story: Callable[[Broker], Awaitable[None]], config: Config = CONFIG) -> None:
    async def main(environment: Environment) -> None:
        async with running(environment, config) as broker:
            await story(broker)

    with World(0) as world:
        world.run(main(world.environment("a")))


async def filled(broker: Broker, **settings: str) -> Partition:
    """A partition whose four messages have two keys."""
    await broker.create_topic("t", partitions=1, settings={**COMPACTED, **settings})
    partition = await broker.partition("t", 0)
    for number, key in enumerate((b"a", b"b", b"a", b"b")):
        broker.append(partition, batches.encode([Record(0, NOW, key, b"%d" % number)]))
    await partition.flush()
    return partition


def test_of_each_key_the_last_is_left():
    async def story(broker: Broker) -> None:
        partition = await filled(broker)
        assert await broker.cleaner.seal(partition) == (0, 4)
        report = await broker.cleaner.compact(partition, force=True)
        assert report is not None
        assert (report.records_before, report.records_after) == (4, 2)
        assert await values_in(partition) == ["2", "3"]
        assert broker.cleaner.runs == 1
        assert broker.cleaner.bytes_reclaimed == report.bytes_before - report.bytes_after > 0

    play(story)


def test_a_dry_run_counts_and_changes_nothing():
    async def story(broker: Broker) -> None:
        partition = await filled(broker)
        await broker.cleaner.seal(partition)
        report = await broker.cleaner.compact(partition, force=True, dry_run=True)
        assert report is not None
        assert report.records_after == 2
        assert await values_in(partition) == ["0", "1", "2", "3"]
        assert broker.cleaner.runs == 0
        assert not partition.log.rewriting

    play(story)


def test_only_a_compacted_topic_is_sealed():
    async def story(broker: Broker) -> None:
        await broker.create_topic("plain", partitions=1)
        with pytest.raises(InvalidRequest, match=r"cleanup\.policy"):
            await broker.cleaner.seal(await broker.partition("plain", 0))

    play(story)


def test_one_log_is_rewritten_by_one_at_a_time():
    async def story(broker: Broker) -> None:
        partition = await filled(broker)
        await broker.cleaner.seal(partition)
        partition.log.rewriting = True
        assert await broker.cleaner.compact(partition, force=True) is None
        partition.log.rewriting = False
        assert await broker.cleaner.compact(partition, force=True) is not None

    play(story)


def test_without_room_a_log_stays_as_it_is_and_is_compacted_later():
    async def story(broker: Broker) -> None:
        partition = await filled(broker)
        await broker.cleaner.seal(partition)
        disk = broker.environment.disk
        assert isinstance(disk, SimDisk)
        disk.fill_up(0)
        with pytest.raises(DiskFull):
            await broker.cleaner.compact(partition, force=True)
        assert not partition.log.rewriting
        disk.make_room()
        assert await broker.cleaner.compact(partition, force=True) is not None
        assert await values_in(partition) == ["2", "3"]

    play(story)


def test_a_broker_that_stops_begins_no_run():
    async def story(broker: Broker) -> None:
        partition = await filled(broker)
        await broker.cleaner.seal(partition)
        broker.cleaner.stop()
        assert await broker.cleaner.compact(partition, force=True) is None
        assert await values_in(partition) == ["0", "1", "2", "3"]

    play(story)


def test_compacted_topics_are_looked_at_after_a_while():
    storage = StorageConfig(free_bytes_min=0, compaction_check_ms=1_000)
    config = msgspec.structs.replace(CONFIG, storage=storage)

    async def story(broker: Broker) -> None:
        settings = {"min.cleanable.dirty.ratio": "0", "max.compaction.lag.ms": "1"}
        partition = await filled(broker, **settings)
        await broker.environment.clock.sleep(5)
        assert await values_in(partition) == ["2", "3"]

    play(story, config)
