"""Histories of a leader's log, a follower that copies it, and what both must agree on."""

import random
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from hypothesis import strategies as st
from msgspec import structs

from goqueue.log import Log, open_log
from goqueue.log.aborted import AbortedRange
from goqueue.log.inspection import END
from goqueue.log.producers import NOT_SEEN, Producer
from goqueue.log.reading import TimedOffset
from goqueue.log.replica import Replica
from goqueue.model import batch as batches
from goqueue.model.batch import TRANSACTIONAL, BatchHeader, Buffer
from goqueue.model.errors import InvalidProducerEpoch, InvalidRecord
from goqueue.model.ids import Epoch, Offset, Timestamp, TopicId
from goqueue.model.markers import Marker
from goqueue.model.record import Record
from goqueue.model.settings import TopicSettings
from goqueue.testing.sim import SimDisk
from tests.unit.log import compacted_logs
from tests.unit.log.logs import settings

LEADER, FOLLOWER = "/leader", "/follower"
REPLICA = Replica(TopicId(UUID(int=1)), 0)
START = compacted_logs.START
SETTINGS = settings(segment_bytes=1024, index_interval_bytes=100)
COMPACTED = compacted_logs.settings(segment_bytes=1024, delete_retention_ms=0)

producers = st.integers(1, 3)
steps = st.one_of(
    st.tuples(st.just("plain"), st.integers(1, 4)),
    st.tuples(st.just("idempotent"), producers),
    st.tuples(st.just("transactional"), producers),
    st.tuples(st.just("commit"), producers),
    st.tuples(st.just("abort"), producers),
    st.tuples(st.just("fence"), producers),
    st.tuples(st.just("elect"), st.integers(1, 2)),
    st.tuples(st.just("roll"), st.just(0)),
)
restarts = st.tuples(st.just("restart"), st.integers(0, 2))
commits = st.tuples(st.just("commit all"), st.just(0))
compactions = st.tuples(st.just("compact"), st.just(0))
Step = tuple[str, int]


def histories(of: st.SearchStrategy[Step]) -> st.SearchStrategy[list[Step]]:
    """Long enough for several segments; each is some steps, over and over."""
    return st.tuples(st.lists(of, min_size=1, max_size=20), st.integers(1, 5)).map(
        lambda drawn: drawn[0] * drawn[1]
    )


class Restartable:
    """A log of one of several replicas that is synced, checkpointed and opened again."""

    def __init__(self, directory: str, chosen: TopicSettings) -> None:
        self.disk = SimDisk(cold_reads=0.0)
        self.directory = directory
        self.settings = chosen
        self.log = self.reopen()

    def reopen(self) -> Log:
        log, recovery = open_log(self.disk, self.directory, self.settings, REPLICA)
        assert not recovery.problems
        return log

    def sync(self) -> None:
        point = self.log.sync_point()
        self.log.run_sync(point)
        self.log.note_synced(point)

    def checkpoint(self) -> None:
        point = self.log.checkpoint_point()
        self.log.run_checkpoint(point)
        self.log.note_synced(point.sync)

    def restart(self, how: str) -> None:
        if how == "checkpoint":
            self.checkpoint()
        elif how == "power":
            self.sync()
            self.disk = self.disk.crash()
            self.log = self.reopen()
        elif how == "kill":
            self.disk = self.disk.kill()
            self.log = self.reopen()


