"""Moves dead letters to another topic, each exactly once, also across crashes.

    RedriveStarted, durable ──> append to the target, durable ──> DeadLettersRemoved
                                      ^
                                      └── after a crash: is the batch there already?

Each move is one batch, with a producer id and epoch that no other batch has.  So after a crash, or
when the target's leader did not answer, the headers after the target's end at the time of the
decision tell whether the batch was written (`move_target`).  The messages themselves are not
changed.  The leader of the dead letters does all moves, in one task: the caller may go away, and
whoever leads them next goes on.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import structlog

from goqueue.broker.dlq.move_target import MoveTarget, move_target
from goqueue.broker.machine_host import Committed
from goqueue.broker.queues.ledgers import Ledger
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.broker.queues.state import QueueState
from goqueue.broker.services import BrokerServices
from goqueue.broker.traces.moved_events import note_redriven
from goqueue.model.errors import (
    GoQueueError,
    InvalidProducerEpoch,
    LeadershipLost,
    ShuttingDown,
    TimedOut,
    TopicNotFound,
    Uncertain,
)
from goqueue.model.ids import PRODUCER_EPOCH_MAX, Offset, TopicId, TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.queue import Move
from goqueue.queue.dead_letter import encode_batch, original
from goqueue.queue.ranges import Ranges, each_offset, ranges_of

RETRY_SECONDS: Final = 1.0
# The batch may be in the target, now or later: nobody said so.
MAYBE_WRITTEN: Final = (Uncertain, LeadershipLost, TimedOut)
# It is not, and never will be.
NEVER_WRITTEN: Final = (TopicNotFound, InvalidProducerEpoch)

_log = structlog.get_logger("goqueue.queues")


class Wanted(msgspec.Struct, frozen=True):
    """Some dead letters of one partition, which fit into one batch of the target."""

    messages: dict[int, Record]  # by the offset of the dead letter, ascending; as they were
    target: MoveTarget


class Job:
    """Moves of one partition of dead letters that were decided together."""

    def __init__(
        self,
        place: TopicPartition,
        topic_id: TopicId,
        moves: Sequence[Move],
        messages: Mapping[int, Record] | None = None,
    ) -> None:
        self.place = place
        self.topic_id = topic_id  # of the dead letters
        self.messages = messages  # None: after a restart they are read again
        self.waiting = list(moves)
        # Those that may have been written: after a crash, or when it was not told.
        self.uncertain = set(moves if messages is None else ())
        self.written: list[tuple[Move, Committed]] = []
        self.kept: list[Move] = []
        self.refusal: GoQueueError | None = None
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_mark_retrieved)

    def forget_others(self, moves: Iterable[Move]) -> None:
        """Those that are under way are given; another leader may have ended some of this job's."""
        known = {(move.producer_id, move.producer_epoch) for move in moves}
        self.waiting = [
            move for move in self.waiting if (move.producer_id, move.producer_epoch) in known
        ]

    def end(self, error: GoQueueError | None = None) -> None:
        if self.done.done():
            return
        if error is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(_count(move for move, _ in self.written))


