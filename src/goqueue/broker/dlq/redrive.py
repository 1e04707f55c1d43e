"""Moves dead letters to another topic, each exactly once, also across crashes.

    RedriveStarted, durable ──> append to the target, durable ──> DeadLettersRemoved
                                      ^
                                      └── after a crash: is the batch there already?

Each move is one batch, with a producer id and epoch that no other batch has.  So after a crash the
headers after the target's end at the time of the decision tell whether the batch was written.  The
messages themselves are not changed.  One task does all moves: the caller may go away meanwhile.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import structlog

from goqueue.broker.machine_host import Committed
from goqueue.broker.queues.ledgers import Ledger
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.broker.queues.state import QueueState
from goqueue.broker.services import BrokerServices
from goqueue.broker.storage.partition import Partition
from goqueue.model import batch as batches
from goqueue.model.errors import GoQueueError, ShuttingDown, TopicNotFound
from goqueue.model.ids import PRODUCER_EPOCH_MAX, Offset, TopicId, TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.queue import Move
from goqueue.queue.dead_letter import encode_batch, original
from goqueue.queue.ranges import Ranges, each_offset, ranges_of

RETRY_SECONDS: Final = 1.0
SCAN_BYTES: Final = 1024 * 1024

_log = structlog.get_logger("goqueue.queues")


class Wanted(msgspec.Struct, frozen=True):
    """Some dead letters of one partition, which fit into one batch of the target."""

    messages: dict[int, Record]  # by the offset of the dead letter, ascending; as they were
    target: Partition


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
        self.written: list[tuple[Move, Committed]] = []
        self.kept: list[Move] = []
        self.refusal: GoQueueError | None = None
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_mark_retrieved)

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
        assert target.topic_id is not None, "nobody moves anything to the broker's own topics"
        return Move(
            ranges_of(wanted.messages),
            TopicName(target.topic),
            target.topic_id,
            target.index,
            producer_id,
            epoch,
            target.log.end_offset,
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
            await ledger.settled()  # nothing is moved that a crash leaves where it was
        while job.waiting:
            move = job.waiting[0]
            try:
                job.written.append((move, await self._write(job, move)))
            except ShuttingDown:
                raise
            except GoQueueError as error:  # and nothing was written
                job.kept.append(move)
                job.refusal = job.refusal or error
            job.waiting.pop(0)
        for _, committed in job.written:
            if committed is not None:
                await asyncio.shield(committed)
        await self._note(job)

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
        target = await self._services.partition(move.topic, move.partition)
        if target.topic_id != move.topic_id:
            raise TopicNotFound(f"topic {move.topic!r} was deleted meanwhile")
        if job.messages is None:
            await target.flush_visible()
            if await holds(target, move):
                return None
        records = await self._records(job, move)
        if not records:
            return None  # retention was faster
        now = self._clock.now()
        producer = (move.producer_id, move.producer_epoch, 0)
        appended = self._services.append(target, encode_batch(records, now, producer))
        return target.committed(appended.last_offset)

    async def _records(self, job: Job, move: Move) -> list[Record]:
        offsets = list(each_offset(move.ranges))
        if job.messages is not None:
            return [job.messages[offset] for offset in offsets]
        messages = await self._services.partition(*job.place)
        found = await PartitionReader(messages).find(offsets)
        return [original(found[offset]) for offset in offsets if offset in found]


async def holds(target: Partition, move: Move) -> bool:
    """Whether the move's batch was written before."""
    log, mark = target.log, (move.producer_id, move.producer_epoch)
    offset = Offset(max(move.behind, log.start_offset))
    while offset < log.high_watermark:
        chunk = await target.read(offset, SCAN_BYTES, log.high_watermark)
        if any(
            (each.producer_id, each.producer_epoch) == mark for each in batches.headers(chunk.data)
        ):
            return True
        offset = chunk.next_offset
    return False


def _ranges(moves: Iterable[Move]) -> Ranges:
    return tuple(sorted(each for move in moves for each in move.ranges))


def _count(moves: Iterable[Move]) -> int:
    return sum(last - first + 1 for move in moves for first, last in move.ranges)


def _mark_retrieved(done: asyncio.Future[int]) -> None:
    if not done.cancelled():
        done.exception()  # nobody need be waiting for it
