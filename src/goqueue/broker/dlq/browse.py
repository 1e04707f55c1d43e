"""Dead letters: browsing, redriving and purging.

They are messages of the topic `{topic}.dlq`; `writer.py` puts them there.  One that was redriven or
purged is recorded as taken and not shown again.  Consumers of that topic may still see it until
retention, or a purge of everything, removes it.
"""

import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import msgspec

from goqueue.broker.barrier import Barrier
from goqueue.broker.dlq.redrive import Redriver, Wanted
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.broker.queues.state import QueueState
from goqueue.broker.services import BrokerServices
from goqueue.broker.storage.partition import Partition
from goqueue.cluster import Topic
from goqueue.model.ids import Offset, TopicName, TopicPartition
from goqueue.model.partitioner import murmur2_partition
from goqueue.model.record import Record
from goqueue.queue.dead_letter import (
    FailureHistory,
    dead_letter_topic,
    original,
    read_failure_history,
    split_by_size,
)
from goqueue.queue.header_fields import header_value
from goqueue.queue.ranges import Ranges, ranges_of

REDRIVEN_AT_ONCE: Final = 500


class DeadLetter(msgspec.Struct, frozen=True):
    """A message in `{topic}.dlq`."""

    topic: str  # where it came from
    partition: int  # of the source and of the dead letters alike
    dlq_offset: Offset  # in `{topic}.dlq`
    record: Record  # as it was: offset, key, value, headers, timestamp
    history: FailureHistory | None  # None for what somebody else put there


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters; what is None does not matter."""

    partition: int | None = None
    dlq_offsets: frozenset[int] | None = None  # with `partition`
    key: bytes | None = None
    reason: str | None = None
    group: str | None = None
    died_from: int | None = None  # epoch ms, included
    died_to: int | None = None  # excluded
    header: tuple[str, bytes] | None = None


class DeadLetters:
    """The verbs; `topic` is always the source topic, not `{topic}.dlq`."""

    def __init__(self, services: BrokerServices, queues: QueueState, redriver: Redriver) -> None:
        self._services = services
        self._queues = queues
        self._redriver = redriver

    async def count(self, topic: str) -> int:
        """How many there are; 0 when the topic never had any."""
        total = 0
        for partition in await self._partitions(topic):
            await partition.flush_visible()
            box = self._queues.dead_letters(partition.topic, partition.index)
            total += box.count(partition.log.start_offset, partition.log.stable_offset)
        return total

    async def list_taken(self, topic: str) -> list[tuple[int, Offset, Ranges]]:
        """Of each partition: the offset below which all were taken out, and what was above it."""
        found: list[tuple[int, Offset, Ranges]] = []
        async with Barrier(self._queues):
            for partition in await self._partitions(topic):
                box = self._queues.dead_letters(partition.topic, partition.index)
                floor = Offset(max(box.floor, partition.log.start_offset))
                found.append((partition.index, floor, tuple(box.taken.ranges)))
        return found

    async def browse(
        self,
        topic: str,
        *,
        which: DeadLetterFilter | None = None,
        limit: int = 100,
        after: tuple[int, int] | None = None,
    ) -> list[DeadLetter]:
        """By partition and offset, after `after` (partition, offset in the DLQ)."""
        found: list[DeadLetter] = []
        async with Barrier(self._queues):
            async for message in self._read_all(topic, which or DeadLetterFilter(), after):
                if len(found) >= limit:
                    break
                found.append(message)
        return found

    async def redrive(
        self,
        topic: str,
        *,
        which: DeadLetterFilter | None = None,
        limit: int | None = None,
        target: str | None = None,
        rate: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Put them back as they were: to the source, or to topic `target`; gives how many.

        At most `rate` a second; `progress` is called with how many are done.  Each is moved once,
        also when the broker crashes in between: the next start finishes it.  Messages that are
        dead-lettered again meanwhile stay where they are.
        """
        moved = 0
        some: list[DeadLetter] = []
        at_once = REDRIVEN_AT_ONCE if rate is None else max(1, min(REDRIVEN_AT_ONCE, int(rate / 4)))
        async for message in self._read_all(topic, which or DeadLetterFilter()):
            if limit is not None and moved + len(some) >= limit:
                break
            if some and (len(some) >= at_once or some[-1].partition != message.partition):
                moved += await self._move(some, target, rate, moved, progress)
                some = []
            some.append(message)
        return moved + await self._move(some, target, rate, moved, progress)

    async def purge(self, topic: str, *, which: DeadLetterFilter | None = None) -> int:
        """Delete them; gives how many."""
        count = 0
        if which is not None and which != DeadLetterFilter():
            messages = await self.browse(topic, which=which, limit=2**62)
            for index in sorted({message.partition for message in messages}):
                mine = [message for message in messages if message.partition == index]
                await self._note_taken(mine)
            return len(messages)
        for partition in await self._partitions(topic):
            await partition.flush_visible()
            name, index, end = (
                TopicName(partition.topic),
                partition.index,
                partition.log.stable_offset,
            )
            box = self._queues.dead_letters(name, index)
            count += box.count(partition.log.start_offset, end)
            await self._take(name, index, (), end)
            await self._services.delete_records(partition, end)
        return count

    # --- reading ----------------------------------------------------------------------------------

    async def _partitions(self, topic: str) -> list[Partition]:
        name = dead_letter_topic(topic)
        if not self._services.has_topic(name):
            self._services.topic(topic)  # or there is no such topic
            return []
        count = self._services.topic(name).partitions
        return [await self._services.partition(name, index) for index in range(count)]

    async def _read_all(
        self, topic: str, which: DeadLetterFilter, after: tuple[int, int] | None = None
    ) -> AsyncIterator[DeadLetter]:
        for partition in await self._partitions(topic):
            if which.partition not in (None, partition.index):
                continue
            if after is not None and partition.index < after[0]:
                continue
            first = after[1] + 1 if after is not None and partition.index == after[0] else 0
            async for message in self._read_partition(partition, topic, first):
                if _matches(message, which):
                    yield message

    async def _read_partition(
        self, partition: Partition, topic: str, first: int
    ) -> AsyncIterator[DeadLetter]:
        await partition.flush_visible()
        reader = PartitionReader(partition)
        end = reader.limit  # what comes later is for the next one who asks
        name, index = TopicName(partition.topic), partition.index
        offset = max(first, self._queues.dead_letters(name, index).floor)
        while blocks := await reader.read_blocks(offset):
            offset = blocks[-1].next_offset
            for record in [record for block in blocks for record in block.records]:
                if record.offset >= end:
                    return
                if self._queues.dead_letters(name, index).is_free(record.offset):
                    yield _to_message(record, topic, index)

    # --- moving -----------------------------------------------------------------------------------

    async def _move(
        self,
        messages: Sequence[DeadLetter],
        target: str | None,
        rate: float | None,
        moved: int,
        progress: Callable[[int], None] | None,
    ) -> int:
        """Some dead letters of one partition, in order."""
        if not messages:
            return 0
        wanted = []
        for some, topic in _by_topic(messages, target):
            wanted += await self._batches(some, self._services.topic(topic))
        dead_letters = TopicName(dead_letter_topic(messages[0].topic))
        place = TopicPartition(dead_letters, messages[0].partition)
        count = await self._redriver.move(place, wanted)
        if progress is not None:
            progress(moved + count)
        if rate is not None:
            await self._services.environment.clock.sleep(count / rate)
        return count

    async def _batches(self, messages: Sequence[DeadLetter], topic: Topic) -> list[Wanted]:
        by_partition: dict[int, list[DeadLetter]] = {}
        for message in messages:
            by_partition.setdefault(_target_partition(message, topic), []).append(message)
        found = []
        for index, some in by_partition.items():
            target = await self._services.partition(topic.name, index)
            rest = iter(some)
            runs = split_by_size([each.record for each in some], topic.settings.max_message_bytes)
            for run in runs:
                mine = itertools.islice(rest, len(run))
                found.append(Wanted({each.dlq_offset: each.record for each in mine}, target))
        return found

    async def _note_taken(self, messages: Sequence[DeadLetter]) -> None:
        name = TopicName(dead_letter_topic(messages[0].topic))
        index = messages[0].partition
        start = (await self._services.partition(name, index)).log.start_offset
        ranges = ranges_of(sorted(message.dlq_offset for message in messages))
        await self._take(name, index, ranges, start)

    async def _take(self, name: TopicName, index: int, ranges: Ranges, floor: Offset) -> None:
        ledger = await self._queues.ledger(self._services.topic(name), index)
        await ledger.submit(lambda machine: machine.remove_dead_letters(ranges, floor))


