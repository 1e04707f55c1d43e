"""The dead letters of one partition, at the node that leads it: look, redrive, purge.

Each is a verb that any node may ask for.  What may be long is done in steps: an answer tells where
the next step begins.
"""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from goqueue.broker.barrier import Barrier
from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.dlq.move_target import move_target
from goqueue.broker.dlq.redrive import Redriver, Wanted
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.broker.queues.state import QueueState
from goqueue.broker.services import BrokerServices
from goqueue.broker.storage.partition import Partition
from goqueue.cluster import Topic
from goqueue.model.ids import NodeId, Offset, TopicName, TopicPartition
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
SCANNED_AT_ONCE: Final = 20_000  # dead letters that are read in one step
STEP_BYTES_MAX: Final = 4 * 1024 * 1024  # of dead letters in one answer

ReplyT = TypeVar("ReplyT")


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


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look in the partition of dead letters."""

    first: Offset = Offset(0)
    end: Offset | None = None  # None: as it is now; what comes later is for the next one who asks

    @property
    def is_over(self) -> bool:
        return self.end is not None and self.first >= self.end


class DeadLetterPage(msgspec.Struct, frozen=True):
    messages: list[DeadLetter]
    rest: Step


class Redriven(msgspec.Struct, frozen=True):
    moved: int
    rest: Step


class CountDeadLetters(Verb[int], frozen=True):
    name = "count_dead_letters"
    reply_type = int

    topic: str
    partition: int


class ListTaken(Verb[tuple[Offset, Ranges]], frozen=True):
    """The offset below which all were taken out, and what was above it."""

    name = "taken_dead_letters"
    reply_type = tuple[Offset, Ranges]

    topic: str
    partition: int


class ReadDeadLetters(Verb[DeadLetterPage], frozen=True):
    name = "read_dead_letters"
    reply_type = DeadLetterPage

    topic: str
    partition: int
    which: DeadLetterFilter
    step: Step
    limit: int


class RedriveDeadLetters(Verb[Redriven], frozen=True):
    name = "redrive_dead_letters"
    reply_type = Redriven

    topic: str
    partition: int
    which: DeadLetterFilter
    step: Step
    limit: int
    target: str | None


class PurgeDeadLetters(Verb[int], frozen=True):
    name = "purge_dead_letters"
    reply_type = int

    topic: str
    partition: int
    which: DeadLetterFilter


class PartitionDeadLetters:
    """`topic` is always the source topic, not `{topic}.dlq`."""

    def __init__(self, services: BrokerServices, queues: QueueState, redriver: Redriver) -> None:
        self._services = services
        self._queues = queues
        self._redriver = redriver
        self._verbs: dict[type[Verb[Any]], Callable[[NodeId, Any], Awaitable[object]]] = {
            CountDeadLetters: self._count,
            ListTaken: self._list_taken,
            ReadDeadLetters: self._read,
            RedriveDeadLetters: self._redrive,
            PurgeDeadLetters: self._purge,
        }

    def serve(self, others: OtherNodes) -> None:
        for verb, carry_out in self._verbs.items():
            others.serve(verb, carry_out)

    async def carry_out(self, verb: Verb[ReplyT]) -> ReplyT:
        """At this node."""
        done: ReplyT = await self._verbs[type(verb)](NodeId(-1), verb)  # type: ignore[assignment] # as it says
        return done

    # --- looking ----------------------------------------------------------------------------------

    async def _count(self, _: NodeId, verb: CountDeadLetters) -> int:
        partition = await self._partition(verb.topic, verb.partition)
        await partition.flush_visible()
        box = self._queues.dead_letters(partition.topic, partition.index)
        return box.count(partition.log.start_offset, partition.log.stable_offset)

    async def _list_taken(self, _: NodeId, verb: ListTaken) -> tuple[Offset, Ranges]:
        async with Barrier(self._queues):
            partition = await self._partition(verb.topic, verb.partition)
            box = self._queues.dead_letters(partition.topic, partition.index)
            floor = Offset(max(box.floor, partition.log.start_offset))
            return floor, tuple(box.taken.ranges)

    async def _read(self, _: NodeId, verb: ReadDeadLetters) -> DeadLetterPage:
        async with Barrier(self._queues):
            partition = await self._partition(verb.topic, verb.partition)
            return await self._read_some(partition, verb.topic, verb.which, verb.step, verb.limit)

    async def _partition(self, topic: str, index: int) -> Partition:
        return await self._services.partition(dead_letter_topic(topic), index)

    async def _read_some(
        self, partition: Partition, topic: str, which: DeadLetterFilter, step: Step, limit: int
    ) -> DeadLetterPage:
        """At most `limit`, and not more than one step's worth."""
        await partition.flush_visible()
        found: list[DeadLetter] = []
        reader = PartitionReader(partition)
        end = reader.limit if step.end is None else step.end
        scanned = size = 0
        async for record in self._read_free(reader, step.first, end):
            if len(found) >= limit or scanned >= SCANNED_AT_ONCE or size >= STEP_BYTES_MAX:
                return DeadLetterPage(found, Step(first=Offset(record.offset), end=end))
            scanned += 1
            message = _to_dead_letter(record, topic, partition.index)
            if _matches(message, which):
                found.append(message)
                size += _size(record)
        return DeadLetterPage(found, Step(first=end, end=end))

    async def _read_free(
        self, reader: PartitionReader, first: int, end: int
    ) -> AsyncIterator[Record]:
        name, index = TopicName(reader.partition.topic), reader.partition.index
        offset = max(first, self._queues.dead_letters(name, index).floor)
        while blocks := await reader.read_blocks(offset):
            offset = blocks[-1].next_offset
            for record in [record for block in blocks for record in block.records]:
                if record.offset >= end:
                    return
                if record.offset < first:
                    continue
                if self._queues.dead_letters(name, index).is_free(record.offset):
                    yield record

    # --- moving -----------------------------------------------------------------------------------

    async def _redrive(self, _: NodeId, verb: RedriveDeadLetters) -> Redriven:
        """Move one step's worth."""
        partition = await self._partition(verb.topic, verb.partition)
        limit = min(verb.limit, REDRIVEN_AT_ONCE)
        page = await self._read_some(partition, verb.topic, verb.which, verb.step, limit)
        return Redriven(await self._move(page.messages, verb.target), page.rest)

    async def _move(self, messages: Sequence[DeadLetter], target: str | None) -> int:
        if not messages:
            return 0
        wanted = []
        for some, topic in _by_topic(messages, target):
            wanted += await self._batches(some, self._services.topic(topic))
        dead_letters = TopicName(dead_letter_topic(messages[0].topic))
        return await self._redriver.move(
            TopicPartition(dead_letters, messages[0].partition), wanted
        )

    async def _batches(self, messages: Sequence[DeadLetter], topic: Topic) -> list[Wanted]:
        by_partition: dict[int, list[DeadLetter]] = {}
        for message in messages:
            by_partition.setdefault(_target_partition(message, topic), []).append(message)
        found = []
        for index, some in by_partition.items():
            target = await move_target(self._services, topic.name, index)
            rest = iter(some)
            runs = split_by_size([each.record for each in some], topic.settings.max_message_bytes)
            for run in runs:
                mine = itertools.islice(rest, len(run))
                found.append(Wanted({each.dlq_offset: each.record for each in mine}, target))
        return found

    # --- purging ----------------------------------------------------------------------------------

    async def _purge(self, _: NodeId, verb: PurgeDeadLetters) -> int:
        partition = await self._partition(verb.topic, verb.partition)
        if verb.which != DeadLetterFilter():
            return await self._purge_some(partition, verb.topic, verb.which)
        await partition.flush_visible()
        end = partition.log.stable_offset
        box = self._queues.dead_letters(partition.topic, partition.index)
        count = box.count(partition.log.start_offset, end)
        await self._take(partition, (), end)
        await self._services.delete_records(partition, end)
        return count

    async def _purge_some(self, partition: Partition, topic: str, which: DeadLetterFilter) -> int:
        count, step = 0, Step()
        while not step.is_over:
            page = await self._read_some(partition, topic, which, step, SCANNED_AT_ONCE)
            step = page.rest
            if page.messages:
                ranges = ranges_of(sorted(each.dlq_offset for each in page.messages))
                await self._take(partition, ranges, partition.log.start_offset)
                count += len(page.messages)
        return count

    async def _take(self, partition: Partition, ranges: Ranges, floor: Offset) -> None:
        topic = self._services.topic(partition.topic)
        ledger = await self._queues.ledger(topic, partition.index)
        await ledger.submit(lambda machine: machine.remove_dead_letters(ranges, floor))


def _to_dead_letter(record: Record, topic: str, index: int) -> DeadLetter:
    history = read_failure_history(record, topic)
    own = original(record)
    if history is not None:
        own = msgspec.structs.replace(own, offset=history.offset)
    return DeadLetter(topic, index, Offset(record.offset), own, history)


def _size(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


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
        found.setdefault(target or _source(message), []).append(message)
    return [(some, topic) for topic, some in found.items()]


def _source(message: DeadLetter) -> str:
    """The topic that it came from.

    Topics whose names are too long for a suffix share one of dead letters, so the headers tell them
    apart.  Beyond that they are not believed: whoever may write to `{topic}.dlq` wrote them, and
    need not be allowed to write to the topic that they name.
    """
    history = message.history
    if history is None or dead_letter_topic(history.topic) != dead_letter_topic(message.topic):
        return message.topic
    return history.topic


def _target_partition(message: DeadLetter, topic: Topic) -> int:
    """Where it was; in another topic, where its key belongs."""
    if topic.name == message.topic and topic.has_partition(message.partition):
        return message.partition
    if message.record.key is not None:
        return murmur2_partition(message.record.key, topic.partitions)
    return message.partition % topic.partitions
