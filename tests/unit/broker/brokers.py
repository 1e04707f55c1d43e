"""Brokers and partitions in a simulated environment."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from goqueue.broker import Broker, Partition
from goqueue.cluster.replication import Leader
from goqueue.log import Appended, open_log
from goqueue.model import batch as batches
from goqueue.model.config import Config, StorageConfig, TopicsConfig
from goqueue.model.ids import Epoch, NodeId, Offset, PartitionId, Timestamp
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from goqueue.runtime import Environment
from goqueue.testing.sim import SimDisk, World

NOW = Timestamp(1_750_000_000_000)
ALL = 1 << 30
NODE = NodeId(1)
CONFIG = Config(
    data_dir="/data",
    topics=TopicsConfig(partitions=2, settings={"segment.bytes": "1024"}),
    storage=StorageConfig(free_bytes_min=0),
)


@contextlib.asynccontextmanager
async def running(environment: Environment, config: Config = CONFIG) -> AsyncIterator[Broker]:
    async with Broker(environment, config).running() as broker:
        yield broker


def play(story: Callable[[Broker], Awaitable[None]], config: Config = CONFIG) -> None:
    """On a broker that is alone."""

    async def main(environment: Environment) -> None:
        async with running(environment, config) as broker:
            await story(broker)

    with World(0) as world:
        world.run(main(world.environment("a")))


class LonePartition(Partition):
    """A partition on a disk of its own, that notes what it tells its owner."""

    def __init__(self, disk: SimDisk, **settings: str) -> None:
        log, _ = open_log(disk, "/log", topic_settings(settings))
        self.dirty = 0
        self.flushes: list[str | None] = []
        self.waits = 0
        super().__init__(
            "topic",
            None,
            PartitionId(0),
            log,
            Leader.alone(NODE, Epoch(0)),
            disk,
            lambda _partition: self._note_dirty(),
            lambda _partition, _seconds, error: self.flushes.append(str(error) if error else None),
            lambda _partition: self._note_wait(),
        )

    def _note_dirty(self) -> None:
        self.dirty += 1

    def _note_wait(self) -> None:
        self.waits += 1


def append(partition: Partition, *values: str, now: int = NOW) -> Appended:
    data = batches.encode([Record(0, now, None, value.encode()) for value in values])
    return partition.append(data, batches.verified_headers(data), Timestamp(now))


def append_through(broker: Broker, partition: Partition, *values: str) -> Appended:
    now = broker.environment.clock.now()
    data = batches.encode([Record(0, now, None, value.encode()) for value in values])
    return broker.append(partition, data)


async def publish(broker: Broker, topic: str, *values: str, index: int = 0) -> Offset:
    """Returns when it is durable, as acks=all does."""
    partition = await broker.partition(topic, index)
    appended = append_through(broker, partition, *values)
    await partition.wait_committed(appended.last_offset)
    return appended.first_offset


async def values_in(partition: Partition) -> list[str]:
    """Everything a reader sees."""
    found, offset = [], partition.log.start_offset
    while offset < partition.log.high_watermark:
        chunk = await partition.read(offset, ALL, partition.log.high_watermark)
        found += [record for record in batches.decode_all(chunk.data) if record.offset >= offset]
        offset = chunk.next_offset
    return [(record.value or b"").decode() for record in found]


def texts(numbers: Sequence[int]) -> list[str]:
    return [str(number) for number in numbers]
