"""An engine that writes batch after batch with many tasks, on a broker that keeps dying.

The engine is what Spark is: a driver with a checkpoint of its own, and tasks that are tried more
than once, of which some hang and write late.  It knows which versions it has decided only when the
broker said so; after a death it starts a new run and does its last version again.
"""

import asyncio
import random
from dataclasses import dataclass, field

from goqueue.broker import Broker
from goqueue.broker.messages.read import read_page
from goqueue.model import batch as batches
from goqueue.model.batch import TRANSACTIONAL
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset, TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from goqueue.txn import Attempt, ProducerIdentity

HOST = "a"
TOPIC = TopicName("results")
APPLICATION = "query"
PARTITIONS = 2
TASKS = 2
TIMEOUT_MS = 30_000
LONG_ENOUGH_S = 300.0


@dataclass
class Task:
    """One attempt, and what it wrote."""

    version: int
    name: str
    who: ProducerIdentity
    sequences: dict[int, int] = field(default_factory=dict)
    values: set[bytes] = field(default_factory=set)  # acknowledged


class Engine:
    def __init__(self, world: World, versions: int = 5) -> None:
        self.random = random.Random(f"{world.seed}/engine")
        self.versions = versions
        self.run = -1
        self.next_version = 0  # the checkpoint: what is below is known to be decided
        self.claims: dict[int, list[set[bytes]]] = {}  # what each decision asked for, by version
        self.zombies: list[Task] = []
        self.numbers = 0
        self.seen: dict[tuple[int, int], bytes] = {}  # by a reader, while all this went on
        self.producers_left = 0  # which partitions still know
        self.problems: list[str] = []
        self.done = False

    # --- lives ------------------------------------------------------------------------------------

    async def live(self, environment: Environment) -> None:
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            await asyncio.sleep(1)
            if broker.metadata.find(TOPIC) is None:
                await broker.create_topic(TOPIC, partitions=PARTITIONS)
            async with asyncio.TaskGroup() as tasks:
                side = [
                    tasks.create_task(self._haunt(broker)),
                    tasks.create_task(self._read(broker)),
                ]
                while self.next_version < self.versions:
                    await self._one_run(broker)
                for each in side:
                    each.cancel()
            self.done = True
            await asyncio.sleep(3600)

    async def finish(self, environment: Environment) -> None:
        """A last run ends what was left; then everything is read."""
        async with Broker(environment, Config(data_dir="/data")).running() as broker:
            known = broker.transactions.host.ahead.applications.find(APPLICATION)
            await broker.group_transactions.start_run(APPLICATION, known.run + 1 if known else 0)
            await self._haunt_once(broker, self.zombies)
            for index in range(PARTITIONS if broker.metadata.find(TOPIC) else 0):
                await broker.partition(TOPIC, index)  # what a crash left there is ended now
            await asyncio.sleep(LONG_ENOUGH_S)
            await self._check(broker)
            self.done = True
            await asyncio.sleep(3600)

    # --- the driver -------------------------------------------------------------------------------

    async def _one_run(self, broker: Broker) -> None:
        known = broker.transactions.host.ahead.applications.find(APPLICATION)
        self.run = known.run + 1 if known else 0
        try:
            groups = broker.group_transactions
            if self.run % 2:
                last = (await groups.start_run(APPLICATION, self.run)).last_version
            else:
                last = (await groups.start_named_run(APPLICATION, f"run {self.run}")).last_version
            if last not in (self.next_version - 1, self.next_version):
                self.problems.append(f"{last} decided, the checkpoint says {self.next_version}")
            while self.next_version < self.versions:
                await self._one_version(broker)
                if self.random.random() < 0.2:
                    return  # the driver dies; a new run follows
        except GoQueueError:
            await asyncio.sleep(0.05)

    async def _one_version(self, broker: Broker) -> None:
        version = self.next_version
        groups = broker.group_transactions
        tasks = await asyncio.gather(*(self._task(broker, version, each) for each in range(TASKS)))
        if None in tasks:
            self._checkpoint(version)
            return
        named = [task for task in tasks if task is not None]
        if self.random.random() < 0.2:
            ended = await groups.abort(APPLICATION, version, self.run)
            if ended.was_decided:
                self.problems.append(f"{version} was decided by nobody")
            self.zombies += named
            return  # and once more
        self.claims.setdefault(version, []).append(set().union(*(task.values for task in named)))
        members = [(task.name, task.who) for task in named]
        await groups.decide(APPLICATION, version, self.run, members)
        if self.random.random() < 0.3:  # the answer was lost
            again = await groups.decide(APPLICATION, version, self.run, members)
            assert again.was_decided
            assert (await groups.abort(APPLICATION, version, self.run)).was_decided
        self.zombies += named
        self._checkpoint(version)

    def _checkpoint(self, version: int) -> None:
        if self.random.random() < 0.8:
            self.next_version = version + 1
        # else: it dies before it has written that down, and decides once more

    async def _task(self, broker: Broker, version: int, number: int) -> Task | None:
        """Tried until one attempt succeeds; None when the version is decided."""
        while True:
            self.numbers += 1
            attempt = Attempt(APPLICATION, self.run, version)
            started = await broker.group_transactions.start_attempt(
                attempt, task=number, number=self.numbers, timeout_ms=TIMEOUT_MS
            )
            if started is None:
                return None
            task = Task(version, *started)
            for _ in range(self.random.randrange(4)):
                await self._write(broker, task)
            if self.random.random() < 0.8:
                return task
            self.zombies.append(task)  # it is taken for dead

    async def _write(self, broker: Broker, task: Task) -> None:
        self.numbers += 1
        value, index = b"%d/%d" % (task.version, self.numbers), self.random.randrange(PARTITIONS)
        sequence = task.sequences.get(index, 0)
        for _ in range(self.random.choice((1, 1, 2))):
            partition = await broker.partition(TOPIC, index)
            transactions = broker.transactions
            await transactions.wait_ready(task.name)
            transactions.admit(task.name, task.who, TopicPartition(TOPIC, index), adds=False)
            appended = broker.append(partition, _batch(broker, task.who, sequence, value))
            await partition.wait_committed(appended.last_offset)
            await transactions.wait_durable(task.name)
        task.sequences[index] = sequence + 1
        task.values.add(value)

    # --- beside it --------------------------------------------------------------------------------

    async def _haunt(self, broker: Broker) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0, 0.05))
            await self._haunt_once(
                broker, self.random.sample(self.zombies, min(2, len(self.zombies)))
            )

    async def _haunt_once(self, broker: Broker, zombies: list[Task]) -> None:
        for task in list(zombies):
            try:
                await self._write(broker, Task(task.version, task.name, task.who, task.sequences))
            except GoQueueError:
                continue

    async def _read(self, broker: Broker) -> None:
        while True:
            for index in range(PARTITIONS):
                for offset, value in await self._visible(broker, index):
                    known = self.seen.setdefault((index, offset), value)
                    if known != value:
                        self.problems.append(f"{index}@{offset}: {known!r}, then {value!r}")
            await asyncio.sleep(self.random.uniform(0, 0.02))

    async def _visible(self, broker: Broker, index: int) -> list[tuple[int, bytes]]:
        partition = await broker.partition(TOPIC, index)
        page = await read_page(partition, Offset(0), limit=10_000, bytes_max=10_000_000)
        return [(each.offset, each.value or b"") for each in page.records]

    # --- what must hold ---------------------------------------------------------------------------

    async def _check(self, broker: Broker) -> None:
        visible: dict[tuple[int, int], bytes] = {}
        for index in range(PARTITIONS if broker.metadata.find(TOPIC) else 0):
            visible |= {(index, at): value for at, value in await self._visible(broker, index)}
            self._check_log(broker, index)
        self._check_versions(sorted(visible.values()))
        if not self.seen.items() <= visible.items():
            self.problems.append(f"seen and gone: {self.seen.items() - visible.items()}")
        left = broker.transactions.ahead.all()
        if left:
            self.problems.append(f"left over: {[each.transactional_id for each in left]}")

    def _check_log(self, broker: Broker, index: int) -> None:
        partition = broker.partitions.find_open(TOPIC, index)
        assert partition is not None
        log = partition.log
        self.producers_left += len(log.producers.all())
        if log.stable_offset != log.high_watermark:
            self.problems.append(f"{index}: a transaction hangs at {log.stable_offset}")

    def _check_versions(self, values: list[bytes]) -> None:
        """Each version is what one of the decisions about it asked for, or not there at all."""
        if len(set(values)) != len(values):
            self.problems.append(f"there twice: {values}")
        for version in range(self.versions):
            found = {each for each in values if each.startswith(b"%d/" % version)}
            allowed = self.claims.get(version, [])
            if version >= self.next_version:
                allowed = [*allowed, set()]
            if found not in allowed:
                self.problems.append(f"version {version}: {found}, not one of {allowed}")


def _batch(broker: Broker, who: ProducerIdentity, sequence: int, value: bytes) -> bytearray:
    record = Record(0, broker.environment.clock.now(), None, value)
    return batches.encode(
        [record], attributes=TRANSACTIONAL, producer=(who.producer_id, who.epoch, sequence)
    )
