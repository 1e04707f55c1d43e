"""One group's prefetch buffer of one partition: records that are loaded and not delivered yet.

                 lane cursor (durable)        position
    ─────────────────|─────────────────────────|──────────────>  the lane in the log
       delivered       blocks in the buffer      not loaded

A buffer can be cleared at any time: the state's cursors say where to load from.  A message that
came back is not in the buffer; it is read from the log once more when its turn comes.  A message
that was passed over is stashed, as far as there is room, since its turn is near.
"""

from collections import deque
from typing import Final, NamedTuple

from goqueue.broker.queues.partition_reader import (
    SCAN_BYTES_AT_ONCE,
    PartitionReader,
    RecordBlock,
    Unreadable,
)
from goqueue.model.ids import Timestamp
from goqueue.model.record import Record
from goqueue.model.settings import TopicSettings
from goqueue.queue.delivery import Selection
from goqueue.queue.delivery_batch import Run
from goqueue.queue.header_fields import header_value, is_outdated, ordering_key
from goqueue.queue.lanes import LANES, NORMAL
from goqueue.queue.partition_state import PartitionState
from goqueue.queue.settings import QueueSettings

OTHERS: Final = tuple(lane for lane in range(LANES) if lane != NORMAL)
STASHED_BYTES_MAX: Final = 16 * 1024 * 1024  # of records that were passed over, about
RECORD_BYTES: Final = 300  # of a record in memory beside its key and value, about
HEADER_BYTES: Final = 100  # of a header in memory beside its name and value, about
READY_AT_ONCE: Final = 100  # messages that came back and are found in the log in one go
VALUES_MAX: Final = 10_000  # of a fairness header whose last turn is remembered

_NO_SETTINGS: Final = (QueueSettings(), TopicSettings(), QueueSettings())


class Moment(NamedTuple):
    """Now, by two clocks: retries wait by the one, and messages grow old by the other."""

    steady: Timestamp
    wall: Timestamp


class Budget:
    """How much a consumer is still to be given."""

    def __init__(self, count: int, size: int, spare: int = 0) -> None:
        self.count = count
        self.size = size  # bytes of keys and values
        self.spare = spare  # so many more, to have the whole of a batch
        self._is_whole = True

    @property
    def is_spent(self) -> bool:
        return self.count <= 0 or self.size <= 0

    def admits(self, size: int) -> bool:
        """Whether one more fits; the first goes whatever its size.  If not, no other does."""
        if size <= self.size or self._is_whole:
            return True
        self.size = 0
        return False

    def spend(self, count: int, size: int) -> None:
        self.count -= count
        self.size -= size
        self._is_whole = False


class LaneBuffer:
    """The part of a buffer that belongs to one lane."""

    def __init__(self, position: int) -> None:
        self.position = position  # the next offset to load
        self.blocks: deque[RecordBlock] = deque()
        self.place = 0  # in the first block

    def reset(self, position: int) -> None:
        self.position = position
        self.blocks.clear()
        self.place = 0

    def tidy(self) -> bool:
        """Drop blocks that are used up; whether anything is left."""
        while self.blocks and self.place >= len(self.blocks[0].records):
            self.blocks.popleft()
            self.place = 0
        return bool(self.blocks)

    def next_offset(self) -> int:
        """Everything of the lane below it was taken."""
        return self.blocks[0].records[self.place].offset if self.tidy() else self.position