class History(Restartable):
    """A leader's log, step by step; what a step does follows from the steps before."""

    def __init__(self, chosen: TopicSettings = SETTINGS) -> None:
        super().__init__(LEADER, chosen)
        self.epoch = Epoch(0)
        self.now = START
        self._producer_epochs = {1: 0, 2: 0, 3: 0}
        self._sequences = {1: 0, 2: 0, 3: 0}
        self._chance = random.Random(0)

    def play(self, some: list[Step]) -> "History":
        for step in some:
            self.do(step)
        return self

    def do(self, step: Step) -> None:
        self.now += self._chance.randrange(50)
        match step:
            case ("plain", count):
                self._append(count, (-1, -1, -1), 0)
            case ("idempotent" | "transactional" as kind, producer):
                self._produce(producer, TRANSACTIONAL if kind == "transactional" else 0)
            case ("commit" | "abort" as kind, producer):
                self._mark(producer, commits=kind == "commit")
            case ("fence", producer):
                self._producer_epochs[producer] += 1
                self._sequences[producer] = 0
                self._mark(producer, commits=False)
            case ("elect", by):
                self.epoch = Epoch(self.epoch + by)
            case ("roll", _) if self.log.active.size:
                self.log.roll()
            case ("restart", number):
                self.restart(("checkpoint", "kill", "power")[number])
            case ("commit all", _):
                compacted_logs.commit(self.log)
            case ("compact", _):
                compacted_logs.commit(self.log)
                compacted_logs.compact(self.disk, self.log, self.now, force=True)
            case _:
                pass

    def _produce(self, producer: int, attributes: int) -> None:
        count = self._chance.randrange(1, 4)
        sequence = self._sequences[producer]
        try:
            self._append(count, (producer, self._producer_epochs[producer], sequence), attributes)
        except InvalidRecord:
            return  # outside of the transaction that it has open
        self._sequences[producer] += count

    def _append(self, count: int, producer: tuple[int, int, int], attributes: int) -> None:
        records = [
            Record(
                0,
                self.now + self._chance.randrange(-30, 30),
                b"key %d" % self._chance.randrange(6),
                self._chance.randbytes(self._chance.randrange(60)),
            )
            for _ in range(count)
        ]
        codec = self._chance.choice((0, 0, 1))
        data = batches.encode(records, codec=codec, attributes=attributes, producer=producer)
        headers = batches.verified_headers(data)
        self.log.append(data, headers, epoch=self.epoch, now=Timestamp(self.now))

    def _mark(self, producer: int, *, commits: bool) -> None:
        try:
            marker = Marker(
                producer, self._producer_epochs[producer], coordinator_epoch=0, commits=commits
            )
            self.log.append_marker(marker, epoch=self.epoch, now=Timestamp(self.now))
        except InvalidProducerEpoch:  # pragma: no cover - epochs only rise here
            raise AssertionError from None


class State(NamedTuple):
    """What a log shows, wherever its segments begin and end."""

    content: bytes
    end_offset: Offset
    producers: list[Producer]
    open_transactions: dict[int, Offset]
    aborted: list[AbortedRange]
    epochs: list[tuple[int, int]]
    times: list[TimedOffset | None]


def state_of(log: Log, *, times: bool = True) -> State:
    """Without `times` it is quick."""
    return State(
        b"".join(segment.log.read(0, segment.size) for segment in log.segments),
        log.end_offset,
        sorted(
            (structs.replace(each, last_seen=NOT_SEEN) for each in log.producers.all()),
            key=lambda each: each.producer_id,
        ),
        dict(log.producers.open_transactions),
        log.aborted.between(Offset(0), END),
        [(entry.epoch, entry.start_offset) for entry in log.epochs.entries],
        [log.offset_for_time(time, log.end_offset) for time in times_in(log)]
        + [log.newest_record(log.end_offset)]
        if times
        else [],
    )


def times_in(log: Log) -> list[Timestamp]:
    """Moments at which the answer may change."""
    found = {header.max_timestamp for header in headers_of(log)}
    return [Timestamp(time + by) for time in sorted(found) for by in (0, 1)]


def headers_of(log: Log) -> list[BatchHeader]:
    return [header for data in chunks_of(log) for header in batches.verified_headers(data)]


def chunks_of(log: Log) -> Iterator[Buffer]:
    offset = log.start_offset
    while offset < log.end_offset:
        chunk = log.read(offset, 1 << 20, log.end_offset)
        if not chunk.data:
            return
        offset = chunk.next_offset
        yield chunk.data


class Follower(Restartable):
    def __init__(self, chosen: TopicSettings = SETTINGS) -> None:
        super().__init__(FOLLOWER, chosen)

    def fetch(self, leader: Log, bytes_max: int, batches_max: int) -> bool:
        """One round; False when there is no more."""
        offset = self.log.end_offset
        if offset >= leader.end_offset:
            return False
        data = leader.read(offset, bytes_max, leader.end_offset).data
        if not data:
            return False  # a gap at the end
        headers = batches.verified_headers(data)[:batches_max]
        self.append(memoryview(data)[: headers[-1].end], Epoch(leader.epochs.latest))
        return True

    def append(self, data: Buffer, leader_epoch: Epoch) -> None:
        self.log.append_as_follower(data, leader_epoch=leader_epoch, now=Timestamp(START))
