"""Choosing messages of one lane of one partition for one consumer.

Messages that came back go before those that were never delivered.  A message may be passed over,
because another message of its key is in flight, or because other values of the fairness header have
their turn first: then it is deferred, or ready for the next choice, and stashed in the buffer.
"""

from collections import deque
from typing import Final

from goqueue.broker.queues.partition_reader import RecordBlock, Unreadable
from goqueue.broker.queues.prefetch import Budget, Moment, PrefetchBuffer, record_size
from goqueue.model.record import Record
from goqueue.queue import QueueSettings, Run, Selection
from goqueue.queue.header_fields import header_value, is_outdated, ordering_key

READY_AT_ONCE: Final = 100  # messages that came back and are found in the log in one go

Waiting = dict[bytes | None, deque[tuple[int, Record | None]]]  # fairness value to its messages


class LaneSelection:
    """Adds up to `share` messages to `selection`, as far as `budget` allows."""

    __slots__ = (
        "_budget",
        "_buffer",
        "_has_key_order",
        "_lane",
        "_least",
        "_loaded",
        "_now",
        "_selection",
        "_settings",
        "_state",
    )

    def __init__(
        self,
        buffer: PrefetchBuffer,
        lane: int,
        share: int,
        selection: Selection,
        budget: Budget,
        settings: QueueSettings,
        now: Moment,
    ) -> None:
        self._buffer = buffer
        self._state = buffer.state
        self._lane = lane
        self._loaded = buffer.lanes[lane]
        self._selection = selection
        self._budget = budget
        self._least = max(0, budget.count - share)  # the choice ends when so many are left
        self._settings = buffer.settings_in_topic(settings)
        self._has_key_order = self._settings.ordering == "key"
        self._now = now
        selection.drops = self._settings.expired == "drop"

    async def run(self) -> int:
        """Choose; gives how many messages."""
        before = self._budget.count
        if self._settings.fairness:
            while self._wants_more and await self._take_of_window():
                pass
        else:
            await self._take_ready()
            await self._take_fresh()
        return before - self._budget.count

    @property
    def _wants_more(self) -> bool:
        return self._budget.count > self._least and not self._budget.is_spent

    # --- in the order of the log ------------------------------------------------------------------

    async def _take_ready(self) -> None:
        """Messages that came back."""
        while self._wants_more:
            wanted = min(self._budget.count - self._least, READY_AT_ONCE)
            offsets = self._state.take_ready(self._lane, wanted, self._now.steady)
            if not offsets:
                return
            try:
                found = await self._buffer.find(offsets)
            except BaseException:
                self._state.put_back(offsets)
                raise
            for place, offset in enumerate(offsets):
                record = found.get(offset)
                size = 0 if record is None else record_size(record)
                if not self._budget.admits(size):
                    self._state.put_back(offsets[place:])
                    return
                self._take_again(record, offset, size)

    async def _take_fresh(self) -> None:
        """Messages that were never delivered."""
        loaded, budget, settings = self._loaded, self._budget, self._settings
        is_plain = not self._has_key_order and not settings.ttl_ms
        while self._wants_more:
            if not loaded.tidy() and not await self._buffer.load(self._lane):
                return
            if not loaded.tidy():
                continue
            block = loaded.blocks[0]
            if not budget.admits(record_size(block.records[loaded.place])):
                return
            if block.is_plain and is_plain:
                loaded.place += self._take_plain(block)
            elif not self._take_each(block.records):
                return

    def _take_plain(self, block: RecordBlock) -> int:
        """Take some of a block at once, without looking at each."""
        budget, place = self._budget, self._loaded.place
        most = budget.count - self._least + budget.spare  # the spare ones as far as the block goes
        records = block.records[place : place + most]
        if block.size > budget.size:
            records = _cut_to_size(records, budget.size)
            size = sum(record_size(record) for record in records)
        else:
            size = block.size * len(records) // len(block.records)
        self._selection.add_run(Run(records, self._lane, block.batch))
        budget.spend(len(records), size)
        return len(records)

    def _take_each(self, records: list[Record]) -> bool:
        """Take from a block, looking at each; False when no more may be taken."""
        loaded, budget, least = self._loaded, self._budget, self._least
        for place in range(loaded.place, len(records)):
            record = records[place]
            size = record_size(record)
            if budget.count <= least or not budget.admits(size):
                return True
            if not self._take_one(record, size):
                return False
            loaded.place = place + 1
        return True

    def _take_again(self, record: Record | None, offset: int, size: int) -> None:
        self._buffer.unstash(offset, size)
        if record is None:
            self._selection.gone.append(offset)
        elif isinstance(record, Unreadable):
            self._selection.unreadable[offset] = record.problem
        elif self._is_outdated(record):
            self._selection.outdated.append(offset)
        else:
            self._selection.add_again(record, self._lane)
            self._budget.spend(1, size)

    def _take_one(self, record: Record, size: int) -> bool:
        """Take one fresh message, or pass it over; False when no more may be passed over."""
        selection = self._selection
        if isinstance(record, Unreadable):
            selection.unreadable[record.offset] = record.problem
            return True
        if self._is_outdated(record):
            selection.outdated.append(record.offset)
            return True
        key = ordering_key(record) if self._has_key_order else None
        if key is not None:
            if key in selection.keys or key in self._state.busy:
                return self._defer(record, size, key)
            selection.keys[key] = record.offset
        selection.add_fresh(record, self._lane)
        self._budget.spend(1, size)
        return True

    def _is_outdated(self, record: Record) -> bool:
        settings = self._settings
        has_ttl = bool(record.headers) or bool(settings.ttl_ms)
        return has_ttl and is_outdated(record, settings.ttl_ms, self._now.wall)

    def _defer(self, record: Record, size: int, key: int) -> bool:
        """Pass over a message whose key is in flight; False when too many were already."""
        if not self._may_defer:
            return False
        self._selection.deferred.append((record.offset, self._lane, key))
        self._buffer.stash(record, size)
        return True

    @property
    def _may_defer(self) -> bool:
        count = self._state.deferred_count + len(self._selection.deferred)
        return count < self._settings.key_window

    # --- by the values of the fairness header, in turn --------------------------------------------

    async def _take_of_window(self) -> bool:
        """Whether it took all that may be taken of the window, so that a look behind it is due.

        A message that is passed over is ready from then on, and so in the window until its turn
        comes; or deferred, when its key is busy.
        """
        settings = self._settings
        ready = self._state.take_ready(self._lane, settings.fairness_window, self._now.steady)
        try:
            found = await self._buffer.find(ready)
            fresh = await self._buffer.window(self._lane, settings.fairness_window - len(ready))
        except BaseException:
            self._state.put_back(ready)
            raise
        first = self._first_of_keys(fresh)
        waiting: Waiting = {}
        for offset, record in [
            *((offset, found.get(offset)) for offset in ready),
            *((record.offset, record) for record in first),
        ]:
            value = None if record is None else header_value(record, settings.fairness)
            waiting.setdefault(value, deque()).append((offset, record))
        picked = self._pick(waiting, set(ready))
        self._state.put_back(offset for offset in ready if offset not in picked)
        last = max((record.offset for record in fresh if record.offset in picked), default=-1)
        may_go_on = (
            bool(fresh) and all(record.offset in picked for record in first) and self._may_defer
        )
        self._pass_over(fresh[-1].offset if may_go_on else last, picked)
        return may_go_on

    def _first_of_keys(self, fresh: list[Record]) -> list[Record]:
        """Those that need not wait for another message of their key."""
        if not self._has_key_order:
            return fresh
        seen = {*self._selection.keys, *self._state.busy}
        first = []
        for record in fresh:
            key = ordering_key(record)
            if key is None or key not in seen:
                first.append(record)
            if key is not None:
                seen.add(key)
        return first

    def _pick(self, waiting: Waiting, ready: set[int]) -> set[int]:
        picked: set[int] = set()
        turns = sorted(waiting, key=self._buffer.last_turn)
        while turns and self._wants_more:
            still = []
            for value in turns:
                if not self._wants_more:
                    break
                offset, record = waiting[value].popleft()
                size = 0 if record is None else record_size(record)
                if not self._budget.admits(size):
                    return picked
                if offset in ready or record is None:
                    self._take_again(record, offset, size)
                elif not self._take_one(record, size):
                    return picked
                picked.add(offset)
                self._buffer.note_turn(value)
                if waiting[value]:
                    still.append(value)
            turns = still
        return picked

    def _pass_over(self, last: int, picked: set[int]) -> None:
        """The buffer moves on to behind `last`."""
        loaded = self._loaded
        while loaded.tidy() and loaded.blocks[0].records[loaded.place].offset <= last:
            record = loaded.blocks[0].records[loaded.place]
            if record.offset not in picked:
                self._pass_one_over(record)
            loaded.place += 1

    def _pass_one_over(self, record: Record) -> None:
        """It is ready; with order by key, only as the first of its key, which waits for it."""
        self._buffer.stash(record, record_size(record))
        selection = self._selection
        key = ordering_key(record) if self._has_key_order else None
        if key is not None and (key in selection.keys or key in self._state.busy):
            selection.deferred.append((record.offset, self._lane, key))
            return
        if key is not None:
            selection.keys[key] = record.offset
        selection.passed.append((record.offset, self._lane))


def _cut_to_size(records: list[Record], size: int) -> list[Record]:
    """As many as fit, and the first in any case."""
    for place, record in enumerate(records):
        size -= record_size(record)
        if size < 0:
            return records[: max(1, place)]
    return records
