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

from goqueue.broker.queues.ledgers import Ledger
from goqueue.broker.queues.partition_reader import (
    SCAN_BYTES_AT_ONCE,
    PartitionReader,
    RecordBlock,
)
from goqueue.model.ids import Timestamp
from goqueue.model.record import Record
from goqueue.model.settings import TopicSettings
from goqueue.queue import PartitionState, QueueSettings
from goqueue.queue.lanes import LANES, NORMAL

OTHERS: Final = tuple(lane for lane in range(LANES) if lane != NORMAL)
STASHED_BYTES_MAX: Final = 16 * 1024 * 1024  # of records that were passed over, about
RECORD_BYTES: Final = 300  # of a record in memory beside its key and value, about
HEADER_BYTES: Final = 100  # of a header in memory beside its name and value, about
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

    @property
    def count(self) -> int:
        """Records that are loaded and not taken."""
        return sum(len(block.records) for block in self.blocks) - self.place

    def next_offset(self) -> int:
        """Everything of the lane below it was taken."""
        return self.blocks[0].records[self.place].offset if self.tidy() else self.position


class PrefetchBuffer:
    def __init__(
        self, state: PartitionState, reader: PartitionReader, ledger: Ledger | None = None
    ) -> None:
        self.state = state
        self.reader = reader
        self.ledger = ledger  # that the state is in
        self._moves = state.moves
        self.lanes = [LaneBuffer(cursor) for cursor in state.cursors]
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
        for lane, cursor in zip(self.lanes, self.state.cursors, strict=True):
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
            for lane in self.lanes:
                lane.position = max(lane.position, start)
        self.reader.begin_at(self.state.ack_floor)
        return self.reader.index.end >= self.reader.limit

    def offers(self, now: int) -> set[int]:
        """The lanes that may have something to deliver."""
        lanes = self.state.ready_lanes(now)
        normal, limit = self.lanes[NORMAL], min(self.reader.limit, self.reader.index.end)
        if normal.position < limit or normal.tidy():
            lanes.add(NORMAL)
        if self.reader.index.size:
            lanes.update(lane for lane in OTHERS if self._has_fresh(lane, limit))
        return lanes

    def _has_fresh(self, lane: int, limit: int) -> bool:
        if self.lanes[lane].tidy():
            return True
        found = self.reader.index.next(lane, self.lanes[lane].position)
        return found is not None and found < limit

    def cursors(self) -> list[int]:
        """Where the lanes stand now; never before where they stood."""
        index = self.reader.index
        stand = [index.end] * LANES
        stand[NORMAL] = self.lanes[NORMAL].next_offset()
        if index.size:
            for lane in OTHERS:
                stand[lane] = self._cursor(lane)
        return [max(pair) for pair in zip(stand, self.state.cursors, strict=True)]

    def _cursor(self, lane: int) -> int:
        if self.lanes[lane].tidy():
            return self.lanes[lane].next_offset()
        index = self.reader.index
        found = index.next(lane, self.lanes[lane].position)
        return index.end if found is None else found

    # --- for who chooses --------------------------------------------------------------------------

    def settings_in_topic(self, settings: QueueSettings) -> QueueSettings:
        """The group's settings, and the topic's where the group leaves it to the topic."""
        topic = self.reader.partition.log.settings
        if self._settings[0] is not settings or self._settings[1] is not topic:
            self._settings = settings, topic, settings.within(topic)
        return self._settings[2]

    async def window(self, lane: int, count: int) -> list[Record]:
        """Up to `count` fresh records of the lane, which stay in the buffer."""
        loaded = self.lanes[lane]
        while loaded.count < count and await self.load(lane):
            pass
        records = [record for block in loaded.blocks for record in block.records]
        return records[loaded.place : loaded.place + count] if count > 0 else []

    def last_turn(self, value: bytes | None) -> int:
        """When a value of the fairness header had its last turn; 0: never."""
        return self._served.get(value, 0)

    def note_turn(self, value: bytes | None) -> None:
        if len(self._served) >= VALUES_MAX:
            self._served.clear()
        self._turn += 1
        self._served[value] = self._turn

    # --- what was passed over ---------------------------------------------------------------------

    def stash(self, record: Record, size: int) -> None:
        size += RECORD_BYTES
        if self._stashed_bytes + size <= STASHED_BYTES_MAX and record.offset not in self._stashed:
            self._stashed[record.offset] = record
            self._stashed_bytes += size

    async def find(self, offsets: list[int]) -> dict[int, Record]:
        """These records, from what was stashed or from the log."""
        stashed = self._stashed
        found = {offset: stashed[offset] for offset in offsets if offset in stashed}
        if len(found) < len(offsets):
            found |= await self.reader.find([offset for offset in offsets if offset not in found])
        return found

    def unstash(self, offset: int, size: int) -> None:
        """It is delivered, or over."""
        if self._stashed.pop(offset, None) is not None:
            self._stashed_bytes -= size + RECORD_BYTES

    # --- loading ----------------------------------------------------------------------------------

    async def load(self, lane: int) -> bool:
        """Put the next records into the buffer; False when there are none."""
        buffer, moves = self.lanes[lane], self.state.moves
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


def record_size(record: Record) -> int:
    size = len(record.key or b"") + len(record.value or b"")
    if record.headers:
        size += sum(HEADER_BYTES + len(name) + len(value or b"") for name, value in record.headers)
    return size
