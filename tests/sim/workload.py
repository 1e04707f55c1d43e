"""A broker's busy life, and a ledger of what it promised, kept where no crash reaches it.

Writers, readers and administrators do what they like through the broker's verbs.  Before each
step the ledger notes what is attempted, and after it what was promised.  After a crash `check`
holds the broker to it:

- what was acked is there, once, in order, at its offset, byte for byte; so is what a reader saw;
- a batch that was not acked is there whole, or not at all, and never comes back later;
- nothing is there that nobody wrote; every offset between start and end is there;
- topics are there when their creation was acked, and gone when their deletion was;
- indexes agree with their logs.
"""

import asyncio
import contextlib
import copy
import random

from goqueue.broker import Broker, Partition
from goqueue.model import batch as batches
from goqueue.model.compression import Codec
from goqueue.model.config import Config, StorageConfig, TopicsConfig
from goqueue.model.errors import GoQueueError, OffsetOutOfRange
from goqueue.model.ids import Offset
from goqueue.model.record import Record
from goqueue.runtime import Clock, Environment
from tests.unit.log.logs import check_indexes

CONFIG = Config(
    data_dir="/data",
    topics=TopicsConfig(settings={"segment.bytes": "1500", "index.interval.bytes": "200"}),
    storage=StorageConfig(checkpoint_ms=40, retention_check_ms=60, free_bytes_min=0),
)
KINDS: tuple[dict[str, str], ...] = (  # of topics, by their settings
    {},
    {"retention.bytes": "4000"},
    {"retention.ms": "100", "message.timestamp.type": "LogAppendTime"},
    {"flush": "interval", "flush.ms": "20"},
    {"flush": "never"},
    {"segment.ms": "30"},
    {"segment.bytes": "30000", "index.interval.bytes": "4096"},
)
NAMES = ("a", "b", "c")
PARTITIONS_MAX = 3


class Batch:
    """What one append attempted."""

    def __init__(self, values: list[bytes]) -> None:
        self.values = values
        self.offset: int | None = None  # once it was told


class Book:
    """What is known of one partition."""

    def __init__(self) -> None:
        self.open: dict[bytes, Batch] = {}  # by their first value: may be there or not
        self.safe: dict[int, bytes] = {}  # by offset: was acked or seen, and must be there
        self.start_promised = 0
        self.start_attempted = 0

    def promise(self, batch: Batch) -> None:
        assert batch.offset is not None
        self.open.pop(batch.values[0], None)
        for index, value in enumerate(batch.values):
            self.saw(batch.offset + index, value)

    def saw(self, offset: int, value: bytes) -> None:
        assert self.safe.setdefault(offset, value) == value, f"offset {offset} has two values"


class TopicBook:
    def __init__(self, name: str, settings: dict[str, str]) -> None:
        self.name = name
        self.settings = settings
        self.partitions = 1
        self.partitions_attempted = 1
        self.state = "creating"  # then "there", "deleting", "gone"
        self.books = [Book() for _ in range(PARTITIONS_MAX)]

    @property
    def is_durable(self) -> bool:
        return "flush" not in self.settings

    @property
    def has_retention(self) -> bool:
        return any(name.startswith("retention") for name in self.settings)