class PrefetchBuffer:
    def __init__(self, state: PartitionState, reader: PartitionReader) -> None:
        self.state = state
        self.reader = reader
        self._moves = state.moves
        self._lanes = [LaneBuffer(cursor) for cursor in state.cursors]
        self._start = -1  # of the log, when the lanes last noted it
        self._stashed: dict[int, Record] = {}
        self._stashed_bytes = 0
        self._served: dict[bytes | None, int] = {}  # fairness value to the number of its last turn
        self._turn = 0
        self._settings = _NO_SETTINGS  # the group's and the topic's, and both together

    def reset(self) -> None:
        """Forget what is loaded."""
        self._moves = self.state.moves
        self._start = -1
        for lane, cursor in zip(self._lanes, self.state.cursors, strict=True):
            lane.reset(cursor)

    async def refresh(self) -> None:
        """Know what there is, and the lanes as far as can be waited for."""
        if not self.is_current():
            await self.reader.scan(SCAN_BYTES_AT_ONCE)

    def is_current(self) -> bool:
        """Take in what happened to the log and the state; False when there is more in the log."""
        if self._moves != self.state.moves:
            self.reset()
        start = self.reader.start
        if self._start < start:
            self._start = start
            for lane in self._lanes:
                lane.position = max(lane.position, start)
        self.reader.begin_at(self.state.ack_floor)
        return self.reader.index.end >= self.reader.limit

    def offers(self, now: int) -> set[int]:
        """The lanes that may have something to hand out."""
        lanes = self.state.ready_lanes(now)
        normal, limit = self._lanes[NORMAL], min(self.reader.limit, self.reader.index.end)
        if normal.position < limit or normal.tidy():
            lanes.add(NORMAL)
        if self.reader.index.size:
            lanes.update(lane for lane in OTHERS if self._has_fresh(lane, limit))
        return lanes

    def _has_fresh(self, lane: int, limit: int) -> bool:
        if self._lanes[lane].tidy():
            return True
        found = self.reader.index.next(lane, self._lanes[lane].position)
        return found is not None and found < limit

    def cursors(self) -> list[int]:
        """Where the lanes stand now; never before where they stood."""
        index = self.reader.index
        stand = [index.end] * LANES
        stand[NORMAL] = self._lanes[NORMAL].next_offset()
        if index.size:
            for lane in OTHERS:
                stand[lane] = self._cursor(lane)
        return [max(pair) for pair in zip(stand, self.state.cursors, strict=True)]

    def _cursor(self, lane: int) -> int:
        if self._lanes[lane].tidy():
            return self._lanes[lane].next_offset()
        index = self.reader.index
        found = index.next(lane, self._lanes[lane].position)
        return index.end if found is None else found

    # --- taking -----------------------------------------------------------------------------------

    async def select(
        self,
        lane: int,
        share: int,
        selection: Selection,
        budget: Budget,
        settings: QueueSettings,
        now: Moment,
    ) -> int:
        """Add up to `share` messages of the lane to `select`; gives how many."""
        settings = self._in_topic(settings)
        selection.drops = settings.expired == "drop"
        before = budget.count
        least = max(0, before - share)
        if settings.fairness:
            await self._take_fairly(lane, least, selection, budget, settings, now)
            return before - budget.count
        await self._take_ready(lane, least, selection, budget, settings, now)
        buffer = self._lanes[lane]
        while budget.count > least and not budget.is_spent:
            if not buffer.tidy() and not await self._load(lane):
                break
            if not buffer.tidy():
                continue
            block = buffer.blocks[0]
            if not budget.admits(_size(block.records[buffer.place])):
                break
            wanted = budget.count - least  # and the spare ones as far as this block goes
            if block.is_plain and settings.ordering == "none" and not settings.ttl_ms:
                most = wanted + budget.spare
                buffer.place += _take_plain(block, buffer.place, most, lane, selection, budget)
            elif not self._take_each(lane, wanted, selection, budget, settings, now):
                break
        return before - budget.count

    def _in_topic(self, settings: QueueSettings) -> QueueSettings:
        """The group's settings, and the topic's where it leaves it to the topic."""
        topic = self.reader.partition.log.settings
        if self._settings[0] is not settings or self._settings[1] is not topic:
            self._settings = settings, topic, settings.within(topic)
        return self._settings[2]

    async def _take_ready(
        self,
        lane: int,
        least: int,
        selection: Selection,
        budget: Budget,
        settings: QueueSettings,
        now: Moment,
    ) -> None:
        """Those that came back go before those that were never delivered."""
        while budget.count > least and not budget.is_spent:
            wanted = min(budget.count - least, READY_AT_ONCE)
            offsets = self.state.take_ready(lane, wanted, now.steady)
            if not offsets:
                return
            try:
                found = await self._find(offsets)
            except BaseException:
                self.state.put_back(offsets)
                raise
            for place, offset in enumerate(offsets):
                record = found.get(offset)
                size = 0 if record is None else _size(record)
                if not budget.admits(size):
                    self.state.put_back(offsets[place:])
                    return
                self._take_again(record, offset, size, lane, selection, budget, settings, now)

    def _take_again(
        self,
        record: Record | None,
        offset: int,
        size: int,
        lane: int,
        selection: Selection,
        budget: Budget,
        settings: QueueSettings,
        now: Moment,
    ) -> None:
        self._unstash(offset, size)
        if record is None:
            selection.gone.append(offset)
        elif isinstance(record, Unreadable):
            selection.unreadable[offset] = record.problem
        elif (record.headers or settings.ttl_ms) and is_outdated(record, settings, now.wall):
            selection.outdated.append(offset)
        else:
            selection.add_again(record, lane)
            budget.spend(1, size)

    def _take_each(
        self,
        lane: int,
        wanted: int,
        selection: Selection,
        budget: Budget,
        settings: QueueSettings,
        now: Moment,
    ) -> bool:
        """Take from the first block, looking at each; False when no more may be taken."""
        buffer = self._lanes[lane]
        records = buffer.blocks[0].records
        least = budget.count - wanted
        for place in range(buffer.place, len(records)):
            record = records[place]
            size = _size(record)
            if budget.count <= least or not budget.admits(size):
                return True
            if not self._take_one(record, size, lane, selection, budget, settings, now):
                return False
            buffer.place = place + 1
        return True

    def _take_one(
        self,
        record: Record,
        size: int,
        lane: int,
        selection: Selection,
        budget: Budget,
        settings: QueueSettings,
        now: Moment,
    ) -> bool:
        """Take one fresh message, or pass it over; False when no more may be passed over."""
        if isinstance(record, Unreadable):
            selection.unreadable[record.offset] = record.problem
            return True
        if (record.headers or settings.ttl_ms) and is_outdated(record, settings, now.wall):
            selection.outdated.append(record.offset)
            return True
        key = ordering_key(record) if settings.ordering == "key" else None
        if key is not None:
            if key in selection.keys or key in self.state.busy:
                return self._defer(record, size, lane, key, selection, settings)
            selection.keys[key] = record.offset
        selection.add_fresh(record, lane)
        budget.spend(1, size)
        return True

    def _defer(
        self,
        record: Record,
        size: int,
        lane: int,
        key: int,
        selection: Selection,
        settings: QueueSettings,
    ) -> bool:
        """Pass over a message whose key is in flight; False when too many were already."""
        if not self._may_defer(selection, settings):
            return False
        selection.deferred.append((record.offset, lane, key))
        self._stash(record, size)
        return True

    def _may_defer(self, selection: Selection, settings: QueueSettings) -> bool:
        return self.state.deferred_count + len(selection.deferred) < settings.key_window

    # --- fairness ---------------------------------------------------------------------------------

    async def _take_fairly(
        self,
        lane: int,
        least: int,
        selection: Selection,
        budget: Budget,
        settings: QueueSettings,
        now: Moment,
    ) -> None:
        """Of the window's messages, those of the header's values in turn.

        What is passed over is from then on ready, and so in the window until its turn comes; or
        deferred, when its key is busy.
        """
        while budget.count > least and not budget.is_spent:
            if not await self._take_of_window(lane, least, selection, budget, settings, now):
                return

    async def _take_of_window(
        self,
        lane: int,
        least: int,
        selection: Selection,
        budget: Budget,
        settings: QueueSettings,
        now: Moment,
    ) -> bool:
        """Whether it took all that may be taken of the window, so that a look behind it is due."""
        ready = self.state.take_ready(lane, settings.fairness_window, now.steady)
        try:
            found = await self._find(ready)
            fresh = await self._window(lane, settings.fairness_window - len(ready))
        except BaseException:
            self.state.put_back(ready)
            raise
        first = self._first_of_keys(fresh, selection, settings)
        waiting: dict[bytes | None, deque[tuple[int, Record | None]]] = {}
        for offset in ready:
            record = found.get(offset)
            value = None if record is None else header_value(record, settings.fairness)
            waiting.setdefault(value, deque()).append((offset, record))
        for record in first:
            value = header_value(record, settings.fairness)
            waiting.setdefault(value, deque()).append((record.offset, record))
        picked = self._pick(waiting, set(ready), lane, least, selection, budget, settings, now)
        self.state.put_back(offset for offset in ready if offset not in picked)
        last = max((record.offset for record in fresh if record.offset in picked), default=-1)
        may_go_on = (
            bool(fresh)
            and all(record.offset in picked for record in first)
            and self._may_defer(selection, settings)
        )
        self._pass_over(lane, fresh[-1].offset if may_go_on else last, picked, selection, settings)
        return may_go_on

    def _first_of_keys(
        self, fresh: list[Record], selection: Selection, settings: QueueSettings
    ) -> list[Record]:
        """Those that need not wait for another message of their key."""
        if settings.ordering != "key":
            return fresh
        seen = {*selection.keys, *self.state.busy}
        first = []
        for record in fresh:
            key = ordering_key(record)
            if key is None or key not in seen:
                first.append(record)
            if key is not None:
                seen.add(key)
        return first

    def _pick(
        self,
        waiting: dict[bytes | None, deque[tuple[int, Record | None]]],
        ready: set[int],
        lane: int,
        least: int,
        selection: Selection,
        budget: Budget,
        settings: QueueSettings,
        now: Moment,
    ) -> set[int]:
        picked: set[int] = set()
        turns = sorted(waiting, key=lambda value: self._served.get(value, 0))
        while turns and budget.count > least and not budget.is_spent:
            still = []
            for value in turns:
                if budget.count <= least or budget.is_spent:
                    break
                offset, record = waiting[value].popleft()
                size = 0 if record is None else _size(record)
                if not budget.admits(size):
                    return picked
                if offset in ready or record is None:
                    self._take_again(record, offset, size, lane, selection, budget, settings, now)
                elif not self._take_one(record, size, lane, selection, budget, settings, now):
                    return picked
                picked.add(offset)
                self._note_turn(value)
                if waiting[value]:
                    still.append(value)
            turns = still
        return picked

    def _note_turn(self, value: bytes | None) -> None:
        if len(self._served) >= VALUES_MAX:
            self._served.clear()
        self._turn += 1
        self._served[value] = self._turn

    async def _window(self, lane: int, count: int) -> list[Record]:
        """Up to `count` fresh records of the lane, which stay in the buffer."""
        buffer = self._lanes[lane]
        while _loaded(buffer) < count and await self._load(lane):
            pass
        records = [record for block in buffer.blocks for record in block.records]
        return records[buffer.place : buffer.place + count] if count > 0 else []

    def _pass_over(
        self, lane: int, last: int, picked: set[int], selection: Selection, settings: QueueSettings
    ) -> None:
        """The buffer moves on to behind `last`."""
        buffer = self._lanes[lane]
        while buffer.tidy() and buffer.blocks[0].records[buffer.place].offset <= last:
            record = buffer.blocks[0].records[buffer.place]
            if record.offset not in picked:
                self._pass_one_over(record, lane, selection, settings)
            buffer.place += 1

    def _pass_one_over(
        self, record: Record, lane: int, selection: Selection, settings: QueueSettings
    ) -> None:
        """It is ready; with order by key, only as the first of its key, which waits for it."""
        self._stash(record, _size(record))
        key = ordering_key(record) if settings.ordering == "key" else None
        if key is None:
            selection.passed.append((record.offset, lane))
        elif key in selection.keys or key in self.state.busy:
            selection.deferred.append((record.offset, lane, key))
        else:
            selection.keys[key] = record.offset
            selection.passed.append((record.offset, lane))

    # --- what was passed over ---------------------------------------------------------------------

    def _stash(self, record: Record, size: int) -> None:
        size += RECORD_BYTES
        if self._stashed_bytes + size <= STASHED_BYTES_MAX and record.offset not in self._stashed:
            self._stashed[record.offset] = record
            self._stashed_bytes += size

    async def _find(self, offsets: list[int]) -> dict[int, Record]:
        """These records, from what was stashed or from the log."""
        stashed = self._stashed
        found = {offset: stashed[offset] for offset in offsets if offset in stashed}
        if len(found) < len(offsets):
            found |= await self.reader.find([offset for offset in offsets if offset not in found])
        return found

    def _unstash(self, offset: int, size: int) -> None:
        """It is delivered, or over."""
        if self._stashed.pop(offset, None) is not None:
            self._stashed_bytes -= size + RECORD_BYTES

    # --- loading ----------------------------------------------------------------------------------

    async def _load(self, lane: int) -> bool:
        """Put the next records into the buffer; False when there are none."""
        buffer, moves = self._lanes[lane], self.state.moves
        known = min(self.reader.limit, self.reader.index.end)
        blocks = await self.reader.read_blocks(buffer.position, lane)
        if self.state.moves != moves:
            return False
        if not blocks:  # nothing of the lane in all that is known, so it offers nothing of that
            buffer.position = max(buffer.position, known)
            return False
        buffer.blocks.extend(blocks)
        buffer.position = blocks[-1].next_offset
        return True


def _take_plain(
    block: RecordBlock, place: int, wanted: int, lane: int, selection: Selection, budget: Budget
) -> int:
    """Take some of a block at once; nobody need look at them."""
    records = block.records[place : place + wanted]
    if block.size > budget.size:
        records = _fitting(records, budget.size)
        size = sum(_size(record) for record in records)
    else:
        size = block.size * len(records) // len(block.records)
    selection.add_run(Run(records, lane, block.batch))
    budget.spend(len(records), size)
    return len(records)


def _fitting(records: list[Record], size: int) -> list[Record]:
    """As many as fit, and the first in any case."""
    for place, record in enumerate(records):
        size -= _size(record)
        if size < 0:
            return records[: max(1, place)]
    return records


def _size(record: Record) -> int:
    size = len(record.key or b"") + len(record.value or b"")
    if record.headers:
        size += sum(HEADER_BYTES + len(name) + len(value or b"") for name, value in record.headers)
    return size


def _loaded(lane: LaneBuffer) -> int:
    return sum(len(block.records) for block in lane.blocks) - lane.place
