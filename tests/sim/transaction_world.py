"""Producers and readers of transactions against one broker that keeps dying.

Producers live as long as the test and the broker does not: what a producer was doing when the
power went is in `Producer`, and its next life goes on from there as a client does after a lost
connection: it sends the same batch again, and asks for the same end again.  Or it gives up, and a
new producer with the same name takes over.
"""

import asyncio
import random
from dataclasses import dataclass, field

from goqueue.broker import Broker
from goqueue.broker.messages.read import read_page
from goqueue.groups import CommitRequest, FetchRequest, OffsetToCommit
from goqueue.model import batch as batches
from goqueue.model.batch import TRANSACTIONAL
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, Offset, TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from goqueue.txn import ProducerIdentity
from tests.sim.transaction_history import End, History, Place, Seen, Written

HOST = "a"
PARTITIONS = 2
TOPICS = ("orders", "bills")
TIMEOUT_MS = 5_000
LONG_ENOUGH_S = 300.0  # for time-outs and upkeep, also when the clock was set back
INPUT = TopicName("input")


@dataclass
class Producer:
    """One transactional id, and what its client remembers."""

    name: str
    index: int
    bumps_epoch: bool  # which transaction protocol it speaks
    who: ProducerIdentity | None = None
    sequences: dict[Place, int] = field(default_factory=dict)
    open: Written | None = None
    sending: tuple[Place, int, bytes] | None = None  # a batch that nobody answered
    ending: bool | None = None  # an end that nobody answered: whether it commits
    finished: int = 0
    generation: int = 0  # rises with each init: older ones are zombies

    def forget(self) -> None:
        self.who, self.sequences = None, {}
        self.open = self.sending = self.ending = None


