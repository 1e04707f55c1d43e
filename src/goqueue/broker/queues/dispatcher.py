"""One group's dispatcher: which messages a consumer gets, and which consumers wait.

Choosing goes over the group's partitions, beginning with another one each time, and over its lanes
as their weights say.  One consumer is served at a time (reading may have to wait for the disk);
waiting for the decision to be durable is not part of that.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from goqueue.broker.machine_host import Committed
from goqueue.broker.queues.consumers import Consumers
from goqueue.broker.queues.lane_selection import LaneSelection
from goqueue.broker.queues.ledgers import Ledger
from goqueue.broker.queues.partition_reader import PartitionReader
from goqueue.broker.queues.prefetch import Budget, Moment, PrefetchBuffer
from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.broker.queues.wait_queue import WaitQueue
from goqueue.broker.storage.partition import Partition
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Timestamp
from goqueue.model.machine import Decision
from goqueue.queue import (
    DeliveryBatch,
    PartitionState,
    Peeked,
    QueueGroup,
    QueueMachine,
    QueueRecord,
    QueueSettings,
    Selection,
    singles,
)
from goqueue.queue.lanes import NAMES, Turns
from goqueue.runtime import Clock

# The ledger is None for who looks into a partition where its group has not begun.
Source = tuple[PartitionState, PartitionReader, Ledger | None]
Served = tuple[list[DeliveryBatch], list[asyncio.Future[None]]]  # and what to wait for
Selections = dict[PrefetchBuffer, Selection]  # in the order of their turns


class Dispatcher:
    def __init__(self, clock: Clock, group: QueueGroup) -> None:
        self.group = group
        self.crowded = 0  # consumers that wait until they hold less
        self.news = 0  # how often somebody told that there may be more to deliver
        self.consumers = Consumers()
        self.used_at = clock.instant()
        self._clock = clock
        self._lock = asyncio.Lock()
        self._buffers: dict[PartitionState, PrefetchBuffer] = {}
        self._wait_queues: dict[tuple[str, ...], WaitQueue] = {}
        self._turns = Turns()
        self._turns_of: QueueSettings | None = None
        self._turn = 0

    # --- waiting ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def wait_queue(
        self, topics: Sequence[str], partitions: Sequence[Partition]
    ) -> Iterator[WaitQueue]:
        """The wait queue of consumers that want the same topics."""
        key = tuple(sorted(topics))
        wait_queue = self._wait_queues.get(key)
        if wait_queue is None:
            wait_queue = self._wait_queues[key] = WaitQueue()
        wait_queue.users += 1
        wait_queue.attach(partitions)
        try:
            yield wait_queue
        finally:
            wait_queue.users -= 1
            if not wait_queue.users:
                wait_queue.detach()
                self._wait_queues.pop(key, None)

    def notify_one(self) -> None:
        self.news += 1
        for wait_queue in self._wait_queues.values():
            wait_queue.notify_one()

    def notify_all(self) -> None:
        """The broker stops: everybody is to look."""
        for wait_queue in self._wait_queues.values():
            wait_queue.notify_all()

    def notify_room(self) -> None:
        """Messages were finished: only who waits for that need know."""
        self.news += 1
        if self.crowded or self.group.settings.ordering == "key":
            self.notify_one()

    # --- serving ----------------------------------------------------------------------------------

    async def serve(self, request: ReceiveRequest, sources: Sequence[Source]) -> Served:
        """Choose and decide; gives the messages and when that is durable."""
        count, consumer = request.max_messages, request.consumer
        async with self._lock:
            while True:
                room = self.group.room(consumer)
                spare = max(0, room - count) if request.whole_batches else 0
                budget = Budget(min(count, room), request.max_bytes, spare)
                selections: Selections = {}
                try:
                    await self._choose(self._in_turn(sources), selections, budget)
                    served = self._decide(selections, consumer, request.visibility_ms)
                except BaseException:
                    _undo(selections)
                    raise
                if served is not None:
                    return served
                _undo(selections)

    def has_some(self, sources: Sequence[Source]) -> bool:
        """Whether it is worth while to be served now."""
        if self._lock.locked():
            return True  # who is being served may leave some
        now = self._clock.steady()
        for buffer in map(self._buffer, sources):
            has_some = not buffer.is_current() or bool(buffer.offers(now))
            _watch(buffer)
            if has_some:
                return True
        return False

    async def peek(self, sources: Sequence[Source], count: int) -> list[Peeked]:
        async with self._lock:
            selections: Selections = {}
            turns, self._turns_of = (self._turns_of, self._turns), None  # who looks takes no turn
            try:
                await self._choose(self._in_turn(sources), selections, Budget(count, 2**62))
                return [
                    Peeked(record, where.topic, where.partition, attempt - 1, NAMES[lane])
                    for selection in selections.values()
                    for where in (selection.state.where,)
                    for record, attempt, lane, *_ in singles(selection.chosen)
                ]
            finally:
                _undo(selections)
                self._turns_of, self._turns = turns

    def _in_turn(self, sources: Sequence[Source]) -> list[PrefetchBuffer]:
        buffers = list(map(self._buffer, sources))
        self._turn += 1
        first = self._turn % len(buffers) if buffers else 0
        return buffers[first:] + buffers[:first]

    def _buffer(self, source: Source) -> PrefetchBuffer:
        state, reader, ledger = source
        buffer = self._buffers.get(state)
        if buffer is None or buffer.reader is not reader:
            buffer = self._buffers[state] = PrefetchBuffer(state, reader, ledger)
        return buffer

    async def _choose(
        self, buffers: list[PrefetchBuffer], selections: Selections, budget: Budget
    ) -> None:
        """Fill `selections` from the buffers that have something to offer."""
        settings = self.group.settings
        for buffer in buffers:
            if not buffer.is_current():
                await buffer.refresh()
        now = self._clock.steady()
        turns = self._current_turns(settings)
        lanes = set[int]()
        offering: list[PrefetchBuffer] = []
        for buffer in buffers:
            offered = buffer.offers(now)
            if offered:
                lanes |= offered
                offering.append(buffer)
            _watch(buffer)
        if len(lanes) > 1:
            budget.spare = 0  # or a large batch of one lane would take the others' shares
        for lane in turns.begin(lanes, now, settings.starvation_ms):
            if not budget.is_spent:
                count = await self._serve_lane(lane, 1, offering, selections, budget)
                turns.note_served(lane, count, now)
        while lanes and not budget.is_spent:
            is_alone = len(lanes) == 1
            lane, share = turns.turn(lanes, budget.count)
            count = await self._serve_lane(lane, share, offering, selections, budget)
            turns.note_served(lane, count, now, is_alone=is_alone)
            if count < share:
                lanes.discard(lane)
        for buffer, selection in selections.items():
            selection.cursors = buffer.cursors()
            _watch(buffer)

    def _current_turns(self, settings: QueueSettings) -> Turns:
        if self._turns_of is not settings:
            self._turns_of = settings
            self._turns = Turns(settings.weights, is_strict=settings.priority == "strict")
        return self._turns

    async def _serve_lane(
        self,
        lane: int,
        share: int,
        offering: list[PrefetchBuffer],
        selections: Selections,
        budget: Budget,
    ) -> int:
        count = 0
        settings = self.group.settings
        now = Moment(self._clock.steady(), self._clock.now())
        for buffer in offering:
            if count >= share or budget.is_spent:
                break
            selection = selections.get(buffer)
            if selection is None:
                selection = selections[buffer] = Selection(buffer.state)
            chosen = LaneSelection(buffer, lane, share - count, selection, budget, settings, now)
            count += await chosen.run()
        return count

    def _decide(
        self, selections: Selections, consumer: str, visibility_ms: int | None
    ) -> Served | None:
        """A decision for each ledger; None when the choice is void: choose again.

        A ledger that cannot be written keeps its messages; the others' are delivered.
        """
        if any(each.moves != each.state.moves for each in selections.values() if each.moves_on):
            return None
        now = self._clock.steady()
        deadline = Timestamp(now + (visibility_ms or self.group.settings.visibility_ms))
        deliveries: list[DeliveryBatch] = []
        waits: list[asyncio.Future[None]] = []
        refusal: GoQueueError | None = None
        for buffer, selection in selections.items():
            if not selection.moves_on:
                continue
            try:
                lease_id, committed = self._lease(buffer, selection, consumer, now, deadline)
            except GoQueueError as error:
                _undo({buffer: selection})
                refusal = error
                continue
            if selection.chosen:
                where = selection.state.where
                deliveries.append(DeliveryBatch(where, lease_id, deadline, selection.chosen))
                buffer.reader.partition.messages_out += selection.count
                if committed is not None:
                    waits.append(committed)
        if refusal is not None and not deliveries:
            raise refusal
        self.used_at = self._clock.instant()
        return deliveries, waits

    def _lease(
        self,
        buffer: PrefetchBuffer,
        selection: Selection,
        consumer: str,
        now: Timestamp,
        deadline: Timestamp,
    ) -> tuple[int, Committed]:
        """The number of the delivery, and when it is durable if that is to be waited for."""

        def decide(machine: QueueMachine) -> Decision[QueueRecord, int]:
            return machine.lease(now, consumer, selection, deadline)

        assert buffer.ledger is not None, "who only looks is handed nothing"
        if self.group.settings.delivery_durability == "sync":
            return buffer.ledger.submit_now(decide)
        lease_id, _ = buffer.ledger.write(decide)  # it outlives this process, and is synced in time
        return lease_id, None

    # --- upkeep -----------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return not self._wait_queues and not self._lock.locked()

    def evict(self) -> None:
        """Let go of what can be read again."""
        self._buffers.clear()


def _watch(buffer: PrefetchBuffer) -> None:
    """Looking for ready messages may have set a deadline."""
    ledger = buffer.ledger
    if ledger is not None and ledger.ahead.watch(buffer.state):
        ledger.notice_deadline()


def _undo(selections: Selections) -> None:
    """Nothing was chosen after all."""
    for buffer, selection in selections.items():
        selection.state.put_back(
            [*selection.again, *selection.outdated, *selection.unreadable, *selection.gone]
        )
        buffer.reset()