class Redriver:
    def __init__(self, services: BrokerServices, queues: QueueState) -> None:
        self._services = services
        self._queues = queues
        self._clock = services.environment.clock
        self._jobs: list[Job] = []
        self._wanted = asyncio.Event()
        self._deciding = asyncio.Lock()
        self._producer_id = -1
        self._epoch = PRODUCER_EPOCH_MAX

    def inherit(self, ledgers: Iterable[Ledger]) -> None:
        """What a crash, or the leader before, left undone, in the order it was decided in."""
        pending = [
            (move.producer_id, move.producer_epoch, place, move)
            for ledger in ledgers
            for place in (TopicPartition(ledger.ahead.topic, ledger.ahead.partition),)
            for move in ledger.ahead.dead_letters.moves
        ]
        for *_, place, move in sorted(pending, key=lambda each: each[:2]):
            if self._services.has_topic(place[0]):
                self._jobs.append(Job(place, self._services.topic(place[0]).topic_id, [move]))
        self._wanted.set()

    async def move(self, place: TopicPartition, wanted: Sequence[Wanted]) -> int:
        """Have them moved; gives how many were, once that is durable.  Raises the first refusal."""
        topic, partition = place
        async with self._deciding:  # epochs are written in their order
            moves = [await self._plan_move(each) for each in wanted]
            ledger = await self._queues.ledger(self._services.topic(topic), partition)
            moving, _ = ledger.submit_now(lambda machine: machine.start_redrive(moves))
            if not moving:
                return 0
            messages = {offset: each for one in wanted for offset, each in one.messages.items()}
            job = Job(place, self._services.topic(topic).topic_id, moving, messages)
            self._jobs.append(job)
            self._wanted.set()
        return await asyncio.shield(job.done)

    async def _plan_move(self, wanted: Wanted) -> Move:
        producer_id, epoch = await self._next_producer()
        target = wanted.target
        return Move(
            ranges_of(wanted.messages),
            TopicName(target.topic),
            target.topic_id,
            target.index,
            producer_id,
            epoch,
            await target.find_end(),
        )

    async def _next_producer(self) -> tuple[int, int]:
        """Never the same twice; an epoch is enough, as long as there are any."""
        if self._epoch >= PRODUCER_EPOCH_MAX - 1:
            self._producer_id = await self._services.reserve_producer_id()
            self._epoch = -1
        self._epoch += 1
        return self._producer_id, self._epoch

    # --- carrying out -----------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            self._wanted.clear()
            for job in list(self._jobs):
                if await self._is_over(job):
                    self._jobs.remove(job)
            try:
                async with asyncio.timeout(RETRY_SECONDS if self._jobs else None):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    def stop(self) -> None:
        """What is not over yet is carried out after the next start."""
        for job in self._jobs:
            job.end(ShuttingDown("this broker is shutting down"))

    async def _is_over(self, job: Job) -> bool:
        try:
            await self._carry_out(job)
        except GoQueueError as error:
            _log.error("dead letters not moved yet", topic=job.place[0], problem=str(error))
            job.end(error)
            # Whoever leads that partition now goes on with it.
            return self._queues.ledgers.refusal(*job.place) is not None
        job.end(job.refusal)
        return True

    async def _carry_out(self, job: Job) -> None:
        ledger = self._queues.ledgers.find(*job.place)
        refusal = self._queues.ledgers.refusal(*job.place) if ledger is None else None
        if refusal is not None:
            raise refusal
        if ledger is not None:
            await ledger.wait_settled()  # nothing is moved that a crash leaves where it was
            job.forget_others(ledger.ahead.dead_letters.moves)
        while job.waiting:
            move = job.waiting[0]
            try:
                job.written.append((move, await self._write(job, move)))
            except ShuttingDown:
                raise
            except GoQueueError as error:
                if isinstance(error, MAYBE_WRITTEN):
                    job.uncertain.add(move)
                if move in job.uncertain and not isinstance(error, NEVER_WRITTEN):
                    raise  # it is looked for before it is written again
                job.kept.append(move)
                job.refusal = job.refusal or error
            job.waiting.pop(0)
        await self._wait_written(job)
        await self._note(job)

    async def _wait_written(self, job: Job) -> None:
        """Return when all of it is durable; what is not known to be is looked for next time."""
        for place, (move, committed) in enumerate(job.written):
            if committed is None:
                continue
            try:
                await asyncio.shield(committed)
            except GoQueueError:
                job.waiting = [move for move, _ in job.written[place:]]
                job.uncertain.update(job.waiting)
                del job.written[place:]
                raise
            job.written[place] = move, None

    async def _note(self, job: Job) -> None:
        topic, partition = job.place
        if (
            not self._services.has_topic(topic)
            or self._services.topic(topic).topic_id != job.topic_id
        ):
            return  # deleted meanwhile, with all that is to be noted of it
        taken = _ranges(move for move, _ in job.written)
        kept = _ranges(job.kept)
        messages = await self._services.partition(topic, partition)
        start = messages.log.start_offset
        ledger = await self._queues.ledger(self._services.topic(topic), partition)
        await ledger.submit(lambda machine: machine.remove_dead_letters(taken, start, kept))

    async def _write(self, job: Job, move: Move) -> Committed:
        """Append the move's batch, unless it is there; gives when it is durable."""
        target = await move_target(self._services, move.topic, move.partition)
        if target.topic_id != move.topic_id:
            raise TopicNotFound(f"topic {move.topic!r} was deleted meanwhile")
        if move in job.uncertain and (at := await target.find(move)) is not None:
            self._note_redriven(job, move, list(each_offset(move.ranges)), at)
            return None
        records = await self._records(job, move)
        if not records:
            return None  # retention was faster
        producer = (move.producer_id, move.producer_epoch, 0)
        begun_ns = self._clock.instant()
        try:
            data = encode_batch(list(records.values()), self._clock.now(), producer)
            at, committed = await target.append(data)
        except InvalidProducerEpoch:  # a later move is there: this one came before it, or never
            if await target.find(move) is not None:
                return None
            raise
        self._note_redriven(job, move, list(records), at, begun_ns)
        return committed

    def _note_redriven(
        self, job: Job, move: Move, offsets: list[int], at: Offset, begun_ns: int | None = None
    ) -> None:
        source = self._services.partitions.find_open(*job.place)
        if source is not None:
            there = move.topic, move.topic_id, move.partition
            note_redriven(source.tracer, offsets, there, at, begun_ns)

    async def _records(self, job: Job, move: Move) -> dict[int, Record]:
        """By the offsets of the dead letters."""
        offsets = list(each_offset(move.ranges))
        if job.messages is not None:
            return {offset: job.messages[offset] for offset in offsets}
        messages = await self._services.partition(*job.place)
        found = await PartitionReader(messages).find(offsets)
        return {offset: original(found[offset]) for offset in offsets if offset in found}


def _ranges(moves: Iterable[Move]) -> Ranges:
    return tuple(sorted(each for move in moves for each in move.ranges))


def _count(moves: Iterable[Move]) -> int:
    return sum(last - first + 1 for move in moves for first, last in move.ranges)


def _mark_retrieved(done: asyncio.Future[int]) -> None:
    if not done.cancelled():
        done.exception()  # nobody need be waiting for it
