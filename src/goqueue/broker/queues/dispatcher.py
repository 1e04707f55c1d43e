"""The counter at which one group is served: whose turn it is, and who waits.

Choosing goes over the group's partitions, beginning with another one each time, and over its lanes
as their weights say.  One consumer is served at a time (reading may have to wait for the disk);
waiting for the decision to be durable is not part of that.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from goqueue.broker.machine_host import Committed, MachineHost
from goqueue.broker.queues.consumers import Consumers
from goqueue.broker.queues.partition_reader import Stock
from goqueue.broker.queues.prefetch import Budget, Moment, Shelf
from goqueue.broker.queues.wait_queue import Bell
from goqueue.broker.storage.partition import Partition
from goqueue.model.machine import Decision
from goqueue.queue import Peeked, QueueMachine
from goqueue.queue.delivery import HandOut, Take
from goqueue.queue.delivery_batch import Parcel, singles
from goqueue.queue.group import QueueGroup
from goqueue.queue.lanes import NAMES, Turns
from goqueue.queue.partition_state import Ledger
from goqueue.queue.records import QueueRecord
from goqueue.queue.settings import QueueSettings
from goqueue.runtime import Clock

Source = tuple[Ledger, Stock]
Served = tuple[list[Parcel], Committed]
Takes = dict[Shelf, Take]  # in the order of their turns


class Counter:
    def __init__(self, clock: Clock, host: MachineHost[QueueMachine], group: QueueGroup) -> None:
        self.group = group
        self.crowded = 0  # consumers that wait until they hold less
        self.news = 0  # how often somebody told that there may be more to hand out
        self.consumers = Consumers()
        self.used_at = clock.instant()
        self._clock = clock
        self._host = host
        self._lock = asyncio.Lock()
        self._shelves: dict[Ledger, Shelf] = {}
        self._bells: dict[tuple[str, ...], Bell] = {}
        self._turns = Turns()
        self._turns_of: QueueSettings | None = None
        self._turn = 0

    # --- waiting ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def bell(self, topics: Sequence[str], partitions: Sequence[Partition]) -> Iterator[Bell]:
        """Something to wait by, for who is ready to wait."""
        key = tuple(sorted(topics))
        bell = self._bells.get(key)
        if bell is None:
            bell = self._bells[key] = Bell()
        bell.users += 1
        bell.hang(partitions)
        try:
            yield bell
        finally:
            bell.users -= 1
            if not bell.users:
                bell.take_down()
                self._bells.pop(key, None)

    def ring(self) -> None:
        self.news += 1
        for bell in self._bells.values():
            bell.ring()

    def ring_all(self) -> None:
        """The broker stops: everybody is to look."""
        for bell in self._bells.values():
            bell.ring_all()

    def ring_for_room(self) -> None:
        """Messages were finished: only who waits for that need know."""
        self.news += 1
        if self.crowded or self.group.settings.ordering == "key":
            self.ring()

    # --- serving ----------------------------------------------------------------------------------

    async def serve(
        self,
        stocks: Sequence[Source],
        consumer: str,
        *,
        count: int,
        size: int,
        visibility_ms: int | None,
        whole_batches: bool = False,
    ) -> Served:
        """Choose and decide; gives the messages and when that is durable.

        With `whole_batches` more than `count`, rather than to part a batch.
        """
        async with self._lock:
            while True:
                room = self.group.room(consumer)
                spare = max(0, room - count) if whole_batches else 0
                budget = Budget(min(count, room), size, spare)
                takes: Takes = {}
                try:
                    await self._choose(self._in_turn(stocks), takes, budget)
                    handed, committed = self._decide(takes, consumer, visibility_ms)
                except BaseException:
                    _undo(takes)
                    raise
                if handed is not None:
                    return self._parcels(takes, handed), committed
                _undo(takes)

    def has_some(self, stocks: Sequence[Source]) -> bool:
        """Whether it is worth while to be served now."""
        if self._lock.locked():
            return True  # who is being served may leave some
        now, machine = self._clock.steady(), self._host.machine
        has_some = False
        for shelf in map(self._shelf, stocks):
            has_some = has_some or not shelf.is_current() or bool(shelf.offers(now))
            machine.watch(shelf.ledger)
        self._host.notice_deadline()  # looking may have set one
        return has_some

    async def peek(self, stocks: Sequence[Source], count: int) -> list[Peeked]:
        async with self._lock:
            takes: Takes = {}
            turns, self._turns_of = (self._turns_of, self._turns), None  # who looks takes no turn
            try:
                await self._choose(self._in_turn(stocks), takes, Budget(count, 2**62))
                return [
                    Peeked(record, where.topic, where.partition, attempt - 1, NAMES[lane])
                    for take in takes.values()
                    for where in (take.ledger.where,)
                    for record, attempt, lane, *_ in singles(take.chosen)
                ]
            finally:
                _undo(takes)
                self._turns_of, self._turns = turns

    def _in_turn(self, stocks: Sequence[Source]) -> list[Shelf]:
        shelves = list(map(self._shelf, stocks))
        self._turn += 1
        first = self._turn % len(shelves) if shelves else 0
        return shelves[first:] + shelves[:first]

    def _shelf(self, source: Source) -> Shelf:
        ledger, stock = source
        shelf = self._shelves.get(ledger)
        if shelf is None or shelf.stock is not stock:
            shelf = self._shelves[ledger] = Shelf(ledger, stock)
        return shelf

    async def _choose(self, shelves: list[Shelf], takes: Takes, budget: Budget) -> None:
        """Fill `takes` for the shelves that have something to offer."""
        settings = self.group.settings
        for shelf in shelves:
            await shelf.refresh()
        now = self._clock.steady()
        turns = self._current_turns(settings)
        lanes = set[int]()
        for shelf in shelves:
            offered = shelf.offers(now)
            if offered:
                lanes |= offered
                takes[shelf] = Take(shelf.ledger)
            else:
                self._host.machine.watch(shelf.ledger)
        if len(lanes) > 1:
            budget.spare = 0  # or a large batch of one lane would take the others' shares
        for lane in turns.begin(lanes, now, settings.starvation_ms):
            if not budget.is_spent:
                count = await self._serve_lane(lane, 1, takes, budget)
                turns.served(lane, count, now)
        while lanes and not budget.is_spent:
            is_alone = len(lanes) == 1
            lane, share = turns.turn(lanes, budget.count)
            count = await self._serve_lane(lane, share, takes, budget)
            turns.served(lane, count, now, is_alone=is_alone)
            if count < share:
                lanes.discard(lane)
        for shelf, take in takes.items():
            take.cursors = shelf.cursors()
            self._host.machine.watch(shelf.ledger)

    def _current_turns(self, settings: QueueSettings) -> Turns:
        if self._turns_of is not settings:
            self._turns_of = settings
            self._turns = Turns(settings.weights, is_strict=settings.priority == "strict")
        return self._turns

    async def _serve_lane(self, lane: int, share: int, takes: Takes, budget: Budget) -> int:
        count = 0
        settings = self.group.settings
        now = Moment(self._clock.steady(), self._clock.now())
        for shelf, take in takes.items():
            if count < share and not budget.is_spent:
                count += await shelf.take(lane, share - count, take, budget, settings, now)
        return count

    def _decide(
        self, takes: Takes, consumer: str, visibility_ms: int | None
    ) -> tuple[HandOut | None, Committed]:
        moving = [take for take in takes.values() if take.moves_on]
        now = self._clock.steady()

        def decide(machine: QueueMachine) -> Decision[QueueRecord, HandOut | None]:
            return machine.hand(now, self.group, consumer, moving, visibility_ms)

        if self.group.settings.hand_outs == "synced":
            return self._host.submit_now(decide)
        handed, _ = self._host.write(decide)  # it outlives this process, and is synced in time
        return handed, None

    def _parcels(self, takes: Takes, handed: HandOut) -> list[Parcel]:
        parcels: list[Parcel] = []
        for shelf, take in takes.items():
            if take.chosen:
                where, chosen = take.ledger.where, take.chosen
                parcels.append(Parcel(where, handed.lease_id, handed.deadline, chosen))
                shelf.stock.partition.messages_out += take.count
        self.used_at = self._clock.instant()
        return parcels

    # --- upkeep -----------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return not self._bells and not self._lock.locked()

    def rest(self) -> None:
        """Let go of what can be read again."""
        self._shelves.clear()


def _undo(takes: Takes) -> None:
    """Nothing was chosen after all."""
    for shelf, take in takes.items():
        take.ledger.put_back([*take.again, *take.outdated, *take.unreadable, *take.gone])
        shelf.reset()