class Ledger:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.topics: dict[str, TopicBook] = {}
        self.lives = 0
        self.last_steps = 0  # after so many a life comes to its end by itself
        self.checks = 0
        self.acked = 0
        self._number = 0

    def copy(self) -> "Ledger":
        """As it is now; what goes on changes only this one."""
        return copy.deepcopy(self)

    async def live(self, environment: Environment) -> None:
        """A process: check what was promised before, then promise more until it dies."""
        self.lives += 1
        async with Broker(environment, CONFIG).running() as broker:
            await self.check(broker)
            if self.last_steps:
                await self.work(broker, self.last_steps)
                return
            async with asyncio.TaskGroup() as tasks:
                for _ in range(3):
                    tasks.create_task(self._write(broker))
                tasks.create_task(self._read(broker))
                tasks.create_task(self._administrate(broker))

    async def work(self, broker: Broker, steps: int) -> None:
        """A little of everything, one thing after the other."""
        await self._create(broker)
        for _ in range(steps):
            await self._pause(broker.environment.clock)
            action = self.chance.choice(
                (*[self._write_once] * 5, self._read_once, self._administrate_once)
            )
            with contextlib.suppress(GoQueueError):
                await action(broker)

    # --- what goes on -----------------------------------------------------------------------------

    async def _write(self, broker: Broker) -> None:
        while True:
            await self._pause(broker.environment.clock)
            with contextlib.suppress(GoQueueError):
                await self._write_once(broker)

    async def _read(self, broker: Broker) -> None:
        while True:
            await self._pause(broker.environment.clock)
            with contextlib.suppress(GoQueueError):
                await self._read_once(broker)

    async def _administrate(self, broker: Broker) -> None:
        while True:
            await self._pause(broker.environment.clock)
            with contextlib.suppress(GoQueueError):
                await self._administrate_once(broker)

    async def _pause(self, clock: Clock) -> None:
        await clock.sleep(self.chance.choice((0, 0.0005, 0.005)))

    async def _write_once(self, broker: Broker) -> None:
        topic = self._some_topic()
        if topic is None:
            return
        index = self.chance.randrange(topic.partitions)
        partition = await broker.partition(topic.name, index)
        if self.topics.get(topic.name) is not topic:
            return
        batch = Batch([self._value() for _ in range(self.chance.randint(1, 4))])
        book = topic.books[index]
        book.open[batch.values[0]] = batch
        appended = broker.append(partition, self._encode(broker, batch))
        batch.offset = appended.first_offset
        if self.chance.random() < 0.7:  # acks=all
            await partition.wait_committed(appended.last_offset)
            if topic.is_durable:
                book.promise(batch)
                self.acked += 1

    async def _read_once(self, broker: Broker) -> None:
        topic = self._some_topic()
        if topic is None:
            return
        index = self.chance.randrange(topic.partitions)
        partition = await broker.partition(topic.name, index)
        log = partition.log
        offset = Offset(self.chance.randint(log.start_offset, log.high_watermark))
        chunk = await partition.read(offset, 2000, log.high_watermark)
        if self.topics.get(topic.name) is not topic or topic.state != "there":
            return
        for record in batches.decode_all(chunk.data):
            assert record.value is not None
            if topic.is_durable:
                topic.books[index].saw(record.offset, record.value)

    async def _administrate_once(self, broker: Broker) -> None:
        action = self.chance.choice(
            (self._create, self._create, self._delete, self._grow, self._delete_records)
        )
        await action(broker)

    async def _create(self, broker: Broker) -> None:
        name = self.chance.choice(NAMES)
        if name in self.topics and self.topics[name].state != "gone":
            return
        topic = self.topics[name] = TopicBook(name, dict(self.chance.choice(KINDS)))
        await broker.create_topic(name, partitions=1, settings=topic.settings)
        topic.state = "there"

    async def _delete(self, broker: Broker) -> None:
        topic = self._some_topic()
        if topic is None or self.chance.random() < 0.7:
            return
        topic.state = "deleting"
        await broker.delete_topic(topic.name)
        topic.state = "gone"

    async def _grow(self, broker: Broker) -> None:
        topic = self._some_topic()
        if topic is None or topic.partitions_attempted == PARTITIONS_MAX:
            return
        topic.partitions_attempted += 1
        count = topic.partitions_attempted
        await broker.add_partitions(topic.name, count)
        topic.partitions = max(topic.partitions, count)

    async def _delete_records(self, broker: Broker) -> None:
        topic = self._some_topic()
        if topic is None or self.chance.random() < 0.5:
            return
        index = self.chance.randrange(topic.partitions)
        partition = await broker.partition(topic.name, index)
        await partition.flush()
        book = topic.books[index]
        target = self.chance.randint(partition.log.start_offset, partition.log.high_watermark)
        book.start_attempted = max(book.start_attempted, target)
        await broker.delete_records(partition, Offset(target))
        if topic.is_durable:
            book.start_promised = max(book.start_promised, target)

    def _some_topic(self) -> TopicBook | None:
        there = [topic for topic in self.topics.values() if topic.state == "there"]
        return self.chance.choice(there) if there else None

    def _value(self) -> bytes:
        self._number += 1
        return b"%d." % self._number + b"x" * self.chance.choice((0, 5, 60, 60, 1200))

    def _encode(self, broker: Broker, batch: Batch) -> bytearray:
        now = broker.environment.clock.now()
        records = [Record(0, now, None, value) for value in batch.values]
        return batches.encode(records, codec=self.chance.choice((0, Codec.LZ4)))

    # --- holding it to its word -------------------------------------------------------------------

    async def check(self, broker: Broker) -> None:
        """Also brings the ledger up to date: what was in doubt is known now."""
        there = {str(topic.name): topic for topic in broker.topics()}
        for topic in self.topics.values():
            if topic.state == "there":
                assert topic.name in there, f"topic {topic.name} is lost"
            if topic.state == "gone":
                assert topic.name not in there, f"topic {topic.name} is back"
            topic.state = "there" if topic.name in there else "gone"
            if topic.state == "there":
                found = there[topic.name]
                assert topic.partitions <= found.partitions <= topic.partitions_attempted
                assert found.overrides == topic.settings
                topic.partitions = topic.partitions_attempted = found.partitions
                for index in range(found.partitions):
                    partition = await broker.partition(topic.name, index)
                    await self._check_partition(topic, topic.books[index], partition)
        assert there.keys() <= self.topics.keys()
        self.checks += 1

    async def _check_partition(self, topic: TopicBook, book: Book, partition: Partition) -> None:
        log = partition.log
        assert log.high_watermark == log.end_offset
        values = await _values_in(partition)
        where = f"{partition}: offsets {log.start_offset} to {log.end_offset}"
        self._check_start(topic, book, log.start_offset, where)
        if topic.is_durable:
            assert log.end_offset > max(book.safe, default=-1), (
                f"{where}: promised ones are missing"
            )
        for offset, value in book.safe.items():
            if offset >= log.start_offset and topic.is_durable:
                assert values[offset] == value, f"{where}: {offset} is {values[offset]!r}"
        self._check_open(book, values, log.start_offset, where)
        if not topic.is_durable:
            book.safe.clear()
        book.safe = {o: v for o, v in book.safe.items() if o >= log.start_offset} | values
        book.open.clear()
        book.start_promised = book.start_attempted = log.start_offset
        check_indexes(log)

    def _check_start(self, topic: TopicBook, book: Book, start: int, where: str) -> None:
        assert start >= book.start_promised, f"{where}: deleted ones are back"
        if not topic.has_retention:
            assert start <= book.start_attempted, f"{where}: the first ones are gone"

    def _check_open(self, book: Book, values: dict[int, bytes], start: int, where: str) -> None:
        """What nobody promised may be there, but whole, once, and of somebody's writing."""
        doubtful = {o: v for o, v in values.items() if book.safe.get(o) != v}
        by_value = {
            value: (batch, i)
            for batch in book.open.values()
            for i, value in enumerate(batch.values)
        }
        assert len(set(values.values())) == len(values), f"{where}: something is there twice"
        for offset, value in doubtful.items():
            assert value in by_value, (
                f"{where}: {value!r} at {offset} was not written, or was lost before"
            )
            batch, index = by_value[value]
            for other, expected in enumerate(batch.values):
                at = offset - index + other
                assert at < start or values.get(at) == expected, (
                    f"{where}: half a batch at {offset}"
                )


async def _values_in(partition: Partition) -> dict[int, bytes]:
    """Everything in it, by offset; no offset is missing."""
    log = partition.log
    while True:
        start, offset = log.start_offset, log.start_offset
        found: dict[int, bytes] = {}
        with contextlib.suppress(OffsetOutOfRange):
            while offset < log.high_watermark:
                chunk = await partition.read(offset, 700, log.high_watermark)
                for record in batches.decode_all(chunk.data):
                    assert record.value is not None
                    found[record.offset] = record.value
                offset = chunk.next_offset
        if log.start_offset == start:  # nothing was removed meanwhile
            values = {offset: value for offset, value in found.items() if offset >= start}
            assert list(values) == list(range(start, log.end_offset))
            return values