class Workload:
    def __init__(self, world: World, transactions: int = 6) -> None:
        self.world = world
        self.history = History()
        self.random = random.Random(f"{world.seed}/workload")
        self.transactions = transactions
        self.producers = [
            Producer(f"producer-{index}", index, bumps_epoch=bool(index % 2)) for index in range(3)
        ]
        self.positions: dict[Place, int] = {}
        self.stable: dict[Place, int] = {}  # the highest seen by anybody
        self.broker: Broker | None = None
        self.problems: list[str] = []
        self.done = False

    # --- lives ------------------------------------------------------------------------------------

    async def live(self, environment: Environment) -> None:
        """A broker, its producers and a reader, until the work is done or the power goes."""
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            await asyncio.sleep(1)
            for topic in (*TOPICS, INPUT):
                if broker.metadata.find(topic) is None:
                    await broker.create_topic(topic, partitions=PARTITIONS + 1)
            self.broker = broker
            reading = asyncio.create_task(self._read(broker))
            await asyncio.gather(*(self._produce(broker, each) for each in self.producers))
            reading.cancel()
            self.done = True
            await asyncio.sleep(3600)

    async def finish(self, environment: Environment) -> None:
        """Let everything end by itself, then read it all."""
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            self.broker = broker
            made = [topic for topic in TOPICS if broker.metadata.find(topic) is not None]
            places = [(topic, index) for topic in made for index in range(PARTITIONS)]
            for place in places:
                await broker.partition(*place)
            await asyncio.sleep(LONG_ENOUGH_S)
            for place in places:
                await self._read_to_end(broker, place)
            self._check_offsets(broker)
            self.done = True
            await asyncio.sleep(3600)

    # --- producing --------------------------------------------------------------------------------

    async def _produce(self, broker: Broker, producer: Producer) -> None:
        while producer.finished < self.transactions:
            try:
                await self._one_step(broker, producer)
            except GoQueueError:
                producer.forget()  # whatever it was: start again
            await asyncio.sleep(self.random.uniform(0, 0.01))

    async def _one_step(self, broker: Broker, producer: Producer) -> None:
        if producer.who is not None and self.random.random() < 0.05:
            producer.forget()  # the client dies as well
        if producer.who is None:
            await self._init(broker, producer)
        if producer.sending is not None:
            await self._send(broker, producer, *producer.sending)
        if producer.ending is not None:
            await self._end(broker, producer, producer.ending)
            return
        if producer.open is None:
            producer.open = self.history.begin(producer.name)
            producer.open.moves_offset = self.random.random() < 0.4
        for _ in range(self.random.randint(1, 4)):
            place = (self.random.choice(TOPICS), self.random.randrange(PARTITIONS))
            value = b"%d/%d" % (producer.open.number, len(producer.open.writes))
            await self._send(broker, producer, place, producer.sequences.get(place, 0), value)
        if producer.open.moves_offset:
            await self._add_offset(broker, producer)
        await self._end(broker, producer, self.random.random() < 0.7)

    async def _init(self, broker: Broker, producer: Producer) -> None:
        before = producer.generation
        who = await broker.transactions.init(producer.name, timeout_ms=TIMEOUT_MS)
        assert producer.generation == before
        producer.generation += 1
        producer.who, producer.sequences = who, {}

    async def _send(
        self, broker: Broker, producer: Producer, place: Place, sequence: int, value: bytes
    ) -> None:
        written, who = producer.open, producer.who
        assert written is not None
        assert who is not None
        producer.sending = (place, sequence, value)
        written.writes[value] = place
        for _ in range(self.random.choice((1, 1, 2))):  # the answer was lost: once more
            partition = await broker.partition(*place)
            await self._admit(broker, producer, who, TopicPartition(TopicName(place[0]), place[1]))
            appended = broker.append(partition, batch_of(broker, who, sequence, value))
            await partition.wait_committed(appended.last_offset)
            await broker.transactions.wait_durable(producer.name)
            told = written.acked.setdefault(value, appended.first_offset)
            if told != appended.first_offset:
                self.problems.append(f"{value!r}: told {told}, then {appended.first_offset}")
        producer.sequences[place] = sequence + 1
        producer.sending = None

    async def _admit(
        self, broker: Broker, producer: Producer, who: ProducerIdentity, place: TopicPartition
    ) -> None:
        """As clients of either protocol have it: the older one adds partitions by a request."""
        transactions = broker.transactions
        if not producer.bumps_epoch:
            await transactions.wait_ready(producer.name)
            transactions.announce_partitions_soon(producer.name, who, [place])
            await asyncio.sleep(self.random.choice((0.0, 0.001)))
        await transactions.wait_ready(producer.name)
        transactions.admit(producer.name, who, place, adds=producer.bumps_epoch)

    async def _add_offset(self, broker: Broker, producer: Producer) -> None:
        assert producer.open is not None
        assert producer.who is not None
        offset = OffsetToCommit(INPUT, producer.index, Offset(producer.open.number))
        request = CommitRequest(group_id=GroupId("workers"), offsets=(offset,))
        await broker.transactions.add_offsets(producer.name, producer.who, request, adds_group=True)

    async def _end(self, broker: Broker, producer: Producer, commits: bool) -> None:
        written, who = producer.open, producer.who
        assert written is not None
        assert who is not None
        producer.ending = commits
        if commits and written.commit_asked_at is None:
            written.commit_asked_at = self.world.loop.time()
        after = who
        for _ in range(self.random.choice((1, 1, 2))):
            after = await broker.transactions.end(
                producer.name,
                who,
                commits=commits,
                bumps_epoch=producer.bumps_epoch,
                waits_for_markers=self.random.random() < 0.5,
            )
            written.end = End.COMMITTED if commits else End.ABORTED
        if after != who:
            producer.sequences = {}
        producer.who = after
        producer.open = producer.ending = None
        producer.finished += 1

    # --- a zombie ---------------------------------------------------------------------------------

    async def fenced(self, broker: Broker) -> None:
        """A second producer takes over while the first one's transaction is open."""
        producer = Producer("twins", PARTITIONS, bumps_epoch=True)
        await self._init(broker, producer)
        producer.open = self.history.begin(producer.name)
        await self._send(broker, producer, (TOPICS[0], 0), 0, b"zombie")
        owner = await broker.transactions.init(producer.name, timeout_ms=TIMEOUT_MS)
        assert owner != producer.who
        for attempt in (self._send_more, self._add_offset, self._commit):
            try:
                await attempt(broker, producer)
            except GoQueueError:
                continue
            self.problems.append(f"a zombie may still {attempt.__name__}")

    async def _send_more(self, broker: Broker, producer: Producer) -> None:
        await self._send(broker, producer, (TOPICS[0], 0), 1, b"zombie again")

    async def _commit(self, broker: Broker, producer: Producer) -> None:
        await self._end(broker, producer, commits=True)

    # --- reading ----------------------------------------------------------------------------------

    async def _read(self, broker: Broker) -> None:
        while True:
            for topic in TOPICS:
                for index in range(PARTITIONS):
                    await self._read_some(broker, (topic, index))
            await asyncio.sleep(self.random.uniform(0, 0.01))

    async def _read_some(self, broker: Broker, place: Place) -> None:
        partition = await broker.partition(*place)
        offset = Offset(self.positions.get(place, 0))
        page = await read_page(partition, offset, limit=3, bytes_max=1000)
        for record in page.records:
            self.history.seen.append(self._see("reader", place, record))
        self.positions[place] = page.next_offset

    async def _read_to_end(self, broker: Broker, place: Place) -> None:
        partition = await broker.partition(*place)
        log = partition.log
        if log.stable_offset != log.high_watermark:
            self.problems.append(f"{place}: a transaction hangs at {log.stable_offset}")
        page = await read_page(partition, Offset(0), limit=10_000, bytes_max=10_000_000)
        self.history.final += [self._see("last", place, record) for record in page.records]

    def _see(self, reader: str, place: Place, record: Record) -> Seen:
        assert record.value is not None
        return Seen(reader, self.world.loop.time(), place, record.offset, record.value)

    # --- what must hold ---------------------------------------------------------------------------

    def check_stable_offsets(self) -> None:
        """They never fall: not while the broker runs, and not below what readers saw."""
        if self.broker is None:
            return
        for topic in TOPICS:
            for index in range(PARTITIONS):
                partition = self.broker.partitions.find_open(topic, index)
                if partition is None:
                    continue
                stable = partition.log.stable_offset
                before = self.stable.get((topic, index), 0)
                assert stable >= before, f"{topic}-{index}: stable offset {stable} after {before}"
                self.stable[topic, index] = stable

    def _check_offsets(self, broker: Broker) -> None:
        """A group is where the last transaction that is visible, and moved it, left it."""
        visible = {seen.value for seen in self.history.final}
        (fetched,) = (
            broker.groups.host_of(GroupId("workers"))
            .ahead.fetch([FetchRequest(group_id=GroupId("workers"))])
            .reply.reply
        )
        for producer in self.producers:
            last = max(
                (
                    each.number
                    for each in self.history.transactions
                    if each.producer == producer.name
                    and each.moves_offset
                    and each.writes.keys() & visible
                ),
                default=None,
            )
            committed = fetched.offsets.get(TopicPartition(INPUT, producer.index))
            found = None if committed is None else committed.offset
            if found != last:
                self.problems.append(f"{producer.name}: offset {found}, its data says {last}")


def batch_of(broker: Broker, who: ProducerIdentity, sequence: int, value: bytes) -> bytearray:
    record = Record(0, broker.environment.clock.now(), None, value)
    return batches.encode(
        [record], attributes=TRANSACTIONAL, producer=(who.producer_id, who.epoch, sequence)
    )
