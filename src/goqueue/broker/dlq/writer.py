"""Writes dead messages to `{topic}.dlq`, each exactly once, also across crashes.

    MarkedDead ── DeadLettersPlanned, durable ──> append, durable ──> DeadLettered
                       ^                             │
                       └── not written: plan anew ───┴── after a crash or an error: was it written?

The ledger of a partition is an idempotent producer: a plan names the batch by producer id, epoch
and sequence, and the partition of dead letters knows what the last one was that it got.  So it is
known after a crash whether a planned batch is there, without looking for it.  Whoever takes the
ledger over, after a restart or as its new leader, goes on with a new epoch of the producer: what
the one before may still send is refused.

A message that cannot be written is neither delivered nor lost: `unwritten` lists it, and the write
is tried again with growing delays, and whenever a topic is changed.
"""

import asyncio
import itertools
import weakref
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec
import structlog

from goqueue.broker.dlq.target import Target, TargetElsewhere, TargetHere
from goqueue.broker.dlq.topic import ensure_dead_letter_topic
from goqueue.broker.queues.ledgers import Ledger
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.broker.queues.state import QueueState
from goqueue.broker.services import BrokerServices
from goqueue.broker.storage.partition import Partition
from goqueue.cluster.controller import owner_id
from goqueue.model.errors import (
    GoQueueError,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    TopicNotFound,
)
from goqueue.model.ids import PRODUCER_EPOCH_MAX, Offset, TopicName
from goqueue.model.record import Record
from goqueue.queue import DeadMessage, PartitionState, Where
from goqueue.queue.dead_letter import (
    dead_letter_id,
    dead_letter_topic,
    encode_batch,
    read_failure_history,
    split_by_size,
    to_dead_letter,
)
from goqueue.queue.ranges import each_offset

WRITE_MESSAGES_MAX: Final = 100
SEQUENCE_MAX: Final = 2**31 - 1
NOWHERE: Final = Offset(0)  # the end of what was not written
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
        # Those that this task planned for: their producer's epoch is its own.
        self._own: weakref.WeakSet[Ledger] = weakref.WeakSet()
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

    async def _write_some(self, state: PartitionState, dead: Sequence[DeadMessage]) -> None:
        where, ledger = state.where, self._queues.ledger_of(state)
        if ledger is None:
            return  # the topic is deleted, the group, or another node leads
        await self._finish_plan(ledger)
        messages = {int(each.offset): each for each in dead if each.offset in state.dead}
        records = await self._records(state, list(messages.values()))
        name = TopicName(dead_letter_topic(where.topic))
        await self._note(ledger, where, messages.keys() - records.keys(), name)
        if not records:
            return
        target = await self._target(where, name)
        if ledger.ahead.dead_letter_plan is None and isinstance(target, TargetHere):
            await self._take_over(ledger, where, target.partition, records)
        tenant_id = owner_id(self._services.metadata, where.topic)
        found = {
            offset: to_dead_letter(where, messages[offset], record, tenant_id)
            for offset, record in sorted(records.items())
        }
        for some in _runs(found, self._services.topic(name).settings.max_message_bytes):
            await self._write(ledger, where, target, some)

    async def _note(
        self,
        ledger: Ledger,
        where: Where,
        offsets: Collection[int],
        topic: str,
        end: Offset = NOWHERE,
    ) -> None:
        """They are among the dead letters, durably, or gone."""
        if offsets:
            name = TopicName(topic)
            await ledger.submit(lambda machine: machine.dead_letter(where, offsets, name, end))

    async def _finish_plan(self, ledger: Ledger) -> None:
        """Note the last batch if it was written; if not, what is in it is planned anew."""
        plan = ledger.ahead.dead_letter_plan
        if plan is None or not plan.ranges:
            return
        if plan.where.group_id not in ledger.ahead.states:
            self._own.discard(ledger)  # nobody asks any more: begin with a new epoch
            return
        target = await self._target(plan.where, plan.dead_letter_topic)
        end = await target.find_end(plan)
        if end is not None:
            offsets = list(each_offset(plan.ranges))
            await self._note(ledger, plan.where, offsets, target.topic, end)

    async def _write(
        self, ledger: Ledger, where: Where, target: Target, records: dict[int, Record]
    ) -> None:
        """One batch of dead letters, by the messages' offsets: planned, appended and noted."""
        topic, producer = TopicName(target.topic), await self._next_producer(ledger)
        await ledger.submit(
            lambda machine: machine.plan_dead_letters(where, records, topic, producer)
        )
        self._own.add(ledger)
        data = encode_batch(list(records.values()), self._clock.now(), producer)
        try:
            last = await target.append(data)
        except (OutOfOrderSequence, InvalidProducerEpoch):  # the target lost its end, say
            self._own.discard(ledger)
            raise
        await self._note(ledger, where, records.keys(), topic, Offset(last + 1))

    async def _next_producer(self, ledger: Ledger) -> tuple[int, int, int]:
        """Producer id, epoch and sequence of the ledger's next batch."""
        plan, sequence = ledger.ahead.dead_letter_plan, ledger.ahead.dead_letter_sequence
        if plan is None or plan.producer_epoch >= PRODUCER_EPOCH_MAX - 1:
            return await self._services.reserve_producer_id(), 0, 0
        if ledger in self._own and sequence < SEQUENCE_MAX - WRITE_MESSAGES_MAX:
            return plan.producer_id, plan.producer_epoch, sequence
        return plan.producer_id, plan.producer_epoch + 1, 0

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

    async def _target(self, where: Where, name: TopicName) -> Target:
        source = self._services.topic(where.topic)
        topic = await ensure_dead_letter_topic(self._services, name, source, where.partition)
        others = self._services.others
        if others is not None:
            leader = others.leader(topic, where.partition)
            if leader != others.node_id:
                return TargetElsewhere(others, leader, topic, where.partition)
        partition = await self._services.partition(name, where.partition)
        return TargetHere(partition, self._clock)

    async def _take_over(
        self, ledger: Ledger, where: Where, target: Partition, records: dict[int, Record]
    ) -> None:
        """Leave out of `records` what a former version wrote and did not note.

        It had no producer: the ids of dead letters behind all noted ones tell.  A ledger does so
        until its first plan.
        """
        await target.flush_visible()
        written = await self._read_written_ids(target, ledger.ahead.dead_letters_end)
        found = [offset for offset in records if dead_letter_id(where, offset) in written]
        await self._note(ledger, where, found, target.topic, target.log.end_offset)
        for offset in found:
            del records[offset]

    async def _read_written_ids(self, target: Partition, noted_end: Offset) -> set[str]:
        """The ids of dead letters that were written and are not recorded as such."""
        reader = PartitionReader(target)
        offset = int(noted_end) if noted_end <= reader.limit else 0
        found: set[str] = set()
        while blocks := await reader.read_blocks(offset):
            offset = blocks[-1].next_offset
            for block in blocks:
                histories = (read_failure_history(each, target.topic) for each in block.records)
                found.update(each.dead_letter_id for each in histories if each is not None)
        return found


def _runs(records: dict[int, Record], bytes_max: int) -> Iterator[dict[int, Record]]:
    """Those that fit into a batch."""
    rest = iter(records.items())
    for some in split_by_size(list(records.values()), bytes_max):
        if some:
            yield dict(itertools.islice(rest, len(some)))


def _slices(messages: Sequence[DeadMessage]) -> Iterator[Sequence[DeadMessage]]:
    for start in range(0, len(messages), WRITE_MESSAGES_MAX):
        yield messages[start : start + WRITE_MESSAGES_MAX]
