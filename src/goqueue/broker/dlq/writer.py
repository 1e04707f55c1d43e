"""Dead messages go to `{topic}.dlq`, each once, whatever happens in between.

    MarkedDead, durable ──> append to the dead letters, durable ──> DeadLettered
                                  ^
                                  └── after a crash or an error: look what is there already

A message that cannot be written is neither delivered nor lost: `unwritten` lists it, and the write
is tried again with growing delays, and whenever a topic is changed.

One task writes, in order.  So dead letters of a partition that were written and are not recorded as
such come after all recorded ones (`dead_letters_end` of its ledger).  Before it writes, the task
reads the ids from there on, so that no dead letter is written twice.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import structlog

from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.broker.queues.state import QueueState
from goqueue.broker.services import BrokerServices
from goqueue.broker.storage.partition import Partition
from goqueue.model import batch as batches
from goqueue.model.errors import GoQueueError, TopicExists, TopicNotFound
from goqueue.model.ids import Offset, TopicName
from goqueue.model.record import Record
from goqueue.model.settings import HOUR_MS, MESSAGE_BYTES_MAX
from goqueue.queue.dead_letter import (
    dead_letter_id,
    dead_letter_topic,
    encode_batch,
    read_failure_history,
    split_by_size,
    to_dead_letter,
)
from goqueue.queue.partition_state import PartitionState
from goqueue.queue.records import DeadMessage, Where

RETENTION_MS: Final = 336 * HOUR_MS
HISTORY_BYTES_MAX: Final = 64 * 1024  # room for our headers beside the largest message
WRITE_MESSAGES_MAX: Final = 100
RETRY_SECONDS: Final = 1.0  # twice as long after each failure, up to …
RETRY_SECONDS_MAX: Final = 30.0

_log = structlog.get_logger("goqueue.queues")


class UnwrittenDeadLetters(msgspec.Struct, frozen=True):
    """Dead messages of one group in one partition that cannot be written to the dead letters."""

    where: Where
    count: int
    problem: str


class _Failure(msgspec.Struct):
    problem: str
    retry_seconds: float
    retry_at: int  # instant


class DeadLetterWriter:
    def __init__(self, services: BrokerServices, queues: QueueState) -> None:
        self._services = services
        self._clock = services.environment.clock
        self._queues = queues
        self._wanted = asyncio.Event()
        self._sure: set[tuple[str, int]] = set()  # partitions where nothing is written and unnoted
        self._failures: dict[PartitionState, _Failure] = {}

    def wake(self) -> None:
        """There may be messages to write to the dead letters."""
        self._wanted.set()

    def wake_if_due(self) -> None:
        """Messages were settled or chosen: some of them may be dead."""
        if self._queues.table.has_dead:
            self.wake()

    def retry(self) -> None:
        """What failed may work now."""
        for failure in self._failures.values():
            failure.retry_at = 0
        self.wake()

    def unwritten(self) -> list[UnwrittenDeadLetters]:
        return [
            UnwrittenDeadLetters(state.where, len(state.dead), failure.problem)
            for state, failure in self._failures.items()
            if state.dead
        ]

    def problem(self, state: PartitionState) -> str:
        """Why its dead messages are not in the dead letters; empty when nothing is known of it."""
        failure = self._failures.get(state)
        return "" if failure is None else failure.problem

    async def run(self) -> None:
        while True:  # at first for what a crash interrupted
            self._wanted.clear()
            await self.write_all()
            await self._wait()

    async def _wait(self) -> None:
        seconds = None
        if self._failures:
            retry_at = min(failure.retry_at for failure in self._failures.values())
            seconds = max(0.0, (retry_at - self._clock.instant()) / 1e9)
        try:
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def write_all(self) -> None:
        """Write all messages that are dead by now, but for those whose write failed just now."""
        dead = self._queues.table.dead()
        known = {state for state, _ in dead}
        self._failures = {each: why for each, why in self._failures.items() if each in known}
        for state, messages in dead:
            failure = self._failures.get(state)
            if failure is not None and failure.retry_at > self._clock.instant():
                continue
            try:
                for some in _slices(messages):
                    await self._write_some(state, some)
            except GoQueueError as error:
                self._note_failure(state, str(error))
            else:
                self._note_success(state)

    def _note_failure(self, state: PartitionState, problem: str) -> None:
        where, before = state.where, self._failures.get(state)
        self._sure.discard((dead_letter_topic(where.topic), where.partition))
        seconds = RETRY_SECONDS
        if before is not None:
            seconds = min(2 * before.retry_seconds, RETRY_SECONDS_MAX)
        retry_at = self._clock.instant() + int(seconds * 1e9)
        self._failures[state] = _Failure(problem, seconds, retry_at)
        if before is None or before.problem != problem:  # once: it may go on for days
            _log.error(
                "dead letters not written yet",
                group=where.group_id,
                topic=where.topic,
                partition=where.partition,
                count=len(state.dead),
                problem=problem,
            )

    def _note_success(self, state: PartitionState) -> None:
        if self._failures.pop(state, None) is not None:
            where = state.where
            _log.info("dead letters written", topic=where.topic, partition=where.partition)

    async def _write_some(self, state: PartitionState, messages: Sequence[DeadMessage]) -> None:
        where, ledger = state.where, self._queues.ledger_of(state)
        if ledger is None:
            return  # the topic is deleted, or the group
        await ledger.settled()  # or a crash would deliver the message again
        records = await self._records(state, messages)
        topic = TopicName(dead_letter_topic(where.topic))
        end = Offset(0)
        if records:
            target = await self._target(where, topic)
            end = await self._write(target, ledger.ahead.dead_letters_end, where, messages, records)
        await ledger.submit(
            lambda machine: machine.dead_letter(
                where, [each.offset for each in messages], topic, end
            )
        )

    async def _records(
        self, state: PartitionState, messages: Sequence[DeadMessage]
    ) -> dict[int, Record]:
        """The messages themselves, as far as they are still there."""
        where = state.where
        try:
            source = await self._services.partition(where.topic, where.partition)
        except TopicNotFound:
            return {}
        if source.topic_id != state.topic_id:
            return {}
        reader = PartitionReader(source, committed_only=False)  # whatever was delivered is there
        found = await reader.find(sorted(message.offset for message in messages))
        if len(found) < len(messages):
            _log.warning(
                "dead messages are gone from the log",
                topic=where.topic,
                partition=where.partition,
                count=len(messages) - len(found),
            )
        return found

    async def _target(self, where: Where, name: TopicName) -> Partition:
        source = self._services.topic(where.topic)
        if not self._services.has_topic(name):
            bytes_max = source.settings.max_message_bytes + HISTORY_BYTES_MAX
            bytes_max = min(bytes_max, MESSAGE_BYTES_MAX)
            settings = {"retention.ms": str(RETENTION_MS), "max.message.bytes": str(bytes_max)}
            with contextlib.suppress(TopicExists):  # made by somebody else just now
                await self._services.create_topic(
                    name, partitions=source.partitions, settings=settings, may_look_alike=True
                )
        if not self._services.topic(name).has_partition(where.partition):
            await self._services.add_partitions(name, source.partitions)
        return await self._services.partition(name, where.partition)

    async def _write(
        self,
        target: Partition,
        noted_end: Offset,
        where: Where,
        messages: Sequence[DeadMessage],
        records: dict[int, Record],
    ) -> Offset:
        """Append those that are not there yet; gives the offset behind all of them, durable."""
        place = (target.topic, target.index)
        written: set[str] = set()
        if place not in self._sure:
            await target.flush_visible()
            written = await self._read_written_ids(target, noted_end)
        missing = [
            to_dead_letter(where, message, records[message.offset])
            for message in messages
            if message.offset in records and dead_letter_id(where, message.offset) not in written
        ]
        end = target.log.end_offset
        if missing:
            self._sure.discard(place)  # until that is durable
            last = self._append(target, missing)
            await target.committed(last)
            end = Offset(last + 1)
        self._sure.add(place)
        return end

    def _append(self, target: Partition, messages: list[Record]) -> Offset:
        target.check_enough_replicas()
        now = self._clock.now()
        last = Offset(-1)
        for some in split_by_size(messages, target.log.settings.max_message_bytes):
            data = encode_batch(some, now)
            last = target.append(data, batches.verified_headers(data), now).last_offset
        return last

    async def _read_written_ids(self, target: Partition, noted_end: Offset) -> set[str]:
        """The ids of dead letters that were written and are not recorded as such."""
        reader = PartitionReader(target)
        offset = int(noted_end) if noted_end <= reader.limit else 0
        found: set[str] = set()
        while blocks := await reader.read_blocks(offset):
            offset = blocks[-1].next_offset
            for block in blocks:
                histories = map(read_failure_history, block.records)
                found.update(each.dead_letter_id for each in histories if each is not None)
        return found


def _slices(messages: Sequence[DeadMessage]) -> Iterator[Sequence[DeadMessage]]:
    for start in range(0, len(messages), WRITE_MESSAGES_MAX):
        yield messages[start : start + WRITE_MESSAGES_MAX]