def _to_message(record: Record, topic: str, index: int) -> DeadLetter:
    history = read_failure_history(record)
    own = original(record)
    if history is not None:
        own = msgspec.structs.replace(own, offset=history.offset)
    return DeadLetter(topic, index, Offset(record.offset), own, history)


def _matches(message: DeadLetter, which: DeadLetterFilter) -> bool:
    history = message.history
    if which.dlq_offsets is not None and message.dlq_offset not in which.dlq_offsets:
        return False
    if which.key is not None and message.record.key != which.key:
        return False
    if which.header is not None:
        name, value = which.header
        if header_value(message.record, name) != value:
            return False
    if which.reason is None and which.group is None and which.died_from is which.died_to is None:
        return True
    return (
        history is not None
        and which.reason in (None, history.reason)
        and which.group in (None, history.group_id)
        and (which.died_from is None or history.died_at >= which.died_from)
        and (which.died_to is None or history.died_at < which.died_to)
    )


def _by_topic(
    messages: Sequence[DeadLetter], target: str | None
) -> list[tuple[list[DeadLetter], str]]:
    found: dict[str, list[DeadLetter]] = {}
    for message in messages:
        source = message.history.topic if message.history is not None else message.topic
        found.setdefault(target or source, []).append(message)
    return [(some, topic) for topic, some in found.items()]


def _target_partition(message: DeadLetter, topic: Topic) -> int:
    """Where it was; in another topic, where its key belongs."""
    if topic.name == message.topic and topic.has_partition(message.partition):
        return message.partition
    if message.record.key is not None:
        return murmur2_partition(message.record.key, topic.partitions)
    return message.partition % topic.partitions
